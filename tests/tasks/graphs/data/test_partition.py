"""The planted partition: drawn as documented, with a known threshold and a limit that is beaten only by chance."""

import numpy as np
import pytest
import torch

from porism.tasks.graphs.data.partition import Partition, belief_propagation, partition


def test_edges_are_as_many_as_their_probabilities_say() -> None:
    model = Partition(nodes=1200, groups=3, within=12, between=3)
    edges, group = model.draw(np.random.default_rng(0))
    inside = (group[edges[0]] == group[edges[1]]).sum()
    # A third of all pairs is of one group; the scatter is that of counts, and four of its deviations are allowed.
    for found, expected in ((inside, 1200 * 12 / 6), (edges.shape[1] - inside, 1200 * 3 / 3)):
        assert abs(found - expected) < 4 * expected**0.5
    assert model.degree == 6


def test_the_threshold_is_kestens_and_stigums() -> None:
    # |a - b| = q sqrt(c)
    q, a, b = 2, 5.0, 1.0
    assert Partition(groups=q, within=a, between=b).signal == pytest.approx((a - b) ** 2 / (q**2 * (a + b) / 2))
    assert Partition(groups=4, within=16, between=0).signal == pytest.approx(4)
    assert Partition(groups=3, within=4, between=4).signal == 0


def limit(within: float, between: float) -> float:
    return partition(Partition(nodes=600, within=within, between=between), seed=3).limits["test"]


def test_groups_far_above_the_threshold_are_found_and_far_below_are_not() -> None:
    assert limit(17.9, 0.05) > 0.95
    assert limit(6.3, 5.85) < 0.45


def test_labels_that_are_given_are_kept() -> None:
    drawn = partition(Partition(nodes=90))
    assert drawn.limits["train"] == 1


def test_belief_propagation_on_a_tree_gives_the_true_probabilities() -> None:
    """Two groups on a star with one leaf labelled, against the sum over labellings that split evenly on average."""
    edges = torch.tensor([[0, 1, 0, 2, 0, 3], [1, 0, 2, 0, 3, 0]])
    labels = torch.tensor([-1, 0, 1, -1])
    affinity = torch.tensor([[3.0, 1.0], [1.0, 3.0]], dtype=torch.float64)
    marginals = belief_propagation(edges, labels, affinity)
    # One leaf of each group is labelled: by symmetry the hub and the last leaf may be either.
    assert marginals[0].tolist() == pytest.approx([0.5, 0.5], abs=1e-4)
    assert marginals[3].tolist() == pytest.approx([0.5, 0.5], abs=1e-4)
    assert marginals[1].tolist() == [1, 0]


def test_the_same_seed_gives_the_same_graph() -> None:
    small = Partition(nodes=63)
    assert partition(small, 1).fingerprint() == partition(small, 1).fingerprint() != partition(small, 2).fingerprint()
