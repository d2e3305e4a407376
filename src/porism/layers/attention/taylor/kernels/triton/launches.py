"""Both passes as launches: sums over chunks, their scan, and then every tile of tokens by itself."""

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from porism.layers.attention.pattern import CAUSAL, FULL
from porism.layers.attention.taylor.gradient import SeriesGradient
from porism.layers.attention.taylor.kernels.cpu import Division, Operands, SeriesSettings
from porism.layers.attention.taylor.kernels.triton.chunked_step import answer_in_chunk
from porism.layers.attention.taylor.kernels.triton.decay import log_decay_gradient, reach_ends, running_sums
from porism.layers.attention.taylor.kernels.triton.gradient import reach_keys, reach_queries
from porism.layers.attention.taylor.kernels.triton.hopper import layout as blocks
from porism.layers.attention.taylor.kernels.triton.outputs import answer_queries
from porism.layers.attention.taylor.kernels.triton.pairs import layout as pairs
from porism.layers.attention.taylor.kernels.triton.pairs.states import put_tokens_side_by_side, sum_others, sum_pairs
from porism.layers.attention.taylor.kernels.triton.scan import scan
from porism.layers.attention.taylor.kernels.triton.sizes import (
    ENDS,
    READ,
    SCAN,
    SIDE_BY_SIDE,
    STEP,
    SeriesLaunch,
    by_pairs,
    chunk,
    sizes,
    with_decay,
)
from porism.layers.attention.taylor.kernels.triton.step import move_on
from porism.layers.attention.taylor.kernels.triton.turns import layout as turns
from porism.layers.attention.taylor.kernels.triton.turns.states import sum_chunks
from porism.layers.kernels.gluon import taken_on


class Slots(NamedTuple):
    """For every chunk the sums over all before it, or after it; for a pass that attends everywhere one slot for all.

    Sums (N, slots, M, H), weights (N, slots, W); `last` is the sum of all, where it is requested.
    """

    sums: Tensor
    weights: Tensor
    last: tuple[Tensor, Tensor] | None


class SeriesPass:
    """Operands whose tokens lie in whole rows, and what every kernel is given of them."""

    def __init__(
        self,
        settings: SeriesSettings,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        key_padding: Tensor | None,
        log_decay: Tensor | None = None,
        by_blocks: bool = False,
    ) -> None:
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
        self.by_pairs = by_pairs(self.D, self.H, self.number)
        self.by_blocks = by_blocks
        self.layout = blocks if by_blocks else pairs if self.by_pairs else turns
        self.has_decay = log_decay is not None
        # As with padding, a pointer that is not followed, and what is left of a first state at the end.
        self.decays, self.places, self.left = self.k, 0, None
        if log_decay is not None:
            self.sizes = with_decay(self.sizes)
            self.decays = running_sums(log_decay, self.chunk, SIDE_BY_SIDE.own)
            self.places = self.decays.shape[2]
            self.left = log_decay.flatten(0, 1).double().sum(1).exp().view(self.N, 1, 1)
        self.state = (self.layout.features(self.D), H_tile)
        self.W = self.layout.weight_count(self.D)
        self.constants: dict[str, Any] = {
            "PADDED": key_padding is not None,
            "R": self.R,
            "D": self.D,
            "D_TILE": max(16, self.D),
            "H": self.H,
            "H_TILE": H_tile,
            "M": self.state[0],
            "W": self.W,
            "PAIRS": self.by_pairs,
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
        sums, weights = self._sum(self.k, self.v, self.v, parts, queries=False)
        tiles = None if first is None else self.layout.to_tiles(first, self.D, *self.state)
        return self._scan(sums, weights, tiles, chunks, shift=1, backward=False, want_last=want_last)

    def sums_after(
        self,
        dz: Tensor,
        handed: Tensor,
        inverses: Tensor,
        slopes: Tensor,
        dlast: Tensor | None,
        want_first: bool,
    ) -> Slots | None:
        """The sums over the queries after each chunk; None where there are none.

        `handed` is m dz where they are summed up by blocks, and is not looked at otherwise.
        """
        chunks = triton.cdiv(self.T, self.chunk)
        skipped = 0 if want_first or not self.causal else 1
        if chunks == skipped and dlast is None:
            return None
        sums, weights = self._sum(self.q, dz, handed, chunks - skipped, queries=True, inverses=inverses, slopes=slopes)
        tiles = None if dlast is None else self.layout.to_tiles(dlast, self.D, *self.state, gradient=True)
        return self._scan(sums, weights, tiles, chunks, shift=skipped - 1, backward=True, want_last=want_first)

    def _sum(
        self,
        x: Tensor,
        y: Tensor,
        handed: Tensor,
        parts: int,
        queries: bool,
        inverses: Tensor | None = None,
        slopes: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The sums over single chunks, (N, parts, M, H), and weights, (N, parts, W); `handed` is m y, by blocks."""
        sums = x.new_empty(self.N, parts, *self.state, dtype=self.number)
        weights = x.new_empty(self.N, parts, self.W, dtype=torch.float32)
        if parts == 0:
            return sums, weights
        skipped = triton.cdiv(x.shape[2], self.chunk) - parts if queries else 0
        of_tokens = x if inverses is None else inverses, x if slopes is None else slopes
        if self.by_pairs:
            self._sum_pairs(x, y, handed, *of_tokens, sums, weights, skipped, queries)
        else:
            self._sum_turns(x, y, *of_tokens, sums, weights, skipped, queries)
        return sums, weights

    def _sum_pairs(
        self,
        x: Tensor,
        y: Tensor,
        handed: Tensor,
        inverses: Tensor,
        slopes: Tensor,
        sums: Tensor,
        weights: Tensor,
        skipped: int,
        queries: bool,
    ) -> None:
        launch, (B, A, T, D) = self.sizes.sum, x.shape
        R, parts = self.R if queries else 1, sums.shape[1]
        width = SIDE_BY_SIDE.own * triton.cdiv(T, SIDE_BY_SIDE.own)
        columns = x.new_empty(B, A, D, width, dtype=self.number)
        scaled = torch.empty_like(columns) if queries or self.has_decay else columns
        shared = {name: self.constants[name] for name in ("D", "H", "H_TILE", "M", "CHUNK", "NUMBER", "PRECISION")}
        put_tokens_side_by_side[(B * A * (width // SIDE_BY_SIDE.own),)](
            x, self.padding, inverses, self.decays, columns, scaled, *x.stride()[:3], T, A, width, self.places,
            self.scale, QUERIES=queries, PADDED=self.constants["PADDED"], DECAY=self.has_decay, R=R, CHUNK=self.chunk,
            D=D, TOKENS=SIDE_BY_SIDE.own, NUMBER=self.constants["NUMBER"], **SIDE_BY_SIDE.options,
        )  # fmt: skip
        for upper in () if self.by_blocks else (False, True):
            units = D // 4 if upper else D // 2
            at_a_time = min(launch.met, units)
            sum_pairs[(units // at_a_time * parts * self.N,)](
                columns, scaled, y, sums, *y.stride()[:3], T, self.G, parts, skipped, width,
                UPPER=upper, R=R, UNITS=at_a_time, TOKENS=launch.own, **shared, **launch.options,
            )  # fmt: skip
        if self.by_blocks:
            from porism.layers.attention.taylor.kernels.triton.hopper.sums import sum_pairs as sum_blocks

            sum_blocks(columns, handed, sums, self.chunk, skipped)
        sum_others[(parts * self.N,)](
            columns, scaled, y, self.padding, inverses, slopes, self.decays, sums, weights,
            *y.stride()[:3], T, self.G, parts, skipped, width, self.places,
            QUERIES=queries, PADDED=self.constants["PADDED"], DECAY=self.has_decay, R=R, W=self.W, TOKENS=launch.own,
            **shared, **launch.options,
        )  # fmt: skip

    def _sum_turns(
        self,
        x: Tensor,
        y: Tensor,
        inverses: Tensor,
        slopes: Tensor,
        sums: Tensor,
        weights: Tensor,
        skipped: int,
        queries: bool,
    ) -> None:
        launch, parts = self.sizes.sum, sums.shape[1]
        constants = {name: value for name, value in self.constants.items() if name not in ("W", "PAIRS")}
        groups = self.state[0] // (launch.features * launch.met)
        sum_chunks[(groups * parts * self.N,)](
            x, y, self.padding, inverses, slopes, self.decays, sums, weights,
            *x.stride()[:3], *y.stride()[:3], x.shape[2], self.G, parts, skipped, self.places, self.scale,
            QUERIES=queries, DECAY=self.has_decay, TOKENS=launch.own, TILES=launch.met,
            **{**constants, "R": self.R if queries else 1, "F": launch.features}, **launch.options,
        )  # fmt: skip

    def _scan(
        self,
        sums: Tensor,
        weights: Tensor,
        first: tuple[Tensor, Tensor] | None,
        chunks: int,
        shift: int,
        backward: bool,
        want_last: bool,
    ) -> Slots:
        slots = chunks if self.causal else 1
        M, H_tile = self.state
        slot_sums = sums.new_empty(self.N, slots, M, H_tile)
        slot_weights = weights.new_empty(self.N, slots, self.W)
        last = None
        if want_last:
            last = weights.new_empty(self.N, M, H_tile), weights.new_empty(self.N, self.W)
        blocks = triton.cdiv(M * H_tile, SCAN.own) + triton.cdiv(self.W, SCAN.own)
        # From the queries' sums the first chunks may be missing.
        skipped = shift + 1 if backward else 0
        decays = self.decays[..., skipped * self.chunk :] if self.has_decay else self.decays
        scan[(blocks * self.N,)](
            sums, weights, *(first or (sums, weights)), slot_sums, slot_weights, *(last or (sums, weights)),
            decays, self.places, sums.shape[1], slots, shift,
            DECAY=self.has_decay, CHUNK=self.chunk,
            REVERSED=backward, EVERY=self.causal, FIRST=first is not None, LAST=want_last,
            SUMS=M * H_tile, WEIGHTS=self.W, AHEAD=SCAN.stages, ELEMENTS=SCAN.own, **SCAN.options,
        )  # fmt: skip
        return Slots(slot_sums, slot_weights, last)

    def _units(self, launch: SeriesLaunch) -> int:
        """How often a state is read from: a half of a vector's elements, or the tiles that products fill by turns."""
        return self.D // 2 if self.by_pairs else -(-(self.D // 2 + 2) * self.D // launch.features)

    def _launched(self, launch: SeriesLaunch) -> dict[str, Any]:
        return {**self.constants, "F": launch.features, **launch.options}

    def answer(self, slots: Slots | None, first: Tensor | None, answer: Tensor, totals: Tensor) -> None:
        launch = self.sizes.answer
        sums, weights = (self.q, self.q) if slots is None else slots[:2]
        # As with padding, a pointer that is not followed.
        far = self._far(sums) if self.by_blocks and slots is not None else totals
        answer_queries[(triton.cdiv(self.T, launch.own) * self.B * self.A,)](
            self.q, self.k, self.v, self.padding, self.seeing(first), sums, weights, far, self.decays, answer, totals,
            *self.q.stride()[:3], *self.k.stride()[:3], *self.v.stride()[:3], *answer.stride()[:3],
            self.T, self.A, 1 if slots is None else sums.shape[1], self._units(launch), self.places, self.scale,
            CAUSAL=self.causal, DECAY=self.has_decay, STATE=slots is not None, FAR=far is not totals,
            FIRST=first is not None, QUERIES=launch.own, KEYS=launch.met, **self._launched(launch),
        )  # fmt: skip

    def _far(self, sums: Tensor) -> Tensor:
        """What the queries find in the pairs of elements before their chunks, (B, A, T, H) in float32."""
        from porism.layers.attention.taylor.kernels.triton.hopper.reads import read_pairs

        far = self.q.new_empty(self.B, self.A, self.T, self.H, dtype=torch.float32)
        read_pairs(self.q, sums, far, self.chunk, self.chunk, self.T, self.scale)
        return far

    def room_for_handed(self) -> Tensor:
        """For m dz, (B, A, tokens of whole chunks, H): beyond the text nothing is handed on."""
        handed = self.q.new_empty(self.B, self.A, triton.cdiv(self.T, self.chunk) * self.chunk, self.H)
        handed[:, :, self.T :] = 0.0
        return handed

    def _far_dq(self, sums: Tensor, dz: Tensor) -> Tensor:
        """What they hand on to queries, (B, A, T, D) in float32, without m and the scale."""
        from porism.layers.attention.taylor.kernels.triton.hopper.gradient import reach_pairs

        far = self.q.new_empty(self.B, self.A, self.T, self.D, dtype=torch.float32)
        reach_pairs(self.q, dz, sums, far, self.chunk, self.chunk, self.T)
        return far

    def _far_dk_dv(self, sums: Tensor) -> tuple[Tensor, Tensor]:
        """What the pairs after their chunks hand on to keys and values, (B, G, S, D) and (B, G, S, H) in float32."""
        from porism.layers.attention.taylor.kernels.triton.hopper.gradient import reach_pairs
        from porism.layers.attention.taylor.kernels.triton.hopper.reads import read_pairs

        far_dk, far_dv = (self.k.new_empty(x.shape, dtype=torch.float32) for x in (self.k, self.v))
        end = (sums.shape[1] - 1) * self.chunk
        reach_pairs(self.k, self.v, sums, far_dk, self.chunk, 0, end)
        read_pairs(self.k, sums, far_dv, self.chunk, 0, end, 1.0)
        return far_dk, far_dv

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
        handed: Tensor,
        dlogs: Tensor,
    ) -> None:
        launch = self.sizes.reach_queries
        sums, weights = (self.q, self.q) if slots is None else slots[:2]
        # As with padding, a pointer that is not followed.
        far = self._far_dq(sums, dz) if self.by_blocks and slots is not None else totals
        reach_queries[(triton.cdiv(self.T, launch.own) * self.B * self.A,)](
            self.q, self.k, self.v, self.padding, sums, weights, far, answer, totals, dz, dq, inverses, slopes,
            handed, self.decays, dlogs,
            *self.q.stride()[:3], *self.k.stride()[:3], *self.v.stride()[:3],
            *answer.stride()[:3], *dz.stride()[:3], *dq.stride()[:3],
            self.T, self.A, 1 if slots is None else sums.shape[1], handed.shape[2], self._units(launch), self.places,
            self.scale,
            CAUSAL=self.causal, DECAY=self.has_decay, STATE=slots is not None, FAR=far is not totals, FIRST=first,
            QUERIES=launch.own, KEYS=launch.met, **self._launched(launch),
        )  # fmt: skip

    def reach_keys(
        self,
        slots: Slots | None,
        last: bool,
        inverses: Tensor,
        slopes: Tensor,
        dlogs: Tensor,
        dz: Tensor,
        dk: Tensor,
        dv: Tensor,
    ) -> None:
        launch = self.sizes.reach_keys
        sums, weights = (self.q, self.q) if slots is None else slots[:2]
        has_far = self.by_blocks and slots is not None
        far_dk, far_dv = self._far_dk_dv(sums) if has_far else (inverses, inverses)
        reach_keys[(triton.cdiv(self.S, launch.own) * self.N,)](
            self.q, self.k, self.v, self.padding, sums, weights, far_dk, far_dv, inverses, slopes, self.decays, dlogs,
            dz, dk, dv,
            *self.q.stride()[:3], *self.k.stride()[:3], *self.v.stride()[:3],
            *dz.stride()[:3], *dk.stride()[:3], *dv.stride()[:3],
            self.S, self.G, 1 if slots is None else sums.shape[1], self._units(launch), self.places, self.scale,
            CAUSAL=self.causal, DECAY=self.has_decay, STATE=slots is not None, FAR=has_far, LAST=last,
            KEYS=launch.own, QUERIES=launch.met, **self._launched(launch),
        )  # fmt: skip

    def reach_log_decay(
        self,
        of_queries: Tensor,
        of_keys: Tensor,
        before: Slots | None,
        after: Slots | None,
        first: Tensor | None,
        dlast: Tensor | None,
    ) -> Tensor:
        """What reaches log_decay (B, G, S), from what reaches the logarithms of the weights of queries and of keys."""
        dlogs = of_queries.view(self.N, self.R, self.T).sum(1) - of_keys.view(self.N, self.S)
        chunks = triton.cdiv(self.S, self.chunk)
        ends = dlogs.new_zeros(self.N, chunks)
        if chunks > 1:
            assert before is not None
            assert after is not None
            reach_ends[(self.N * (chunks - 1),)](
                *before[:2], *after[:2], ends, chunks,
                PAIRS=self.by_pairs, D=self.D, H_TILE=self.state[1], M=self.state[0], W=self.W,
                ROWS=ENDS.own, LINE=ENDS.features, **ENDS.options,
            )  # fmt: skip
        if dlast is not None:
            assert before is not None
            assert before.last is not None
            last = self.from_tiles(before.last, first)
            ends[:, :-1] += self.layout.passed(self._decayed(first), dlast, self.D)
            ends[:, -1] = (last * dlast).sum((1, 2))
        return log_decay_gradient(dlogs, ends, self.chunk).view(self.B, self.G, self.S)

    def from_tiles(self, state: tuple[Tensor, Tensor], given: Tensor | None, gradient: bool = False) -> Tensor:
        """The state as the layer has it, or its gradient, of a pass that started from the given one."""
        found: Tensor = self.layout.from_tiles(state, self._decayed(given), self.D, self.H, gradient)
        return found

    def _decayed(self, given: Tensor | None) -> Tensor | None:
        """A state at the start, as it is left at the end; or a gradient of the last one, as it reaches the first."""
        return given if given is None or self.left is None else given * self.left.to(given.dtype)


def forward(
    settings: SeriesSettings,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    key_padding: Tensor | None,
    log_decay: Tensor | None,
    first: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The answer (B, A, T, H), the sums of weights (B, A, T, 1), and the last state if it is to be returned."""
    if first is not None and settings.return_state and q.shape[2] == k.shape[2] == 1:
        last = torch.empty_like(first)
        before, after = ((x[..., :-1], x[..., -1]) for x in (y.unflatten(0, k.shape[:2]) for y in (first, last)))
        answer, totals = step(settings.scale, q, k, v, key_padding, log_decay, before, after)
        return answer, totals, last
    by_blocks = _by_blocks(settings, q, v, log_decay, first)
    this = SeriesPass(settings, q, k, v, key_padding, log_decay, by_blocks)
    slots = this.before(first, settings.return_state)
    # Tokens before heads in memory, as a projection after it reads them.
    answer = q.new_empty(this.B, this.T, this.A, this.H).transpose(1, 2)
    totals = q.new_empty(this.B, this.A, this.T, 1, dtype=torch.float32)
    this.answer(slots, first, answer, totals)
    if slots is None or slots.last is None:
        return answer, totals, totals.new_empty(0)
    return answer, totals, this.from_tiles(slots.last, first)


def backward(
    settings: SeriesSettings,
    dz: Tensor,
    dlast: Tensor | None,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    key_padding: Tensor | None,
    log_decay: Tensor | None,
    first: Tensor | None,
    answer: Tensor,
    totals: Tensor,
) -> SeriesGradient:
    """The sums before each chunk are made once more: to keep them would cost a quarter of what is kept already."""
    by_blocks = _by_blocks(settings, q, v, log_decay, first)
    this = SeriesPass(settings, q, k, v, key_padding, log_decay, by_blocks)
    if not settings.return_state:
        dlast = None
    dz = _in_whole_rows(dz)
    dq, dk, dv = (torch.empty_like(x) for x in (q, k, v))
    dq_rows, dk_rows, dv_rows = (_in_whole_rows(x) for x in (dq, dk, dv))
    inverses, slopes = torch.empty_like(totals), torch.empty_like(totals)
    # Pointers that are never followed where keys do not decay.
    of_queries, of_keys = totals, totals
    if this.has_decay:
        of_queries, of_keys = torch.empty_like(totals), totals.new_empty(this.N, this.S)
    before = this.before(first, want_last=this.has_decay and dlast is not None)
    handed = this.room_for_handed() if by_blocks else dz
    this.reach_queries(before, first is not None, answer, totals, dz, dq_rows, inverses, slopes, handed, of_queries)
    sums_after = this.sums_after(dz, handed, inverses, slopes, dlast, want_first=first is not None)
    this.reach_keys(sums_after, dlast is not None, inverses, slopes, of_keys, dz, dk_rows, dv_rows)
    for whole, written in ((dq, dq_rows), (dk, dk_rows), (dv, dv_rows)):
        if whole is not written:
            whole.copy_(written)
    if first is None:
        dstate = totals.new_empty(0)
    else:
        assert sums_after is not None
        assert sums_after.last is not None
        dstate = this.from_tiles(sums_after.last, dlast, gradient=True)
    dlog_decay = totals.new_empty(0)
    if log_decay is not None:
        found = this.reach_log_decay(of_queries, of_keys, before, sums_after, first, dlast)
        dlog_decay = found.to(log_decay.dtype)
    return SeriesGradient(dq, dk, dv, dlog_decay, dstate)


def step(
    scale: float,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    key_padding: Tensor | None,
    log_decay: Tensor | None,
    before: tuple[Tensor, Tensor],
    after: tuple[Tensor, Tensor],
    chunk: tuple[Tensor, Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    """The answer (B, A, 1, H) and the sums of weights for one token more; the state that it leaves goes to `after`.

    A state is the sums over keys of phi(k) v^T, (B, G, M, H), and of phi(k), (B, G, M). With the keys and values of a
    chunk, (B, G, n, D) and (B, G, n, H), it takes up those too.
    """
    q, k, v, sums = (_in_whole_rows(x) for x in (q, k, v, before[0]))
    weights, (new_sums, new_weights) = before[1], after
    (B, A, _, D), G, H = q.shape, k.shape[1], v.shape[3]
    answer = q.new_empty(B, 1, A, H).transpose(1, 2)
    totals = q.new_empty(B, A, 1, 1, dtype=torch.float32)
    R_tile = triton.next_power_of_2(A // G)
    columns = min(STEP.own, max(16, triton.next_power_of_2(H)))
    keys, values = (k, v) if chunk is None else (x.contiguous() for x in chunk)
    move_on[(B * G, triton.cdiv(H, columns))](
        q, k, v, k if key_padding is None else key_padding.contiguous().view(torch.uint8),
        k if log_decay is None else log_decay.float().contiguous(), keys, values,
        sums, weights, answer, totals, new_sums, new_weights,
        *q.stride()[:2], *k.stride()[:2], *v.stride()[:2], *sums.stride()[:3], *weights.stride(),
        *new_sums.stride()[1:3], *new_weights.stride()[1:], G, keys.shape[2], scale,
        PADDED=key_padding is not None, DECAY=log_decay is not None, CHUNK=chunk is not None, R=A // G, R_TILE=R_tile,
        D=D, H=H, COLUMNS=columns,
        F=max(1, STEP.features // R_tile), **STEP.options,
    )  # fmt: skip
    return answer, totals


def step_in_chunk(
    scale: float, q: Tensor, k: Tensor, v: Tensor, before: tuple[Tensor, Tensor], chunk: tuple[Tensor, Tensor] | None
) -> tuple[Tensor, Tensor, Tensor]:
    """The answer (B, A, 1, H) for one token more of a chunk, from the state before it, and its keys and values then."""
    q, k, v, sums = (_in_whole_rows(x) for x in (q, k, v, before[0]))
    weights = before[1]
    (B, A, _, D), G, H = q.shape, k.shape[1], v.shape[3]
    answer = q.new_empty(B, 1, A, H).transpose(1, 2)
    # Pointers that are never followed where there are no keys yet.
    keys, values = (k, v) if chunk is None else (x.contiguous() for x in chunk)
    n = 0 if chunk is None else keys.shape[2]
    longer = k.new_empty(B, G, n + 1, D), v.new_empty(B, G, n + 1, H)
    R_tile = triton.next_power_of_2(A // G)
    columns = min(READ.own, max(16, triton.next_power_of_2(H)))
    answer_in_chunk[(B * G, triton.cdiv(H, columns))](
        q, k, v, keys, values, sums, weights, answer, *longer,
        *q.stride()[:2], *k.stride()[:2], *v.stride()[:2], *sums.stride()[:3], *weights.stride(), G, n, scale,
        R=A // G, R_TILE=R_tile, D=D, H=H, COLUMNS=columns, F=max(1, READ.features // R_tile),
        KEYS=max(1, READ.met // R_tile), ELEMENTS=min(D, 16), **READ.options,
    )  # fmt: skip
    return answer, *longer


def _by_blocks(settings: SeriesSettings, q: Tensor, v: Tensor, log_decay: Tensor | None, first: Tensor | None) -> bool:
    """Whether kernels for Hopper GPUs sum pairs up and read them: of whole chunks, from an empty state."""
    has_sizes = q.dtype == torch.bfloat16 and q.shape[-1] == v.shape[-1] == blocks.WIDTH
    is_plain = settings.pattern.kind == "causal" and not settings.return_state and log_decay is None and first is None
    return has_sizes and is_plain and taken_on(q.device)


def _in_whole_rows(x: Tensor) -> Tensor:
    """With the elements of a token side by side: as it is, or a copy."""
    return x if x.stride(-1) == 1 or x.shape[-1] == 1 else x.contiguous()
