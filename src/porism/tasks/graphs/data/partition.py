"""Planted partitions: graphs drawn from groups that are known, to be found again.

N nodes in q groups of one size. Two nodes of one group are joined with probability a / N, two of different groups with
b / N, so a node has c = (a + (q - 1) b) / q neighbours on average. Nothing but the graph tells the groups. Without any
label they can be found, better than by chance, if

    (a - b)^2 > q^2 c                (the threshold of Kesten and Stigum; for q <= 3 below it nobody can)

and belief propagation finds what there is to find. Decelle, Krzakala, Moore and Zdeborova, Asymptotic analysis of the
stochastic block model, Physical Review E 84 (2011).
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from porism.layers.gcn import Graph, SparseFeatures
from porism.tasks.graphs.data.labelled_graph import SPLITS, LabelledGraph

SEED = 1
TOLD = 10
"""Nodes of each group whose label is told."""


@dataclass(frozen=True)
class Partition:
    """What a planted partition is drawn from.

    >>> Partition(nodes=900, groups=3, within=14, between=2).degree
    6.0
    >>> Partition(nodes=900, groups=3, within=14, between=2).signal > 1       # they can be found
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
        chance = np.where(group[one] == group[other], self.within, self.between) / self.nodes
        joined = generator.random(len(one)) < chance
        return np.stack([one[joined], other[joined]]), group


def partition(drawn_from: Partition = Partition(), seed: int = SEED) -> LabelledGraph:  # noqa: B008  # it is frozen
    """A graph of the default sizes: a few nodes of each group told, a quarter of the rest to validate.

    The limits are what belief propagation gets right, which knows a and b and the labels that are told.
    """
    generator = np.random.default_rng(seed)
    edges, group = drawn_from.draw(generator)
    order = generator.permutation(drawn_from.nodes)
    told = np.concatenate([order[group[order] == one][:TOLD] for one in range(drawn_from.groups)])
    rest = order[~np.isin(order, told)]
    quarter = len(rest) // 4
    splits = {
        split: torch.from_numpy(np.sort(members))
        for split, members in zip(SPLITS, (told, rest[:quarter], rest[quarter:]), strict=True)
    }
    both = torch.from_numpy(np.concatenate([edges, edges[::-1]], axis=1))
    labels = torch.from_numpy(group)
    return LabelledGraph(
        name="partition",
        graph=Graph.from_edges(both, drawn_from.nodes),
        features=_own_numbers(drawn_from.nodes),
        labels=labels,
        classes=tuple(f"group {one}" for one in range(drawn_from.groups)),
        splits=splits,
        split_name=f"{TOLD} labels a group",
        limits=_limits(drawn_from, both, labels, splits),
        facts={"signal over the detection threshold": drawn_from.signal},
    )


def _limits(drawn_from: Partition, both: Tensor, labels: Tensor, splits: dict[str, Tensor]) -> dict[str, float]:
    told = torch.full_like(labels, -1)
    told[splits["train"]] = labels[splits["train"]]
    affinity = torch.full((drawn_from.groups, drawn_from.groups), drawn_from.between, dtype=torch.float64)
    affinity.fill_diagonal_(drawn_from.within)
    right = beliefs(both, told, affinity).argmax(1) == labels
    return {split: float(right[members].double().mean()) for split, members in splits.items()}


def _own_numbers(nodes: int) -> SparseFeatures:
    """Every node has one feature: that it is itself."""
    from porism.layers.gcn.adjacency.csr import Csr

    there = Csr(torch.arange(nodes + 1), torch.arange(nodes, dtype=torch.int32), torch.ones(nodes))
    return SparseFeatures(there, nodes)


ROUNDS = 200
TOLERANCE = 1e-6
BALANCING = 5
"""Corrections of h in a round: it goes on from the round before."""


def beliefs(both: Tensor, told: Tensor, affinity: Tensor) -> Tensor:
    """The probability of every group for every node.

    both: edges (2, E), each in both directions. told: the group (N) of a node, -1 where it is to be found.
    affinity: c (q, q), N times the probability that two nodes of these groups are joined. -> (N, q)
    """
    nodes, groups = len(told), len(affinity)
    source, target = both
    back = _reversed(both, nodes)
    prior = torch.zeros(nodes, groups, dtype=torch.float64)
    prior[told >= 0] = -torch.inf
    prior[told >= 0, told[told >= 0]] = 0.0
    # Equal messages would stay equal for ever: every node starts from a guess of its own.
    guess = torch.rand(nodes, groups, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    belief = (prior + 0.1 * guess).softmax(1)
    message, field = belief[source], prior.new_zeros(groups)  # E q, q
    for _ in range(ROUNDS):
        heard = (message @ affinity).log()
        total = prior.index_add(0, target, heard)  # N q
        for _ in range(BALANCING):
            field += ((total - field).softmax(1).mean(0) * groups).log()
        total -= field
        after = (total[source] - heard[back]).softmax(1)
        belief, change = total.softmax(1), (after - message).abs().max()
        # Half of the way each round: messages that answer each other would else swing for ever.
        message = (message + after) / 2
        if change < TOLERANCE:
            break
    return belief


def _reversed(both: Tensor, nodes: int) -> Tensor:
    """For every edge the place of the one that leads back."""
    source, target = both
    there, here = (source * nodes + target).argsort(), (target * nodes + source).argsort()
    place = torch.empty_like(there)
    place[here] = there
    return place
