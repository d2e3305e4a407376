"""The division by the sum of weights: 0 for a query that sees no key, NaN where nothing is left of the sum."""

import math

import torch
from torch import Tensor

from porism.layers.pattern import Pattern
from porism.layers.taylor.operands import BEYOND, Operands


class Division:
    """1 / t for the sum of weights t of each query, and 0 for a query that sees no key.

    Whether it sees one is told by its place and never by t. Positive weights have a positive sum: where it comes out
    otherwise, rounding or overflow has taken it, and the answer is NaN. Weights of both signs may cancel to 0, and a
    number divided by 0 is none either.

    `first` is the state (N, M, H+1) that the pass starts from. Every query sees the keys in it.
    """

    def __init__(
        self, operands: Operands, pattern: Pattern, offset: int, positive: bool, first: Tensor | None = None
    ) -> None:
        self._operands, self._offset, self._positive, self._first = operands, offset, positive, first
        self._start = _first_seeing(operands, pattern)

    def inverse(self, total: Tensor, queries: slice) -> Tensor:
        """(N, R n, 1) -> (N, R n, 1)."""
        inverted = total.reciprocal()
        if self._positive:
            inverted = torch.threshold(inverted, 0, math.nan)
        else:
            inverted = inverted.masked_fill(inverted == 0, math.nan)
        blind = self._blind(queries)
        return inverted if blind is None else inverted.masked_fill(blind, 0)

    def first_seeing(self, T: int) -> Tensor:
        """For each key head the first of T queries that sees a key, or T: (N,), int32."""
        B, G = self._operands.B, self._operands.G
        start = torch.as_tensor(self._start, device=self._operands.k.device).view(-1, 1)
        if self._first is not None:
            start = torch.where(self._operands.keys_in(self._first) > 0, -BEYOND, start)
        return (start - self._offset).clamp(0, T).int().expand(B, G).flatten().contiguous()

    def _blind(self, queries: slice) -> Tensor | None:
        """True for a query that sees no key, (N, R n, 1); None where every query sees one."""
        places = queries.start + self._offset, queries.stop + self._offset
        if isinstance(self._start, int) and places[0] >= self._start:
            return None
        B, G, R, n = self._operands.B, self._operands.G, self._operands.R, places[1] - places[0]
        blind = torch.arange(*places, device=self._operands.k.device) < self._start
        if self._first is not None:
            blind = blind & (self._operands.keys_in(self._first) == 0).view(B, G, 1, 1)
        return blind.expand(B, G, R, n).reshape(B * G, R * n, 1)


def _first_seeing(operands: Operands, pattern: Pattern) -> int | Tensor:
    """The place from which on queries see a key: for all texts, or for each, fit for (B, G, A / G, queries)."""
    key = operands.first_key
    if isinstance(key, int):
        return -BEYOND if pattern.kind == "full" and key < BEYOND else key
    if pattern.kind == "full":
        key = torch.where(key < BEYOND, -BEYOND, BEYOND)
    elif pattern.kind == "block-causal" and pattern.window:
        # A query sees its own block, and those before.
        key = key // pattern.window * pattern.window
    return key.view(-1, 1, 1, 1)
