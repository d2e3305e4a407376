"""Planted partitions (stochastic block models): random graphs of known groups.

N nodes in q groups of one size. Two nodes of one group are joined with probability a / N, two of different groups with
b / N, so a node has c = (a + (q - 1) b) / q neighbours on average. The edges alone carry the groups. Without
any label they can be detected, better than at random, if

    (a - b)^2 > q^2 c                (the threshold of Kesten and Stigum; for q <= 3 it is impossible below)

and belief propagation is optimal for large N. Decelle, Krzakala, Moore and Zdeborova, Asymptotic analysis of the
stochastic block model, Physical Review E 84 (2011).
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from porism.layers.gcn import Graph
from porism.tasks.graphs.data.labelled_graph import SPLITS, LabelledGraph, one_hot_features

SEED = 1
LABELLED = 10
"""Training nodes of each group."""


@dataclass(frozen=True)
class Partition:
    """The parameters of a planted partition.

    >>> Partition(nodes=900, groups=3, within=14, between=2).degree
    6.0
    >>> Partition(nodes=900, groups=3, within=14, between=2).signal > 1       # they can be detected
    True
    """

    nodes: int = 900
    groups: int = 3
    within: float = 14.0
    """a: neighbours a node would have if all nodes were of its own group."""
    between: float = 2.0
    """b: neighbours it would have if all were of another."""

    @property
    def degree(self) -> float:
        """Neighbours of a node on average, c."""
        return (self.within + (self.groups - 1) * self.between) / self.groups

    @property
    def signal(self) -> float:
        """(a - b)^2 / (q^2 c): above 1 groups can be detected without a label."""
        return (self.within - self.between) ** 2 / (self.groups**2 * self.degree)

    def draw(self, generator: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The edges (2, E), each once, and the group of every node."""
        group = generator.permutation(np.arange(self.nodes) % self.groups)
        one, other = np.triu_indices(self.nodes, k=1)
        probability = np.where(group[one] == group[other], self.within, self.between) / self.nodes
        joined = generator.random(len(one)) < probability
        return np.stack([one[joined], other[joined]]), group


def partition(model: Partition = Partition(), seed: int = SEED) -> LabelledGraph:  # noqa: B008  # it is frozen
    """A graph of the default sizes: a few labelled nodes of each group, a quarter of the rest to validate.

    The limits are the accuracy of belief propagation, given a and b and the training labels.
    """
    generator = np.random.default_rng(seed)
    edges, group = model.draw(generator)
    order = generator.permutation(model.nodes)
    labelled = np.concatenate([order[group[order] == one][:LABELLED] for one in range(model.groups)])
    rest = order[~np.isin(order, labelled)]
    quarter = len(rest) // 4
    splits = {
        split: torch.from_numpy(np.sort(members))
        for split, members in zip(SPLITS, (labelled, rest[:quarter], rest[quarter:]), strict=True)
    }
    both = torch.from_numpy(np.concatenate([edges, edges[::-1]], axis=1))
    labels = torch.from_numpy(group)
    return LabelledGraph(
        name="partition",
        graph=Graph(both, num_nodes=model.nodes),
        features=one_hot_features(model.nodes),
        labels=labels,
        classes=tuple(f"group {one}" for one in range(model.groups)),
        splits=splits,
        split_name=f"{LABELLED} labels a group",
        limits=_limits(model, both, labels, splits),
        facts={"signal over the detection threshold": model.signal},
    )


def _limits(model: Partition, both: Tensor, labels: Tensor, splits: dict[str, Tensor]) -> dict[str, float]:
    known = torch.full_like(labels, -1)
    known[splits["train"]] = labels[splits["train"]]
    affinity = torch.full((model.groups, model.groups), model.between, dtype=torch.float64)
    affinity.fill_diagonal_(model.within)
    right = belief_propagation(both, known, affinity).argmax(1) == labels
    return {split: float(right[members].double().mean()) for split, members in splits.items()}


ROUNDS = 200
TOLERANCE = 1e-6
FIELD_UPDATES = 5
"""Updates of the external field in a round, from that of the previous round on."""


def belief_propagation(both: Tensor, labels: Tensor, affinity: Tensor) -> Tensor:
    """The marginal probability of every group for every node, by belief propagation.

    both: edges (2, E), each in both directions. labels: the group (N) of a node, -1 where it is unknown.
    affinity: c (q, q), N times the probability that two nodes of these groups are joined. -> (N, q)
    """
    nodes, groups = len(labels), len(affinity)
    source, target = both
    back = _reversed(both, nodes)
    prior = torch.zeros(nodes, groups, dtype=torch.float64)
    prior[labels >= 0] = -torch.inf
    prior[labels >= 0, labels[labels >= 0]] = 0.0
    # Equal messages would stay equal for ever: every node starts from random beliefs.
    noise = torch.rand(nodes, groups, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    belief = (prior + 0.1 * noise).softmax(1)
    message, field = belief[source], prior.new_zeros(groups)  # E q, q
    for _ in range(ROUNDS):
        incoming = (message @ affinity).log()
        total = prior.index_add(0, target, incoming)  # N q
        for _ in range(FIELD_UPDATES):
            field += ((total - field).softmax(1).mean(0) * groups).log()
        total -= field
        new = (total[source] - incoming[back]).softmax(1)
        belief, change = total.softmax(1), (new - message).abs().max()
        # Damped by a half: messages would oscillate otherwise.
        message = (message + new) / 2
        if change < TOLERANCE:
            break
    return belief


def _reversed(both: Tensor, nodes: int) -> Tensor:
    """For every edge the index of its reverse."""
    source, target = both
    forward, backward = (source * nodes + target).argsort(), (target * nodes + source).argsort()
    index = torch.empty_like(forward)
    index[backward] = forward
    return index
