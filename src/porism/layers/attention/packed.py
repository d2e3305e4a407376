"""Texts of different lengths end to end, without padding between them, and the padded batch that they stand for.

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


def starts(cumulative_lengths: Sequence[int] | Tensor, T: int) -> list[int]:
    """Where each text starts and the last one ends, checked: from 0 to T, never falling."""
    found = _whole_numbers(cumulative_lengths)
    rising = all(before <= after for before, after in pairwise(found))
    if len(found) < 2 or found[0] != 0 or found[-1] != T or not rising:
        raise ShapeError(
            f"attention: cumulative lengths are {found}, wanted numbers that rise from 0 to {T}, the tokens in all. "
            "Give where each text starts, and the end."
        )
    return found


def _whole_numbers(given: Sequence[int] | Tensor) -> list[int]:
    if isinstance(given, Tensor):
        if given.dtype not in INTEGERS or given.dim() != 1 or given.is_meta:
            raise ShapeError(
                f"attention: cumulative lengths are a tensor {tuple(given.shape)} of {given.dtype} on {given.device}, "
                "wanted a list of whole numbers. Give where each text starts, and the end."
            )
        found: list[int] = given.tolist()
        return found
    if not isinstance(given, Iterable):
        raise ShapeError(f"attention: cumulative lengths are {given!r}, wanted a list, such as [0, 3, 10].")
    found = list(given)
    for number in found:
        check_whole("attention", "one of the cumulative lengths", number, 0)
    return found


def unpack(x: Tensor, borders: Sequence[int]) -> tuple[Tensor, Tensor]:
    """From (1, A, sum of lengths, D) to (texts, A, longest, D), padded with zeros, and True where a token is a pad."""
    if x.shape[0] != 1:
        raise ShapeError(
            f"attention: with cumulative lengths the batch is 1, got {tuple(x.shape)}. Put texts end to end."
        )
    lengths = [end - start for start, end in pairwise(borders)]
    longest = max(lengths)
    texts = x[0].split(lengths, dim=1)  # A T_i D each
    padded = torch.stack([torch.nn.functional.pad(text, (0, 0, 0, longest - text.shape[1])) for text in texts])
    places = torch.arange(longest, device=x.device)
    return padded, places >= torch.tensor(lengths, device=x.device)[:, None]


def pack(x: Tensor, borders: Sequence[int]) -> Tensor:
    """Back from a padded batch: what stands on pads is left out."""
    lengths = [end - start for start, end in pairwise(borders)]
    return torch.cat([text[:, :length] for text, length in zip(x, lengths, strict=True)], dim=1)[None]


class Texts:
    """Queries, keys and values of texts end to end, (1, A, T, D); `padded` are those of the batch, and its padding."""

    def __init__(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        cumulative_lengths: Sequence[int] | Tensor,
        key_padding: Tensor | None,
        offset: int,
        layer: str = "taylor",
    ) -> None:
        T, S = q.shape[2], k.shape[2]
        if key_padding is not None or offset:
            raise ShapeError(
                f"{layer}: cumulative_lengths came with key_padding or an offset. Texts end to end need none."
            )
        if T != S:
            raise ShapeError(
                f"{layer}: with cumulative lengths each text attends to itself, and {T} queries came with {S} keys. "
                "Pad the texts with key_padding."
            )
        self._borders = starts(cumulative_lengths, T)
        (q, padding), (k, _), (v, _) = (unpack(x, self._borders) for x in (q, k, v))
        self.padded = q, k, v, padding

    def end_to_end(self, answer: Tensor) -> Tensor:
        """Back from the padded batch."""
        return pack(answer, self._borders)
