"""Sequences of several lengths in one tensor: padding them, masking the padding, reversing them."""

from collections.abc import Sequence

import torch
from torch import Tensor


def pad_sequences(sequences: Sequence[Tensor], length: int, value: float = 0) -> Tensor:
    """Sequences (T, ...) of at most `length` elements as the rows of one tensor (B, length, ...), padded at their ends.

    >>> pad_sequences([torch.tensor([1, 2]), torch.tensor([3])], length=3, value=9)
    tensor([[1, 2, 9],
            [3, 9, 9]])
    """
    padded = sequences[0].new_full((len(sequences), length, *sequences[0].shape[1:]), value)
    for row, sequence in zip(padded, sequences, strict=True):
        row[: len(sequence)] = sequence
    return padded


def is_padding(lengths: Tensor, size: int) -> Tensor:
    """The key padding mask of sequences of these lengths: (B, size), True from the end of each sequence on.

    >>> is_padding(torch.tensor([1, 3]), 3)
    tensor([[False,  True,  True],
            [False, False, False]])
    """
    return torch.arange(size, device=lengths.device) >= lengths[:, None]


def reverse_padded(x: Tensor, lengths: Tensor, dim: int) -> Tensor:
    """Each row with its first `length` elements along `dim` reversed, its padding left where it is.

    >>> reverse_padded(torch.tensor([[1, 2, 3, 0]]), torch.tensor([3]), dim=1)
    tensor([[3, 2, 1, 0]])
    """
    position = torch.arange(x.shape[dim], device=x.device)
    source = torch.where(position < lengths[:, None], lengths[:, None] - 1 - position, position)  # B, size of dim
    shape = [1] * x.dim()
    shape[0], shape[dim] = source.shape
    return x.gather(dim, source.view(shape).expand_as(x))
