"""Queries, keys and values as the pass reads them: a few tokens at a time, tokens as columns, heads that share as one.

G key heads, each shared by R = A / G query heads, make N = B G independent sums. The queries of the R heads meet the
same keys, so they stand side by side as R times as many queries.
"""

from functools import cached_property

import torch
from torch import Tensor

from porism.layers.operands import has_values

BEYOND = 2**62
"""Further than any place of a text."""


class Operands:
    """q (B, A, T, D) times the scale, k (B, G, S, D), and v (B, G, S, H) with a one beside each value: [v, 1].

    The column of ones turns the sum of weights into one more column of the sum of values. A key that is only padding
    has zeros in all of them, and so no part in any sum. Numbers are float32 or better.
    """

    def __init__(self, q: Tensor, k: Tensor, v: Tensor, key_padding: Tensor | None, scale: float) -> None:
        self.q, self.k, self.v, self.scale = q, k, v, scale
        self.dtype = torch.promote_types(q.dtype, torch.float32)
        (self.B, self.G, self.S), self.H = k.shape[:3], v.shape[3]
        self.R = q.shape[1] // self.G
        self.kept = None if key_padding is None else ~key_padding

    @property
    def no_columns(self) -> Tensor:
        """A stand-in for columns, of their width and type: (D, 0)."""
        return self.q.new_empty(self.q.shape[3], 0, dtype=self.dtype)

    @cached_property
    def first_key(self) -> int | Tensor:
        """The place of the first key that is no padding, of each text if there is any, (B,); BEYOND if all are."""
        if self.kept is None or self.S == 0:
            return 0 if self.S else BEYOND
        # Most texts are padded behind their end, and one look is cheaper than many small operations.
        if has_values(self.kept) and bool(self.kept[:, 0].all()):
            return 0
        return torch.where(self.kept, self._places, BEYOND).amin(1)

    @property
    def last_key(self) -> int | Tensor:
        """The place of the last such key; -1 if all are padding."""
        if self.kept is None or self.S == 0:
            return self.S - 1
        return torch.where(self.kept, self._places, -1).amax(1)

    @property
    def _places(self) -> Tensor:
        return torch.arange(self.S, device=self.k.device)

    def keys_in(self, state: Tensor) -> Tensor:
        """How many keys a state (N, M, H+1) sums over, (B, G): the first feature of every map is the constant 1."""
        return state.select(1, 0).select(1, self.H).view(self.B, self.G)

    def first_state(self, M: int, given: Tensor | None) -> Tensor:
        """Sums over no key, or a copy of those given: (N, M, H+1)."""
        if given is None:
            return self.k.new_zeros(self.B * self.G, M, self.H + 1, dtype=self.dtype)
        return given.to(self.dtype, copy=True)

    def queries(self, tokens: slice) -> Tensor:
        """Columns, times the scale: (N, D, R n)."""
        part = self._shared(self.q, tokens)  # B G R n D
        n, D = part.shape[3:]
        columns = part.permute(0, 1, 4, 2, 3).reshape(self.B * self.G, D, self.R * n)
        return columns.to(self.dtype) * self.scale

    def keys(self, tokens: slice) -> Tensor:
        """Columns: (N, D, n)."""
        return self.k[:, :, tokens].mT.flatten(0, 1).to(self.dtype)

    def values(self, tokens: slice) -> Tensor:
        """Rows [v, 1]: (N, n, H+1)."""
        part = self.v[:, :, tokens]
        rows = torch.cat([part, torch.ones_like(part[..., :1])], dim=-1).to(self.dtype)
        if self.kept is not None:
            rows = rows * self.kept[:, None, tokens, None]
        return rows.flatten(0, 1)

    def rows(self, x: Tensor, tokens: slice) -> Tensor:
        """What belongs to queries, (B, A, T, H), as rows: (N, R n, H)."""
        part = self._shared(x, tokens)
        return part.reshape(self.B * self.G, self.R * part.shape[3], part.shape[4]).to(self.dtype)

    def write_rows(self, x: Tensor, tokens: slice, rows: Tensor) -> None:
        """Back from rows to their place in x."""
        place = self._shared(x, tokens)
        place.copy_(rows.view(place.shape))

    def write_queries(self, x: Tensor, tokens: slice, columns: Tensor) -> None:
        """Back from columns to their place in x, times the scale: what reaches scaled queries, for the queries."""
        place = self._shared(x, tokens)
        B, G, R, n, D = place.shape
        place.copy_(columns.view(B, G, D, R, n).permute(0, 1, 3, 4, 2) * self.scale)

    def add_keys(self, x: Tensor, tokens: slice, columns: Tensor) -> None:
        """Adds columns to their place in x."""
        place = x[:, :, tokens]
        place.add_(columns.view(self.B, self.G, *columns.shape[1:]).mT)

    def add_values(self, x: Tensor, tokens: slice, rows: Tensor) -> None:
        """Adds rows to their place in x; the last column belongs to the ones, which are given, and pads get nothing."""
        rows = rows.view(self.B, self.G, *rows.shape[1:])[..., : self.H]
        if self.kept is not None:
            rows = rows * self.kept[:, None, tokens, None]
        place = x[:, :, tokens]
        place.add_(rows)

    def by_head(self, w: Tensor) -> Tensor:
        """Weights (N, R n, m) as (N, R, n, m), a view."""
        return w.view(w.shape[0], self.R, w.shape[1] // self.R, w.shape[2])

    def _shared(self, x: Tensor, tokens: slice) -> Tensor:
        """(B, A, T, D) as (B, G, R, n, D), a view."""
        # Not by unflatten, which is written in Python and takes longer than all else that a short span needs here.
        part = x[:, :, tokens]
        return part.view(self.B, self.G, self.R, *part.shape[2:])
