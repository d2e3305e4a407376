"""The backward pass by hand: a line of maths above a line of code, no autograd. The README derives every line.

z[i,j] = x[i,j] W_in + h[i-1,j] W_left + h[i,j-1] W_top + b are the sums of a pixel, and delta[i,j] is the gradient with
respect to them. Rows are pixels in the order of the scan, and weights lie as torch keeps them: weight_in is W_in^T.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from porism.layers.recurrent.grid.kernels.diagonals import PixelDiagonal

_BACK = torch.ops.aten


class GridGradient(NamedTuple):
    """What reaches x, in the order of the scan and only where it is needed, and the parameters."""

    x: Tensor | None
    weight_in: Tensor
    weight_left: Tensor
    weight_top: Tensor
    bias: Tensor


class Back(Protocol):
    """The backward pass through a cell: one of the two below."""

    @property
    def dh(self) -> Tensor: ...  # (rows, H), what reaches a state; a diagonal is complete when its turn comes
    @property
    def delta(self) -> Tensor: ...  # (rows, gates H)
    def start(self, diagonal: PixelDiagonal) -> None:
        """From dh of a diagonal to its delta."""


class RNNBack(NamedTuple):
    """delta takes the place of dh."""

    dh: Tensor
    h: Tensor
    nonlinearity: str

    @property
    def delta(self) -> Tensor:
        return self.dh

    def start(self, diagonal: PixelDiagonal) -> None:
        dh, h = self.dh[diagonal.pixels], self.h[diagonal.pixels]
        match self.nonlinearity:
            case "sigmoid":
                # delta = dh * h (1 - h)
                _BACK.sigmoid_backward.grad_input(dh, h, grad_input=dh)
            case "tanh":
                # delta = dh * (1 - h^2)
                _BACK.tanh_backward.grad_input(dh, h, grad_input=dh)
            case _:
                # delta = dh * [h > 0]
                _BACK.threshold_backward.grad_input(dh, h, 0, grad_input=dh)


class LSTMBack(NamedTuple):
    """c = in new + keep_left c_left + keep_top c_top, h = out tanh(c)."""

    dh: Tensor
    gates_and_memory: Tensor
    delta: Tensor
    dc: Tensor
    """Zero at first."""

    def start(self, diagonal: PixelDiagonal) -> None:
        H = self.dh.shape[1]
        here, right, left, below, above = diagonal
        let_in, keep_left, keep_top, let_out, new, c = self.gates_and_memory.split(H, 1)
        d_in, d_left, d_top, d_out, d_new = self.delta.split(H, 1)
        dh, dc = self.dh, self.dc
        t = torch.tanh(c[here])
        # dc += dh * out (1 - tanh(c)^2)
        dc[here] += dh[here] * let_out[here] * (1 - t * t)
        # dc_left += dc * keep_left;  dc_top += dc * keep_top
        dc[left].addcmul_(dc[right], keep_left[right])
        dc[above].addcmul_(dc[below], keep_top[below])
        # delta_in = dc * new * in (1 - in)
        d_in[here] = dc[here] * new[here] * let_in[here] * (1 - let_in[here])
        # delta_keep_left = dc * c_left * keep_left (1 - keep_left)         c_left = 0 outside
        d_left[here] = 0
        d_left[right] = dc[right] * c[left] * keep_left[right] * (1 - keep_left[right])
        # delta_keep_top = dc * c_top * keep_top (1 - keep_top)
        d_top[here] = 0
        d_top[below] = dc[below] * c[above] * keep_top[below] * (1 - keep_top[below])
        # delta_out = dh * tanh(c) * out (1 - out)
        d_out[here] = dh[here] * t * let_out[here] * (1 - let_out[here])
        # delta_new = dc * in * (1 - new^2)
        d_new[here] = dc[here] * let_in[here] * (1 - new[here] * new[here])


def gradient(
    back: Back,
    x: Tensor,
    h: Tensor,
    weight_in: Tensor,
    weight_left: Tensor,
    weight_top: Tensor,
    diagonals: Sequence[PixelDiagonal],
    needs_x: bool = True,
) -> GridGradient:
    """The gradients of x and of all parameters, from the last diagonal to the first: x (rows, C), h (rows, H)."""
    dW_left, dW_top = (weight.new_zeros(weight.shape) for weight in (weight_left, weight_top))
    dh, delta = back.dh, back.delta
    for diagonal in reversed(diagonals):
        back.start(diagonal)
        if diagonal.right.stop > diagonal.right.start:
            delta_here = delta[diagonal.right]
            # dh[i-1,j] += delta[i,j] W_left^T
            dh[diagonal.left].addmm_(delta_here, weight_left)
            # dW_left += h[i-1,j]^T delta[i,j]            a diagonal at a time, transposed as torch keeps it
            dW_left.addmm_(delta_here.mT, h[diagonal.left])
        if diagonal.below.stop > diagonal.below.start:
            delta_here = delta[diagonal.below]
            # dh[i,j-1] += delta[i,j] W_top^T
            dh[diagonal.above].addmm_(delta_here, weight_top)
            # dW_top += h[i,j-1]^T delta[i,j]
            dW_top.addmm_(delta_here.mT, h[diagonal.above])
    # dx[i,j] = delta[i,j] W_in^T
    dx = delta @ weight_in if needs_x else None
    # dW_in = sum x[i,j]^T delta[i,j]
    dW_in = delta.mT @ x
    # db = sum delta[i,j]
    db = delta.sum(0)
    return GridGradient(dx, dW_in, dW_left, dW_top, db)
