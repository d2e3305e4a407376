"""Random splits: for graphs without one, and on request."""

from dataclasses import replace

import torch
from torch import Tensor

from porism.errors import DataError
from porism.tasks.graphs.data.labelled_graph import SPLITS, UNKNOWN, LabelledGraph

LABELLED = 20
"""Labels of each class to train on, where there are enough: as in Planetoid's splits."""
VALID, TEST = 500, 1000


def split_randomly(data: LabelledGraph, seed: int) -> LabelledGraph:
    """The same graph with 20 nodes of each class to train, 500 to validate and 1,000 to test, drawn from the seed.

    In a smaller graph half of a class's nodes train at most, a third of the rest validates and the others test.
    """
    generator = torch.Generator().manual_seed(seed)
    known = (data.labels != UNKNOWN).nonzero()[:, 0]
    order = known[torch.randperm(len(known), generator=generator)]
    train = torch.cat([_some_of(order, data.labels, number) for number in range(len(data.classes))])
    rest = order[~torch.isin(order, train)]
    if len(rest) < 2:
        raise DataError(
            f"{data.name}: {len(known)} nodes with a label are too few for a random split: {len(train)} to train leave "
            f"{len(rest)} to validate and test. Label more nodes, or say which of them are for what."
        )
    valid = max(1, min(VALID, len(rest) // 3))
    parts = train, rest[:valid], rest[valid : valid + TEST]
    splits = {split: members.sort().values for split, members in zip(SPLITS, parts, strict=True)}
    # Limits were computed for the labels of the previous split.
    return replace(data, splits=splits, split_name=f"random ({seed})", limits={})


def _some_of(order: Tensor, labels: Tensor, number: int) -> Tensor:
    members = order[labels[order] == number]
    return members[: min(LABELLED, -(-len(members) // 2))]
