"""Belief propagation on a planted partition: what is to be known of the groups, from the graph and some labels.

The message from i to j is what i would believe of its own group if j were not there:

    m[i -> j][s]  ~  prior[i][s] exp(-h[s]) prod over k in N(i) without j of  sum_t c[t][s] m[k -> i][t]

prior is 1 for a label that is told. h is what not being joined to all the others says; it is chosen such that the
beliefs add up to the sizes of the groups, which are known to be equal. On a sparse graph, which looks like a tree from
every node, this comes to the true probabilities as N grows.
"""

import torch
from torch import Tensor

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
