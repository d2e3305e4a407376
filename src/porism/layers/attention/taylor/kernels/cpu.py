"""Queries, keys and values as the pass reads them: a few tokens at a time, tokens as columns, heads that share as one.

G key heads, each shared by R = A / G query heads, make N = B G independent sums. The queries of the R heads meet the
same keys, so they stand side by side as R times as many queries.
"""

import math
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from porism.layers.attention.pattern import Pattern
from porism.layers.attention.taylor.feature_maps import MAPS, FeatureMap, feature_map
from porism.layers.attention.taylor.kernels.decay import Decay
from porism.layers.attention.taylor.kernels.spans import Masks, Span, pieces, spans
from porism.layers.operands import has_values

BEYOND = 2**62
"""Further than any place of a text."""


class Operands:
    """q (B, A, T, D) times the scale, k (B, G, S, D), and v (B, G, S, H) with a one beside each value: [v, 1].

    The column of ones turns the sum of weights into one more column of the sum of values. A key that is only padding
    has zeros in all of them, and so no part in any sum. Numbers are float32 or better. `log_decay` (B, G, S) says how
    keys decay, None that they do not.
    """

    def __init__(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        key_padding: Tensor | None,
        scale: float,
        log_decay: Tensor | None = None,
    ) -> None:
        self.q, self.k, self.v, self.scale = q, k, v, scale
        self.dtype = torch.promote_types(q.dtype, torch.float32)
        (self.B, self.G, self.S), self.H = k.shape[:3], v.shape[3]
        self.R = q.shape[1] // self.G
        self.kept = None if key_padding is None else ~key_padding
        self.decay = None if log_decay is None else Decay(log_decay, self.dtype)

    @property
    def no_columns(self) -> Tensor:
        """A stand-in for columns, of their width and type: (D, 0)."""
        return self.q.new_empty(self.q.shape[3], 0, dtype=self.dtype)

    @cached_property
    def first_key(self) -> int | Tensor:
        """The place of the first key that is no padding, of each text if there is any, (B,); BEYOND if all are."""
        if self.kept is None or self.S == 0:
            return 0 if self.S else BEYOND
        # Most texts are padded after their end, and one look is cheaper than many small operations.
        if has_values(self.kept) and bool(self.kept[:, 0].all()):
            return 0
        return torch.where(self.kept, self._positions, BEYOND).amin(1)

    @property
    def last_key(self) -> int | Tensor:
        """The place of the last such key; -1 if all are padding."""
        if self.kept is None or self.S == 0:
            return self.S - 1
        return torch.where(self.kept, self._positions, -1).amax(1)

    @property
    def _positions(self) -> Tensor:
        return torch.arange(self.S, device=self.k.device)

    def keys_in(self, state: Tensor) -> Tensor:
        """How many keys a state (N, M, H+1) sums over, (B, G): the first feature of every map is the constant 1."""
        return state.select(1, 0).select(1, self.H).view(self.B, self.G)

    def first_state(self, M: int, given: Tensor | None) -> Tensor:
        """Sums over no key, or a copy of those given: (N, M, H+1)."""
        if given is None:
            return self.k.new_zeros(self.B * self.G, M, self.H + 1, dtype=self.dtype)
        return given.to(self.dtype, copy=True, memory_format=torch.contiguous_format)

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

    def decay_of_state(self, span: Span) -> Tensor | None:
        """What is left of the state of a span at each of its queries, (N, R n, 1); None where nothing decays."""
        if self.decay is None:
            return None
        return self.decay.since(span.fresh.stop - 1, span.queries).repeat(1, self.R, 1)

    def limits(self, span: Span, mask: Tensor) -> Tensor:
        """What weights `by_head` of a span are multiplied by: its mask, and the decay from its keys to its queries."""
        return mask if self.decay is None else self.decay.between(span.queries, span.masked, mask)

    def by_head(self, w: Tensor) -> Tensor:
        """Weights (N, R n, m) as (N, R, n, m), a view."""
        return w.view(w.shape[0], self.R, w.shape[1] // self.R, w.shape[2])

    def _shared(self, x: Tensor, tokens: slice) -> Tensor:
        """(B, A, T, D) as (B, G, R, n, D), a view."""
        # Not by unflatten, which is written in Python and takes longer than all else that a short span needs here.
        part = x[:, :, tokens]
        return part.view(self.B, self.G, self.R, *part.shape[2:])


class Division:
    """1 / t for the sum of weights t of each query, and 0 for a query that sees no key.

    Whether it sees one is known from its position and never from t. Positive weights have a positive sum: where it
    comes out otherwise, rounding or overflow has taken it, and the answer is NaN. Weights of both signs may cancel to
    0, and a number divided by 0 is none either.

    `first` is the state (N, M, H+1) that the pass starts from. Every query sees the keys in it.
    """

    def __init__(
        self, operands: Operands, pattern: Pattern, offset: int, positive: bool, first: Tensor | None = None
    ) -> None:
        self._operands, self._offset, self._positive, self._first = operands, offset, positive, first
        self._start = _first_seeing(operands, pattern)

    def inverse(self, total: Tensor, queries: slice) -> Tensor:
        """(N, R n, 1) -> (N, R n, 1)."""
        inverted = inverse(total, self._positive)
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
        positions = queries.start + self._offset, queries.stop + self._offset
        if isinstance(self._start, int) and positions[0] >= self._start:
            return None
        B, G, R, n = self._operands.B, self._operands.G, self._operands.R, positions[1] - positions[0]
        blind = torch.arange(*positions, device=self._operands.k.device) < self._start
        if self._first is not None:
            blind = blind & (self._operands.keys_in(self._first) == 0).view(B, G, 1, 1)
        return blind.expand(B, G, R, n).reshape(B * G, R * n, 1)


def inverse(total: Tensor, positive: bool) -> Tensor:
    """1 / t, or NaN where t is no sum of weights: of `positive` ones it is above 0, of others not infinite."""
    inverted = total.reciprocal()
    if positive:
        return torch.threshold(inverted, 0, math.nan)
    return inverted.masked_fill(inverted == 0, math.nan)


def _first_seeing(operands: Operands, pattern: Pattern) -> int | Tensor:
    """The place from which on queries see a key: for all texts, or for each, fit for (B, G, A / G, queries)."""
    key = operands.first_key
    if isinstance(key, int):
        return -BEYOND if pattern.kind == "full" and key < BEYOND else key
    if pattern.kind == "full":
        key = torch.where(key < BEYOND, -BEYOND, BEYOND)
    elif pattern.kind == "block-causal" and pattern.window_size:
        # A query sees its own block, and those before.
        key = key // pattern.window_size * pattern.window_size
    return key.view(-1, 1, 1, 1)


class SeriesSettings(NamedTuple):
    """What to compute, beside the tensors."""

    map: str
    order: int
    pattern: Pattern
    scale: float
    offset: int = 0
    return_state: bool = False


def prepared(
    settings: SeriesSettings,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    key_padding: Tensor | None,
    log_decay: Tensor | None,
    first: Tensor | None,
) -> tuple[Operands, FeatureMap, Division]:
    """What both passes read, and how."""
    operands = Operands(q, k, v, key_padding, settings.scale, log_decay)
    phi = feature_map(settings.map, settings.order, operands.no_columns)
    return operands, phi, Division(operands, settings.pattern, settings.offset, phi.is_positive, first)


def forward(
    settings: SeriesSettings,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    key_padding: Tensor | None = None,
    log_decay: Tensor | None = None,
    first: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The answer (B, A, T, H), each query's sum of weights (B, A, T, 1), and the last state (N, M, H+1).

    That sums over all keys, after those of the `first` one; it is empty unless it is to be returned. `log_decay` is
    (B, G, S), 0 for a pad; keys decay in causal passes over as many queries as keys only.
    """
    operands, phi, division = prepared(settings, q, k, v, key_padding, log_decay, first)
    state = operands.first_state(phi.count, first)
    (B, A, T, _), S, H = q.shape, k.shape[2], operands.H
    # Tokens before heads in memory, as a projection after it reads them.
    answer = q.new_empty(B, T, A, H).transpose(1, 2)
    totals = state.new_empty(B, A, T, 1)
    masks = Masks(settings.pattern, settings.offset, state)
    folded = 0
    for span in spans(settings.pattern, T, S, settings.offset):
        fold(operands, phi, state, span.fresh)
        folded = span.fresh.stop
        x = operands.queries(span.queries)
        # sum of w_ij [v_j, 1] = phi(q_i) . sum of phi(k_j) [v_j, 1]
        sums = phi(x).mT @ state
        if (decay := operands.decay_of_state(span)) is not None:
            # but exp(L_i - L_j) w_ij: the state has decayed up to the span's first query
            sums.mul_(decay)
        if span.has_masked:
            # and w_ij as it is for the keys that only some queries of the span look at
            w = phi.weights(x, operands.keys(span.masked))
            operands.by_head(w).mul_(operands.limits(span, masks.of(span)))
            torch.baddbmm(sums, w, operands.values(span.masked), out=sums)
        # z_i = sum of w_ij v_j / sum of w_ij
        operands.write_rows(answer, span.queries, sums[..., :H] * division.inverse(sums[..., H:], span.queries))
        operands.write_rows(totals, span.queries, sums[..., H:])
    if not settings.return_state:
        return answer, totals, state.new_empty(0)
    fold(operands, phi, state, slice(folded, S))
    return answer, totals, state


def fold(operands: Operands, phi: FeatureMap, state: Tensor, keys: slice) -> None:
    """state += sum of phi(k_j) [v_j, 1] over these keys, all decayed up to the last of them."""
    for few in pieces(keys):
        values = operands.values(few)
        if operands.decay is not None:
            state.mul_(operands.decay.over(few))
            values = values * operands.decay.until(few.stop - 1, few)
        torch.baddbmm(state, phi(operands.keys(few)), values, out=state)


class SeriesProducts(NamedTuple):
    """Operations of matrix products in a forward pass: twice their multiplications."""

    keys: int
    """phi(k) [v, 1], summed over the keys that are not weighed one by one"""
    rest: int
    """and over those that only a state that is returned has"""
    queries: int
    """phi(q) and those sums"""
    scores: int
    """q k^T of pairs that are weighed one by one"""
    values: int
    """and their weights times [v, 1]"""

    def backward(self) -> int:
        """Operations of the backward pass: sums and scores are computed again, and each product turns into two."""
        return 3 * self.keys + 2 * self.rest + 2 * self.queries + 3 * self.scores + 2 * self.values


def products(settings: SeriesSettings, q: tuple[int, ...], k: tuple[int, ...], v: tuple[int, ...]) -> SeriesProducts:
    """Of operands of these shapes."""
    (B, A, T, D), (_, G, S, _), H = q, k, v[3]
    plan = spans(settings.pattern, T, S, settings.offset)
    folded = plan[-1].fresh.stop if plan else 0
    pairs = sum((span.queries.stop - span.queries.start) * (span.masked.stop - span.masked.start) for span in plan)
    M = MAPS[settings.map].size(settings.order, D)
    key = 2 * B * G * M * (H + 1)
    return SeriesProducts(
        keys=key * folded,
        rest=key * (S - folded) if settings.return_state else 0,
        queries=2 * B * A * T * M * (H + 1),
        # The diagonal map weighs a pair by its products and by those of its squares.
        scores=2 * B * A * pairs * (2 * D if settings.map == "diagonal" else D),
        values=2 * B * A * pairs * (H + 1),
    )
