"""Which examples train, validate and test, where the data does not say: stratified by class where classes are known."""

import torch
from torch import Tensor

from porism.errors import DataError

LEAST = 3


def split_positions(count: int, shares: dict[str, float], seed: int, labels: Tensor | None = None) -> dict[str, Tensor]:
    """Positions by split: train, and those of `shares`. With labels each class is shared out by itself.

    >>> labels = torch.tensor([0] * 80 + [1] * 20)
    >>> found = split_positions(100, {"valid": 0.1, "test": 0.1}, seed=0, labels=labels)
    >>> {split: labels[positions].bincount().tolist() for split, positions in found.items()}
    {'train': [64, 16], 'valid': [8, 2], 'test': [8, 2]}
    """
    if count < LEAST:
        raise DataError(f"data: {count} examples, expected at least {LEAST}: one each to train, validate and test.")
    draw = torch.Generator().manual_seed(seed)
    order = torch.randperm(count, generator=draw)
    if labels is not None:
        order = _interleaved(order, labels)
    found: dict[str, Tensor] = {}
    start = 0
    for split, share in shares.items():
        size = min(max(1, round(share * count)), count - start - (len(shares) - len(found)))
        found[split] = order[start : start + size].sort().values
        start += size
    return {"train": order[start:].sort().values, **found}


def _interleaved(order: Tensor, labels: Tensor) -> Tensor:
    """The same order with the classes spread evenly: any stretch of it holds each class by its share."""
    shuffled = labels[order]
    sizes = torch.bincount(shuffled)
    rank = torch.zeros(len(order), dtype=torch.float64)
    for label in sizes.nonzero().flatten().tolist():
        of_class = (shuffled == label).nonzero().flatten()
        rank[of_class] = (torch.arange(len(of_class)).double() + 0.5) / len(of_class)
    return order[rank.argsort(stable=True)]
