"""The recurrence on a GPU in one kernel a pass: see `porism.layers.recurrent.kernels.scan` for how.

A program computes the four gates of its states, so that the memory c never leaves it; the states h are passed on. On
the way back it needs the delta of all gates of the step after. The sums over all steps are large products before and
after the scans.
"""

from itertools import product

import torch
import triton
import triton.language as tl
from torch import Tensor

from porism.layers.kernels.triton import as_read
from porism.layers.recurrent.kernels.scan import (
    ScanLaunch,
    bits,
    empty_states,
    exchanged,
    fed_back,
    inputs_of,
    launches,
    masked,
    plan,
    stages,
    tanh,
    write_state,
)

BACK_WARPS = 8
"""Of the way back for all gates, which reads four times as many numbers a step."""


@triton.jit
def _forward_scan(
    inputs: tl.tensor, mask: tl.tensor, out: tl.tensor, memory: tl.tensor, gates: tl.tensor, weight: tl.tensor,
    B: tl.tensor, begin: tl.tensor, end: tl.tensor,
    H: tl.constexpr, ROWS: tl.constexpr, UNITS: tl.constexpr, PARTS: tl.constexpr, PART: tl.constexpr,
    REST: tl.constexpr, SLABS: tl.constexpr, MASKED: tl.constexpr, WAIT: tl.constexpr, PRECISION: tl.constexpr,
) -> None:  # fmt: skip
    """UNITS states of ROWS sequences, group after group.

    inputs and gates (T, B, 4H), mask (B, H), out and memory (T+1, B, H), weight (4H, H).
    """
    DTYPE: tl.constexpr = weight.dtype.element_ty
    slab = tl.program_id(0) % SLABS
    unit = slab * UNITS + tl.arange(0, UNITS)
    # The four gates of a unit stand side by side.
    column = tl.arange(0, 4 * UNITS)
    unit_of = slab * UNITS + column // 4
    gate = (column % 4) * H + unit_of
    previous = inputs_of(0, PARTS, PART)
    w = tl.load(
        weight + previous[:, :, None] + gate[None, None, :] * H,
        mask=(previous < H)[:, :, None] & (unit_of < H)[None, None, :], other=0.0,
    )  # fmt: skip
    w_later = w
    if REST:
        later = inputs_of(PARTS * PART, PARTS, REST)
        w_later = tl.load(
            weight + later[:, :, None] + gate[None, None, :] * H,
            mask=(later < H)[:, :, None] & (unit_of < H)[None, None, :], other=0.0,
        )  # fmt: skip
    step = tl.cast(B * H, tl.int64)
    for first_row in range(tl.program_id(0) // SLABS * ROWS, B, tl.num_programs(0) // SLABS * ROWS):
        row = first_row + tl.arange(0, ROWS)
        inside = (row < B)[:, None] & (unit < H)[None, :]
        place = row[:, None] * H + unit[None, :]
        gates_inside = (row < B)[:, None] & (unit_of < H)[None, :]
        gates_place = row[:, None] * (4 * H) + gate[None, :]
        first_gate = row[:, None] * (4 * H) + unit[None, :]
        c = tl.load(memory + begin * step + place, mask=inside, other=0.0)
        for t in range(begin, end):
            z = tl.load(inputs + t * 4 * step + gates_place, mask=gates_inside, other=0.0).to(tl.float32)
            z += fed_back(out + t * step, mask, row, w, w_later, B, t > 0, H, H, REST, MASKED, WAIT, PRECISION)
            # (ROWS, UNITS, 2, 2): in, forget | new, out
            in_and_new, forget_and_out = tl.split(tl.reshape(z, (ROWS, UNITS, 2, 2)))
            let_in, new = tl.split(in_and_new)
            forget, let_out = tl.split(forget_and_out)
            let_in, forget, new, let_out = tl.sigmoid(let_in), tl.sigmoid(forget), tanh(new), tl.sigmoid(let_out)
            c = forget * c + let_in * new
            write_state(out + (t + 1) * step + place, let_out * tanh(c), inside, DTYPE)
            tl.store(memory + (t + 1) * step + place, c, mask=inside)
            saved = gates + t * 4 * step + first_gate
            tl.store(saved, let_in.to(DTYPE), mask=inside)
            tl.store(saved + H, forget.to(DTYPE), mask=inside)
            tl.store(saved + 2 * H, new.to(DTYPE), mask=inside)
            tl.store(saved + 3 * H, let_out.to(DTYPE), mask=inside)


@triton.jit
def _backward_scan(
    dy: tl.tensor, mask: tl.tensor, out: tl.tensor, memory: tl.tensor, gates: tl.tensor, dc_carried: tl.tensor,
    shared: tl.tensor, weight: tl.tensor, T: tl.tensor, B: tl.tensor, begin: tl.tensor, end: tl.tensor,
    H: tl.constexpr, ROWS: tl.constexpr, UNITS: tl.constexpr, PARTS: tl.constexpr, PART: tl.constexpr,
    REST: tl.constexpr, SLABS: tl.constexpr, BY_GATE: tl.constexpr, STAGE: tl.constexpr, MASKED: tl.constexpr,
    WAIT: tl.constexpr, PRECISION: tl.constexpr,
) -> None:  # fmt: skip
    """delta of all gates of UNITS states of ROWS sequences, group after group.

    A program multiplies the deltas of all gates with the columns of its units. BY_GATE it multiplies those of one gate
    with the columns of four times as many units, and four programs exchange their sums: a quarter to read and keep.

    dy (T, B, H), mask and dc_carried (B, H), out (T+1, B, 4H), memory (T+1, B, H), gates (T, B, 4H), weight (4H, H),
    shared (4, B, SLABS * UNITS).
    """
    DTYPE: tl.constexpr = weight.dtype.element_ty
    LENGTH: tl.constexpr = H if BY_GATE else 4 * H
    slab = tl.program_id(0) % SLABS
    unit = slab * UNITS + tl.arange(0, UNITS)
    if BY_GATE:
        own = slab % 4
        column = slab // 4 * (4 * UNITS) + tl.arange(0, 4 * UNITS)
        weight += own * H * H
    else:
        own = 0
        column = unit
    # The four gates of a step lie one after the other, in delta as in the weight.
    gate = inputs_of(0, PARTS, PART)
    w = tl.load(
        weight + gate[:, :, None] * H + column[None, None, :],
        mask=(gate < LENGTH)[:, :, None] & (column < H)[None, None, :], other=0.0,
    )  # fmt: skip
    w_later = w
    if REST:
        later = inputs_of(PARTS * PART, PARTS, REST)
        w_later = tl.load(
            weight + later[:, :, None] * H + column[None, None, :],
            mask=(later < LENGTH)[:, :, None] & (column < H)[None, None, :], other=0.0,
        )  # fmt: skip
    step = tl.cast(B * H, tl.int64)
    for first_row in range(tl.program_id(0) // SLABS * ROWS, B, tl.num_programs(0) // SLABS * ROWS):
        row = first_row + tl.arange(0, ROWS)
        inside = (row < B)[:, None] & (unit < H)[None, :]
        place = row[:, None] * H + unit[None, :]
        first_gate = row[:, None] * (4 * H) + unit[None, :]
        dc = tl.load(dc_carried + place, mask=inside, other=0.0)
        c = tl.load(memory + (T - begin) * step + place, mask=inside, other=0.0)
        for s in range(begin, end):
            t = T - 1 - s
            # What does not depend on other programs is read before their deltas are waited for.
            g = tl.load(dy + t * step + place, mask=inside, other=0.0).to(tl.float32)
            saved = gates + t * 4 * step + first_gate
            let_in = tl.load(saved, mask=inside, other=0.0).to(tl.float32)
            forget = tl.load(saved + H, mask=inside, other=0.0).to(tl.float32)
            new = tl.load(saved + 2 * H, mask=inside, other=0.0).to(tl.float32)
            let_out = tl.load(saved + 3 * H, mask=inside, other=0.0).to(tl.float32)
            c_previous = tl.load(memory + t * step + place, mask=inside, other=0.0)
            tanh_c = tanh(c)
            delta = out + (t + 1) * 4 * step + own * H
            dh = fed_back(delta, mask, row, w, w_later, B, s > 0, LENGTH, 4 * H, REST, False, WAIT, PRECISION)
            if BY_GATE:
                dh = exchanged(dh, shared, row, column, unit, B, own, s, SLABS * UNITS, STAGE, WAIT)
            if STAGE != 1:
                if MASKED:
                    dh = masked(dh, mask + place, inside)
                g += dh
                dc += g * let_out * (1.0 - tanh_c * tanh_c)
                to = out + t * 4 * step + first_gate
                write_state(to, dc * new * let_in * (1.0 - let_in), inside, DTYPE)
                write_state(to + H, dc * c_previous * forget * (1.0 - forget), inside, DTYPE)
                write_state(to + 2 * H, dc * let_in * (1.0 - new * new), inside, DTYPE)
                write_state(to + 3 * H, g * tanh_c * let_out * (1.0 - let_out), inside, DTYPE)
                dc *= forget
                c = c_previous
        if STAGE != 1:
            tl.store(dc_carried + place, dc, mask=inside)


def launch(B: int, H: int, dtype: torch.dtype, device: torch.device, back: bool) -> ScanLaunch | None:
    """How a scan of B sequences is launched; None where there is no room for the recurrent matrix on chip."""
    if not back:
        return plan(B, H, 4, H, dtype, device)
    all_gates = plan(B, H, 1, 4 * H, dtype, device, BACK_WARPS)
    by_gate = plan(B, H, 4, H, dtype, device, together=4)
    return min((one for one in (all_gates, by_gate) if one is not None), key=lambda one: one.time, default=None)


def forward(
    x: Tensor,
    h0: Tensor,
    c0: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias: Tensor | None,
    mask: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """As `kernels.cpu.forward`; the memory c is float32 in any type."""
    T, (B, H) = len(x), h0.shape
    inputs = torch.nn.functional.linear(x, weight_ih, bias)
    h = empty_states(T + 1, B, H, like=h0)
    h[0] = h0
    c = h0.new_empty(T + 1, B, H, dtype=torch.float32)
    c[0] = c0
    gates = h0.new_empty(T, B, 4 * H)
    found = _found(B, weight_hh, back=False)
    for begin, end in launches(T):
        _forward_scan[(found.programs,)](
            inputs, inputs if mask is None else as_read(mask), bits(h), c, gates, as_read(weight_hh),
            B, begin, end, H=H, MASKED=mask is not None, **found.options(weight_hh.dtype),
        )  # fmt: skip
    return h, c, gates


def back_through_time(
    dy: Tensor, dc: Tensor, c: Tensor, gates: Tensor, weight_hh: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor]:
    """As `kernels.cpu.back_through_time`."""
    T, B, H = dy.shape
    delta = empty_states(T + 1, B, 4 * H, like=gates)
    delta[-1] = 0
    dc = dc.to(torch.float32, copy=True).contiguous()
    found = _found(B, weight_hh, back=True)
    by_gate = found.together > 1
    # No number in it is of the first turn.
    shared = dy.new_ones(4 if by_gate else 0, B, found.slabs * found.units, dtype=torch.int32)
    for (begin, end), stage in product(launches(T), stages(by_gate)):
        _backward_scan[(found.programs,)](
            as_read(dy), dy if mask is None else as_read(mask), bits(delta), c, gates, dc, shared, as_read(weight_hh),
            T, B, begin, end, H=H, BY_GATE=by_gate, STAGE=stage, MASKED=mask is not None,
            **found.options(weight_hh.dtype),
        )  # fmt: skip
    return delta[:-1], dc


def _found(B: int, weight_hh: Tensor, back: bool) -> ScanLaunch:
    found = launch(B, weight_hh.shape[1], weight_hh.dtype, weight_hh.device, back)
    assert found is not None, "callers check that there is room"
    return found
