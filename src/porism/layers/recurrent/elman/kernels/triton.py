"""The recurrence on a GPU in one kernel a pass: see `porism.layers.recurrent.kernels.scan` for how.

    forward     h[t] = act(z[t] + (m h[t-1]) H)
    backward    delta[t] = act' * (dy[t] + m (delta[t+1] H^T))

The second is the first in the opposite direction with the transposed matrix, so one kernel does both. The sums over all
steps are large products before and after it.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from porism.layers.kernels.triton import as_read
from porism.layers.recurrent.kernels.scan import (
    ScanLaunch,
    bits,
    empty_states,
    fed_back,
    inputs_of,
    launches,
    masked,
    plan,
    tanh,
    write_state,
)


@triton.jit
def _scan(
    inputs: tl.tensor, mask: tl.tensor, states: tl.tensor, out: tl.tensor, weight: tl.tensor,
    stride_in: tl.tensor, stride_out: tl.tensor, T: tl.tensor, B: tl.tensor, begin: tl.tensor, end: tl.tensor,
    H: tl.constexpr, ROWS: tl.constexpr, UNITS: tl.constexpr, PARTS: tl.constexpr, PART: tl.constexpr,
    REST: tl.constexpr, SLABS: tl.constexpr, BACK: tl.constexpr, ACTIVATION: tl.constexpr, MASKED: tl.constexpr,
    WAIT: tl.constexpr, PRECISION: tl.constexpr,
) -> None:  # fmt: skip
    """UNITS states of ROWS sequences, group after group.

    inputs and states (T, B, H), mask (B, H), out (T+1, B, H).
    """
    DTYPE: tl.constexpr = weight.dtype.element_ty
    slab = tl.program_id(0) % SLABS
    unit = slab * UNITS + tl.arange(0, UNITS)
    to = unit[None, None, :]
    previous = inputs_of(0, PARTS, PART)
    w = tl.load(
        weight + previous[:, :, None] * stride_in + to * stride_out,
        mask=(previous < H)[:, :, None] & (to < H), other=0.0,
    )  # fmt: skip
    w_later = w
    if REST:
        later = inputs_of(PARTS * PART, PARTS, REST)
        w_later = tl.load(
            weight + later[:, :, None] * stride_in + to * stride_out,
            mask=(later < H)[:, :, None] & (to < H), other=0.0,
        )  # fmt: skip
    step = tl.cast(B * H, tl.int64)
    for first_row in range(tl.program_id(0) // SLABS * ROWS, B, tl.num_programs(0) // SLABS * ROWS):
        row = first_row + tl.arange(0, ROWS)
        inside = (row < B)[:, None] & (unit < H)[None, :]
        place = row[:, None] * H + unit[None, :]
        for t in range(begin, end):
            if BACK:
                at, before, after = T - 1 - t, T - t, T - 1 - t
            else:
                at, before, after = t, t, t + 1
            # What does not depend on other programs is read before their states are waited for.
            z = tl.load(inputs + at * step + place, mask=inside, other=0.0).to(tl.float32)
            if BACK:
                s = tl.load(states + at * step + place, mask=inside, other=0.0).to(tl.float32)
            state, masks_state = out + before * step, MASKED and not BACK
            recurrent = fed_back(state, mask, row, w, w_later, B, t > 0, H, H, REST, masks_state, WAIT, PRECISION)
            if MASKED and BACK:
                recurrent = masked(recurrent, mask + place, inside)
            z += recurrent
            if BACK:
                if ACTIVATION == "sigmoid":
                    z *= s * (1.0 - s)
                elif ACTIVATION == "tanh":
                    z *= 1.0 - s * s
                else:
                    z = tl.where(s == 0.0, 0.0, z)
            else:
                if ACTIVATION == "sigmoid":
                    z = tl.sigmoid(z)
                elif ACTIVATION == "tanh":
                    z = tanh(z)
                else:
                    # No maximum, which would take 0 for NaN.
                    z = tl.where(z < 0.0, 0.0, z)
            write_state(out + after * step + place, z, inside, DTYPE)


def launch(B: int, weight_hh: Tensor) -> ScanLaunch | None:
    """How the scan of B sequences is launched; None where there is no room for the recurrent matrix on chip."""
    H = len(weight_hh)
    return plan(B, H, 1, H, weight_hh.dtype, weight_hh.device)


def forward(
    x: Tensor,
    h0: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias: Tensor | None,
    mask: Tensor | None,
    nonlinearity: str,
) -> Tensor:
    """h[0] to h[T], (T+1, B, H). `mask` (B, H) is multiplied into every h[t-1] on its way to the product."""
    inputs = torch.nn.functional.linear(x, weight_ih, bias)
    h = empty_states(len(x) + 1, *h0.shape, like=h0)
    h[0] = h0
    _run(inputs, h, h, weight_hh.mT, nonlinearity, mask, back=False)
    return h


def back_through_time(
    dy: Tensor, h: Tensor, recurrent: Tensor, nonlinearity: str, mask: Tensor | None = None
) -> Tensor:
    """delta of every step (T, B, H), as `gradient.back_through_time` has it."""
    delta = empty_states(len(h) + 1, *h.shape[1:], like=h)
    delta[-1] = 0
    _run(dy, h, delta, recurrent.mT, nonlinearity, mask, back=True)
    return delta[:-1]


def _run(
    inputs: Tensor,
    states: Tensor,
    out: Tensor,
    weight: Tensor,
    nonlinearity: str,
    mask: Tensor | None,
    back: bool,
) -> None:
    """Fills `out`, whose first state, or last on the way back, is given. `weight` is (from, to)."""
    T, B, H = inputs.shape
    found = launch(B, weight)
    assert found is not None, "callers check that there is room"
    weight = weight.resolve_neg()
    inputs, states = as_read(inputs), as_read(states)
    mask = inputs if mask is None else as_read(mask)
    for begin, end in launches(T):
        _scan[(found.programs,)](
            inputs, mask, states, bits(out), weight, *weight.stride(), T, B, begin, end,
            H=H, BACK=back, ACTIVATION=nonlinearity, MASKED=mask is not inputs, **found.options(weight.dtype),
        )  # fmt: skip
