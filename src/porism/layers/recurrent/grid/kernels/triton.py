"""The scan on a GPU: a program owns a band of rows of one image, and its running diagonal goes down and to the right.

    forward     h[i,j] = act(z[i,j] + h[i-1,j] W_left + h[i,j-1] W_top)
    backward    delta[i,j] = act' * (dh[i,j] + delta[i+1,j] W_left^T + delta[i,j+1] W_top^T)

The second is the first in the opposite direction with transposed weights, so one kernel does both, in any direction: it
is where pointers start and which way their strides go. At every diagonal a band multiplies a tile of ROWS states by
each matrix, whatever the size of the image. Its first row waits for the band above, which counts the steps it has done;
bands above are started first, so that whoever waits, waits for a program that runs. States travel through the second
level cache, which all bands see; the matrices stay in the caches. Sums over all pixels are large products before and
after the scan. The bits are the same on every run.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from porism.layers.kernels.triton import as_read, precision, product
from porism.layers.recurrent.grid.gradient import GridGradient


class GridLaunch(NamedTuple):
    """Rows of a band, states that are multiplied at a time, and how the kernel is compiled."""

    rows: int
    met: int
    warps: int


def launch(Y: int, H: int, dtype: torch.dtype) -> GridLaunch:
    """The one place to tune. The more bytes in a row of a matrix, the fewer rows of it fit on chip at a time."""
    width = _tile(H)
    met = 16_384 // (width * dtype.itemsize)
    return GridLaunch(min(32, _tile(Y)), max(16, min(64, met)), 8 if width >= 128 else 4)


@triton.jit
def _scan(
    inputs: tl.tensor, states: tl.tensor, out: tl.tensor, weight_left: tl.tensor, weight_top: tl.tensor,
    done: tl.tensor, start: tl.tensor, row_stride: tl.tensor, column_stride: tl.tensor,
    B: tl.tensor, Y: tl.tensor, X: tl.tensor,
    H: tl.constexpr, H_TILE: tl.constexpr, ROWS: tl.constexpr, MET: tl.constexpr,
    BACK: tl.constexpr, ACTIVATION: tl.constexpr, BANDS: tl.constexpr, PRECISION: tl.constexpr,
) -> None:  # fmt: skip
    """One band of one image; inputs, states and out are (B, Y, X, H), the matrices as they are multiplied with."""
    band, image = tl.program_id(0) // B, tl.program_id(0) % B
    row = band * ROWS + tl.arange(0, ROWS)
    unit = tl.arange(0, H_TILE)
    first = start + image.to(tl.int64) * Y * X * H + row.to(tl.int64) * row_stride
    for diagonal in range(X + ROWS - 1):
        column = diagonal - tl.arange(0, ROWS)
        inside = (row < Y) & (column >= 0) & (column < X)
        if BANDS:
            # The last row above must have passed this column. Nobody is above the first band.
            needed = tl.where(band > 0, tl.minimum(diagonal + ROWS, X + ROWS - 1), 0)
            while tl.atomic_add(done + tl.maximum(band - 1, 0) * B + image, 0, sem="acquire") < needed:
                pass
        pixel = first + column * column_stride
        here = inside[:, None] & (unit < H)[None, :]
        place = pixel[:, None] + unit[None, :]
        z = tl.load(inputs + place, mask=here, other=0.0).to(tl.float32)
        for begin in range(0, H, MET):
            met = begin + tl.arange(0, MET)
            known = (met < H)[None, :]
            # Other programs write here too: what the first level cache holds may be old.
            left = tl.load(
                out + (pixel - column_stride)[:, None] + met[None, :],
                mask=(inside & (column > 0))[:, None] & known, other=0.0, cache_modifier=".cg",
            )  # fmt: skip
            top = tl.load(
                out + (pixel - row_stride)[:, None] + met[None, :],
                mask=(inside & (row > 0))[:, None] & known, other=0.0, cache_modifier=".cg",
            )  # fmt: skip
            entries = met[:, None] * H + unit[None, :]
            inner = (met < H)[:, None] & (unit < H)[None, :]
            z += product(left, tl.load(weight_left + entries, mask=inner, other=0.0), PRECISION)
            z += product(top, tl.load(weight_top + entries, mask=inner, other=0.0), PRECISION)
        if BACK:
            h = tl.load(states + place, mask=here, other=0.0).to(tl.float32)
            if ACTIVATION == "sigmoid":
                z *= h * (1.0 - h)
            elif ACTIVATION == "tanh":
                z *= 1.0 - h * h
            else:
                z = tl.where(h == 0.0, 0.0, z)
        else:
            if ACTIVATION == "sigmoid":
                z = tl.sigmoid(z)
            elif ACTIVATION == "tanh":
                z = 2.0 * tl.sigmoid(2.0 * z) - 1.0
            else:
                # No maximum, which would take 0 for NaN.
                z = tl.where(z < 0.0, 0.0, z)
        tl.store(out + place, z.to(out.dtype.element_ty), mask=here)
        # The next diagonal reads what all threads of this one wrote.
        tl.debug_barrier()
        if BANDS:
            tl.atomic_xchg(done + band * B + image, diagonal + 1, sem="release")


def forward(
    x: Tensor,
    weight_in: Tensor,
    weight_left: Tensor,
    weight_top: Tensor,
    bias: Tensor | None,
    nonlinearity: str,
    direction: str,
) -> Tensor:
    """The states (B, Y, X, H): x (B, Y, X, C), weights (H, C), (H, H)."""
    z = torch.nn.functional.linear(x, weight_in, bias)
    return _scanned(z, z, weight_left.mT, weight_top.mT, nonlinearity, direction, back=False)


def backward(
    dy: Tensor,
    x: Tensor,
    weight_in: Tensor,
    weight_left: Tensor,
    weight_top: Tensor,
    y: Tensor,
    nonlinearity: str,
    direction: str,
    needs_x: bool,
) -> GridGradient:
    """What reaches x, (B, Y, X, C) and only where it is expected, and the parameters; dy and y (B, Y, X, H)."""
    delta = _scanned(dy, y, weight_left, weight_top, nonlinearity, direction, back=True)
    # dx[i,j] = delta[i,j] W_in^T
    dx = delta @ weight_in if needs_x else None
    # dW_in = sum x[i,j]^T delta[i,j]
    dW_in = _sum_of_products(delta, x)
    # dW_left = sum h[i-1,j]^T delta[i,j];  dW_top = sum h[i,j-1]^T delta[i,j]           as seen from the direction
    vertical, horizontal = direction.split("-")
    later, earlier = slice(1, None), slice(None, -1)
    right, left = (earlier, later) if horizontal == "right" else (later, earlier)
    below, above = (earlier, later) if vertical == "bottom" else (later, earlier)
    dW_left = _sum_of_products(delta[:, :, right], y[:, :, left])
    dW_top = _sum_of_products(delta[:, below], y[:, above])
    # db = sum delta[i,j]
    db = delta.sum((0, 1, 2))
    return GridGradient(dx, dW_in, dW_left, dW_top, db)


def _scanned(
    inputs: Tensor, states: Tensor, left: Tensor, top: Tensor, nonlinearity: str, direction: str, back: bool
) -> Tensor:
    """What a scan in a direction, or back, writes: (B, Y, X, H), as the inputs."""
    inputs, states, left, top = (as_read(part) for part in (inputs, states, left, top))
    B, Y, X, H = inputs.shape
    rows, met, warps = launch(Y, H, inputs.dtype)
    bands = triton.cdiv(Y, rows)
    vertical, horizontal = direction.split("-")
    upward, leftward = (vertical == "bottom") != back, (horizontal == "right") != back
    start = (Y - 1) * X * H * upward + (X - 1) * H * leftward
    out = torch.empty_like(inputs)
    done = torch.zeros(bands * B, dtype=torch.int32, device=inputs.device)
    _scan[(bands * B,)](
        inputs, states, out, left, top, done, start, -X * H if upward else X * H, -H if leftward else H, B, Y, X,
        H=H, H_TILE=_tile(H), ROWS=rows, MET=met, BACK=back, ACTIVATION=nonlinearity, BANDS=bands > 1,
        PRECISION=precision(inputs.dtype), num_warps=warps, num_stages=1,
    )  # fmt: skip
    return out


def _sum_of_products(a: Tensor, b: Tensor) -> Tensor:
    """Over all pixels: (B, Y, X, n), (B, Y, X, m) -> (n, m)."""
    return a.reshape(-1, a.shape[-1]).mT @ b.reshape(-1, b.shape[-1])


def _tile(size: int) -> int:
    """The side of a tile that holds so many; products take 16 at least."""
    power: int = triton.next_power_of_2(size)
    return max(16, power)
