"""The state as the layer has it, (N, M, H+1), and as the kernels have it: features in tiles, the weights apart.

The layer's features are 1, x and the turns, with 1 / sqrt 2 at a turn that is its own opposite; those of the kernels
are the turns, x and 1, with no factor on the side of the keys. So a sum over keys is theirs, times that factor. A
gradient goes the other way, and so does its factor; the kernels have its weights with the opposite sign.
"""

from functools import cache
from math import sqrt
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn.functional import pad

from porism.layers.attention.pattern import CAUSAL, FULL
from porism.layers.attention.taylor.gradient import SeriesGradient
from porism.layers.attention.taylor.kernels.cpu import Division, Operands, SeriesSettings
from porism.layers.attention.taylor.kernels.triton.gradient import reach_keys, reach_queries
from porism.layers.attention.taylor.kernels.triton.outputs import answer_queries
from porism.layers.attention.taylor.kernels.triton.scan import scan
from porism.layers.attention.taylor.kernels.triton.sizes import SCAN, STEP, SeriesLaunch, chunk, features, sizes
from porism.layers.attention.taylor.kernels.triton.states import sum_chunks
from porism.layers.attention.taylor.kernels.triton.step import move_on

Tiles = tuple[Tensor, Tensor]
"""Sums (N, M, H) and weights (N, M) in float32, M and H those of whole tiles."""


def to_tiles(state: Tensor, D: int, M: int, H: int, gradient: bool = False) -> Tiles:
    """From the layer's state, or from a gradient that reaches it; M and H are those of whole tiles."""
    order, factor = _plan(D, state.device)
    rows = state.float().index_select(1, order) * (factor if gradient else 1 / factor)
    rows = pad(rows, (0, 0, 0, M - rows.shape[1]))
    weights = -rows[..., -1] if gradient else rows[..., -1].contiguous()
    return pad(rows[..., :-1], (0, H - rows.shape[2] + 1)).contiguous(), weights


def from_tiles(state: Tiles, D: int, H: int, gradient: bool = False) -> Tensor:
    """The opposite: (N, M, H+1)."""
    sums, weights = state
    order, factor = _plan(D, sums.device)
    weights = -weights if gradient else weights
    rows = torch.cat([sums[..., :H], weights.unsqueeze(-1)], dim=-1)[:, : len(order)]
    rows = rows * (1 / factor if gradient else factor)
    return torch.empty_like(rows).index_copy_(1, order, rows)


@cache
def _plan(D: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Where each feature of the kernels stands in the layer's order, (M), and its factor there, (M, 1)."""
    pairs = (D // 2 + 1) * D
    order = torch.cat([torch.arange(1 + D, 1 + D + pairs), torch.arange(1, 1 + D), torch.zeros(1, dtype=torch.long)])
    factor = torch.ones(len(order), 1)
    factor[:D] = factor[pairs - D : pairs] = sqrt(0.5)
    return order.to(device), factor.to(device)


class Slots(NamedTuple):
    """For every chunk the sums over all before it, or after it; for a pass that attends everywhere one slot for all.

    Sums (N, slots, M, H), weights (N, slots, M); `last` is the sum of all, where it is requested.
    """

    sums: Tensor
    weights: Tensor
    last: Tiles | None


class SeriesPass:
    """Operands whose tokens lie in whole rows, and what every kernel is given of them."""

    def __init__(self, settings: SeriesSettings, q: Tensor, k: Tensor, v: Tensor, key_padding: Tensor | None) -> None:
        self.q, self.k, self.v = (_in_whole_rows(x) for x in (q, k, v))
        (self.B, self.A, self.T, self.D), (self.G, self.S), self.H = q.shape, k.shape[1:3], v.shape[3]
        self.R, self.N = self.A // self.G, self.B * self.G
        self.scale = settings.scale
        self.causal = settings.pattern.kind == "causal"
        # A pointer that is never followed where there is no padding.
        self.padding = self.k if key_padding is None else key_padding.contiguous().view(torch.uint8)
        # Products are of this type. Sums over a text pass the range of float16.
        self.number = torch.bfloat16 if q.dtype == torch.bfloat16 else torch.float32
        H_tile = max(16, triton.next_power_of_2(self.H))
        self.sizes = sizes(self.D, self.H, self.number)
        self.chunk = chunk(self.D, self.H, max(self.T, self.S), self.causal, self.number)
        self.state = (features(self.D), H_tile)
        self.constants: dict[str, Any] = {
            "PADDED": key_padding is not None,
            "R": self.R,
            "D": self.D,
            "D_TILE": max(16, self.D),
            "H": self.H,
            "H_TILE": H_tile,
            "M": self.state[0],
            "CHUNK": self.chunk,
            "NUMBER": tl.bfloat16 if self.number == torch.bfloat16 else tl.float32,
            "PRECISION": "tf32" if q.dtype == torch.float16 else "tf32x3",
        }

    def seeing(self, first: Tensor | None) -> Tensor:
        """For each key head the first query that sees a key, (N,); not looked at where there is no padding."""
        if not self.constants["PADDED"]:
            return self.k
        operands = Operands(self.q, self.k, self.v, self.padding.bool(), self.scale)
        return Division(operands, CAUSAL if self.causal else FULL, 0, True, first).first_seeing(self.T)

    def before(self, first: Tensor | None, want_last: bool) -> Slots | None:
        """The sums over the keys that stand before each chunk; None where there are none."""
        chunks = triton.cdiv(self.S, self.chunk)
        # Before the last chunk stand all but itself.
        parts = chunks if want_last or not self.causal else chunks - 1
        if parts == 0 and first is None:
            return None
        sums, weights = self._sum(self.k, self.v, parts, queries=False)
        tiles = None if first is None else to_tiles(first, self.D, *self.state)
        return self._scan(sums, weights, tiles, chunks, shift=1, backward=False, want_last=want_last)

    def sums_after(
        self, dz: Tensor, inverses: Tensor, slopes: Tensor, dlast: Tensor | None, want_first: bool
    ) -> Slots | None:
        """The sums over the queries after each chunk; None where there are none."""
        chunks = triton.cdiv(self.T, self.chunk)
        skipped = 0 if want_first or not self.causal else 1
        if chunks == skipped and dlast is None:
            return None
        sums, weights = self._sum(self.q, dz, chunks - skipped, queries=True, inverses=inverses, slopes=slopes)
        tiles = None if dlast is None else to_tiles(dlast, self.D, *self.state, gradient=True)
        return self._scan(sums, weights, tiles, chunks, shift=skipped - 1, backward=True, want_last=want_first)

    def _sum(
        self,
        x: Tensor,
        y: Tensor,
        parts: int,
        queries: bool,
        inverses: Tensor | None = None,
        slopes: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The sums over single chunks, (N, parts, M, H), and weights, (N, parts, M)."""
        sums = x.new_empty(self.N, parts, *self.state, dtype=self.number)
        weights = x.new_empty(self.N, parts, self.state[0], dtype=torch.float32)
        if parts == 0:
            return sums, weights
        launch = self.sizes.sum
        T = x.shape[2]
        skipped = triton.cdiv(T, self.chunk) - parts if queries else 0
        tiles = launch.met
        groups = self.state[0] // (launch.features * tiles)
        sum_chunks[(groups * parts * self.N,)](
            x, y, self.padding, x if inverses is None else inverses, x if slopes is None else slopes, sums, weights,
            *x.stride()[:3], *y.stride()[:3], T, self.G, parts, skipped, self.scale,
            QUERIES=queries, TOKENS=launch.own, TILES=tiles, **self._launched(launch, R=self.R if queries else 1),
        )  # fmt: skip
        return sums, weights

    def _scan(
        self,
        sums: Tensor,
        weights: Tensor,
        first: Tiles | None,
        chunks: int,
        shift: int,
        backward: bool,
        want_last: bool,
    ) -> Slots:
        slots = chunks if self.causal else 1
        M, H_tile = self.state
        slot_sums = sums.new_empty(self.N, slots, M, H_tile)
        slot_weights = weights.new_empty(self.N, slots, M)
        last = None
        if want_last:
            last = weights.new_empty(self.N, M, H_tile), weights.new_empty(self.N, M)
        blocks = triton.cdiv(M * H_tile, SCAN.own) + triton.cdiv(M, SCAN.own)
        scan[(blocks * self.N,)](
            sums, weights, *(first or (sums, weights)), slot_sums, slot_weights, *(last or (sums, weights)),
            sums.shape[1], slots, shift,
            REVERSED=backward, EVERY=self.causal, FIRST=first is not None, LAST=want_last, M=M, H_TILE=H_tile,
            AHEAD=SCAN.stages, ELEMENTS=SCAN.own, **SCAN.options,
        )  # fmt: skip
        return Slots(slot_sums, slot_weights, last)

    def _tiles(self, launch: SeriesLaunch) -> int:
        """How many tiles the features fill that are products."""
        return -(-(self.D // 2 + 2) * self.D // launch.features)

    def _launched(self, launch: SeriesLaunch, **constants: Any) -> dict[str, Any]:
        return {**self.constants, **constants, "F": launch.features, **launch.options}

    def answer(self, slots: Slots | None, first: Tensor | None, answer: Tensor, totals: Tensor) -> None:
        launch = self.sizes.answer
        sums, weights = (self.q, self.q) if slots is None else slots[:2]
        answer_queries[(triton.cdiv(self.T, launch.own) * self.B * self.A,)](
            self.q, self.k, self.v, self.padding, self.seeing(first), sums, weights, answer, totals,
            *self.q.stride()[:3], *self.k.stride()[:3], *self.v.stride()[:3], *answer.stride()[:3],
            self.T, self.A, 1 if slots is None else sums.shape[1], self._tiles(launch), self.scale,
            CAUSAL=self.causal, STATE=slots is not None, FIRST=first is not None, QUERIES=launch.own, KEYS=launch.met,
            **self._launched(launch),
        )  # fmt: skip

    def reach_queries(
        self,
        slots: Slots | None,
        first: bool,
        answer: Tensor,
        totals: Tensor,
        dz: Tensor,
        dq: Tensor,
        inverses: Tensor,
        slopes: Tensor,
    ) -> None:
        launch = self.sizes.reach_queries
        sums, weights = (self.q, self.q) if slots is None else slots[:2]
        reach_queries[(triton.cdiv(self.T, launch.own) * self.B * self.A,)](
            self.q, self.k, self.v, self.padding, sums, weights, answer, totals, dz, dq, inverses, slopes,
            *self.q.stride()[:3], *self.k.stride()[:3], *self.v.stride()[:3],
            *answer.stride()[:3], *dz.stride()[:3], *dq.stride()[:3],
            self.T, self.A, 1 if slots is None else sums.shape[1], self._tiles(launch), self.scale,
            CAUSAL=self.causal, STATE=slots is not None, FIRST=first, QUERIES=launch.own, KEYS=launch.met,
            **self._launched(launch),
        )  # fmt: skip

    def reach_keys(
        self,
        slots: Slots | None,
        last: bool,
        inverses: Tensor,
        slopes: Tensor,
        dz: Tensor,
        dk: Tensor,
        dv: Tensor,
    ) -> None:
        launch = self.sizes.reach_keys
        sums, weights = (self.q, self.q) if slots is None else slots[:2]
        reach_keys[(triton.cdiv(self.S, launch.own) * self.N,)](
            self.q, self.k, self.v, self.padding, sums, weights, inverses, slopes, dz, dk, dv,
            *self.q.stride()[:3], *self.k.stride()[:3], *self.v.stride()[:3],
            *dz.stride()[:3], *dk.stride()[:3], *dv.stride()[:3],
            self.S, self.G, 1 if slots is None else sums.shape[1], self._tiles(launch), self.scale,
            CAUSAL=self.causal, STATE=slots is not None, LAST=last, KEYS=launch.own, QUERIES=launch.met,
            **self._launched(launch),
        )  # fmt: skip


def forward(
    settings: SeriesSettings, q: Tensor, k: Tensor, v: Tensor, key_padding: Tensor | None, first: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """The answer (B, A, T, H), the sums of weights (B, A, T, 1), and the last state if it is to be returned."""
    if first is not None and settings.return_state and q.shape[2] == k.shape[2] == 1:
        last = torch.empty_like(first)
        before, after = ((x[..., :-1], x[..., -1]) for x in (y.unflatten(0, k.shape[:2]) for y in (first, last)))
        answer, totals = step(settings.scale, q, k, v, key_padding, before, after)
        return answer, totals, last
    this = SeriesPass(settings, q, k, v, key_padding)
    slots = this.before(first, settings.return_state)
    # Tokens before heads in memory, as a projection after it reads them.
    answer = q.new_empty(this.B, this.T, this.A, this.H).transpose(1, 2)
    totals = q.new_empty(this.B, this.A, this.T, 1, dtype=torch.float32)
    this.answer(slots, first, answer, totals)
    if slots is None or slots.last is None:
        return answer, totals, totals.new_empty(0)
    return answer, totals, from_tiles(slots.last, this.D, this.H)


def backward(
    settings: SeriesSettings,
    dz: Tensor,
    dlast: Tensor | None,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    key_padding: Tensor | None,
    first: Tensor | None,
    answer: Tensor,
    totals: Tensor,
) -> SeriesGradient:
    """The sums before each chunk are made once more: to keep them would cost a quarter of what is kept already."""
    this = SeriesPass(settings, q, k, v, key_padding)
    if not settings.return_state:
        dlast = None
    dz = _in_whole_rows(dz)
    dq, dk, dv = (torch.empty_like(x) for x in (q, k, v))
    dq_rows, dk_rows, dv_rows = (_in_whole_rows(x) for x in (dq, dk, dv))
    inverses, slopes = torch.empty_like(totals), torch.empty_like(totals)
    before = this.before(first, want_last=False)
    this.reach_queries(before, first is not None, answer, totals, dz, dq_rows, inverses, slopes)
    sums_after = this.sums_after(dz, inverses, slopes, dlast, want_first=first is not None)
    this.reach_keys(sums_after, dlast is not None, inverses, slopes, dz, dk_rows, dv_rows)
    for whole, written in ((dq, dq_rows), (dk, dk_rows), (dv, dv_rows)):
        if whole is not written:
            whole.copy_(written)
    if first is None:
        dstate = totals.new_empty(0)
    else:
        assert sums_after is not None
        assert sums_after.last is not None
        dstate = from_tiles(sums_after.last, this.D, this.H, gradient=True)
    return SeriesGradient(dq, dk, dv, dstate)


def step(
    scale: float,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    key_padding: Tensor | None,
    before: tuple[Tensor, Tensor],
    after: tuple[Tensor, Tensor],
) -> tuple[Tensor, Tensor]:
    """The answer (B, A, 1, H) and the sums of weights for one token more; the state that it leaves goes to `after`.

    A state is the sums over keys of phi(k) v^T, (B, G, M, H), and of phi(k), (B, G, M).
    """
    q, k, v, sums = (_in_whole_rows(x) for x in (q, k, v, before[0]))
    weights, (new_sums, new_weights) = before[1], after
    (B, A, _, D), G, H = q.shape, k.shape[1], v.shape[3]
    answer = q.new_empty(B, 1, A, H).transpose(1, 2)
    totals = q.new_empty(B, A, 1, 1, dtype=torch.float32)
    R_tile = triton.next_power_of_2(A // G)
    columns = min(STEP.own, max(16, triton.next_power_of_2(H)))
    move_on[(B * G, triton.cdiv(H, columns))](
        q, k, v, k if key_padding is None else key_padding.contiguous().view(torch.uint8),
        sums, weights, answer, totals, new_sums, new_weights,
        *q.stride()[:2], *k.stride()[:2], *v.stride()[:2], *sums.stride()[:3], *weights.stride(),
        *new_sums.stride()[1:3], *new_weights.stride()[1:], G, scale,
        PADDED=key_padding is not None, R=A // G, R_TILE=R_tile, D=D, H=H, COLUMNS=columns,
        F=max(1, STEP.features // R_tile), **STEP.options,
    )  # fmt: skip
    return answer, totals


def _in_whole_rows(x: Tensor) -> Tensor:
    """With the elements of a token side by side: as it is, or a copy."""
    return x if x.stride(-1) == 1 or x.shape[-1] == 1 else x.contiguous()
