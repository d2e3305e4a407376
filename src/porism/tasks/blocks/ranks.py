"""Ranks of values, equal ones sharing theirs: what AUC and Spearman's correlation are read off."""

from torch import Tensor


def ranks(values: Tensor) -> Tensor:
    """Ranks from 1 up; equal values share the mean of theirs.

    >>> ranks(torch.tensor([0.3, 0.1, 0.3])).tolist()
    [2.5, 1.0, 2.5]
    """
    _, which, counts = values.unique(return_inverse=True, return_counts=True)
    last = counts.cumsum(0).double()
    shared: Tensor = last - (counts - 1) / 2
    return shared[which]
