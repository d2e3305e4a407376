"""Packed sequences: of different lengths, end to end, without padding; and the padded batch that they stand for.

>>> packed = torch.randn(1, 8, 10, 64)                     # 8 heads, 3 + 5 + 2 tokens of width 64
>>> padded, padding = unpack(packed, starts([0, 3, 8, 10], 10))
>>> padded.shape, padding.sum(1)
(torch.Size([3, 8, 5, 64]), tensor([2, 0, 3]))
>>> torch.equal(pack(padded, starts([0, 3, 8, 10], 10)), packed)
True
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise

import torch
from torch import Tensor

from porism.errors import ShapeError
from porism.layers.operands import INTEGERS, check_whole


def starts(cu_seqlens: Sequence[int] | Tensor, T: int) -> list[int]:
    """Where each sequence starts and the last one ends, checked: from 0 to T, never falling."""
    numbers = _whole_numbers(cu_seqlens)
    rising = all(start <= end for start, end in pairwise(numbers))
    if len(numbers) < 2 or numbers[0] != 0 or numbers[-1] != T or not rising:
        raise ShapeError(
            f"attention: cu_seqlens are {numbers}, expected numbers that rise from 0 to {T}, the tokens in all. "
            "Give where each sequence starts, and the end."
        )
    return numbers


def _whole_numbers(given: Sequence[int] | Tensor) -> list[int]:
    if isinstance(given, Tensor):
        if given.dtype not in INTEGERS or given.dim() != 1 or given.is_meta:
            raise ShapeError(
                f"attention: cu_seqlens are a tensor {tuple(given.shape)} of {given.dtype} on {given.device}, "
                "expected a list of whole numbers. Give where each sequence starts, and the end."
            )
        numbers: list[int] = given.tolist()
        return numbers
    if not isinstance(given, Iterable):
        raise ShapeError(f"attention: cu_seqlens are {given!r}, expected a list, such as [0, 3, 10].")
    numbers = list(given)
    for number in numbers:
        check_whole("attention", "one of cu_seqlens", number, 0)
    return numbers


def unpack(x: Tensor, borders: Sequence[int]) -> tuple[Tensor, Tensor]:
    """From (1, A, sum of lengths, D) to (sequences, A, longest, D), zeros after, and True where a token is a pad."""
    lengths = [end - start for start, end in pairwise(borders)]
    longest = max(lengths)
    sequences = x[0].split(lengths, dim=1)  # A T_i D each
    padded = torch.stack([torch.nn.functional.pad(one, (0, 0, 0, longest - one.shape[1])) for one in sequences])
    positions = torch.arange(longest, device=x.device)
    return padded, positions >= torch.tensor(lengths, device=x.device)[:, None]


def pack(x: Tensor, borders: Sequence[int]) -> Tensor:
    """Back from a padded batch: what stands on pads is left out."""
    lengths = [end - start for start, end in pairwise(borders)]
    return torch.cat([one[:, :length] for one, length in zip(x, lengths, strict=True)], dim=1)[None]
