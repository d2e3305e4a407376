"""Both passes as a walk over diagonals in torch's own operations, on any device.

Images are (B, Y, X, C), the channels of a pixel last. States are summed up in float32 at least: rounding errors would
be fed back at every step.
"""

from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from porism.layers.recurrent.grid.gradient import Back, Gradient, LSTMBack, SimpleBack, gradient
from porism.layers.recurrent.grid.kernels.diagonals import Step, by_diagonals, by_rows, order, steps


class Task(NamedTuple):
    """What is computed at a pixel, and from which corner on."""

    cell: str
    activation: str
    corner: str


def empty_kept(x: Tensor, H: int, task: Task) -> Tensor:
    """Room for what the way back needs beside the operands and the answer: the gates and the memory of an LSTM."""
    B, Y, X, _ = x.shape
    size = (B * Y * X, 6 * H) if task.cell == "lstm" else (0,)
    return x.new_empty(size, dtype=_exact(x))


def forward(
    x: Tensor, weight_in: Tensor, weight_left: Tensor, weight_top: Tensor, bias: Tensor | None, task: Task
) -> tuple[Tensor, Tensor]:
    """The states (B, Y, X, H), and what else the way back needs: x (B, Y, X, C), weights as torch keeps them."""
    (B, Y, X, _), H = x.shape, weight_left.shape[1]
    places = order(B, Y, X, task.corner, x.device)
    pixels, W_in, W_left, W_top = (
        part.to(_exact(x)) for part in (by_diagonals(x, places), weight_in.mT, weight_left.mT, weight_top.mT)
    )
    # Products read a matrix that lies as they need it twice as fast as its transpose.
    W_left, W_top = W_left.contiguous(), W_top.contiguous()
    h, kept = pixels.new_empty(B * Y * X, H), empty_kept(x, H, task)
    cell: Cell = LSTM(kept, h) if task.cell == "lstm" else Simple(h, task.activation)
    sums = cell.sums
    if bias is None:
        torch.mm(pixels, W_in, out=sums)
    else:
        torch.addmm(bias.to(_exact(x)), pixels, W_in, out=sums)
    for step in steps(B, Y, X):
        if step.right.stop > step.right.start:
            sums[step.right].addmm_(h[step.left], W_left)
        if step.below.stop > step.below.start:
            sums[step.below].addmm_(h[step.above], W_top)
        cell.finish(step)
    return by_rows(h.to(x.dtype), places, B, Y, X), kept


def backward(
    dy: Tensor,
    x: Tensor,
    weight_in: Tensor,
    weight_left: Tensor,
    weight_top: Tensor,
    y: Tensor,
    kept: Tensor,
    task: Task,
    wanted_x: bool,
) -> Gradient:
    """What reaches x (B, Y, X, C), where it is wanted, and the parameters; dy and y (B, Y, X, H)."""
    B, Y, X, _ = x.shape
    places = order(B, Y, X, task.corner, x.device)
    dh, h, pixels = (by_diagonals(image, places).to(_exact(x)) for image in (dy, y, x))
    weight_in, weight_left, weight_top = (weight.to(_exact(x)) for weight in (weight_in, weight_left, weight_top))
    back: Back = SimpleBack(dh, h, task.activation)
    if task.cell == "lstm":
        back = LSTMBack(dh, kept, dh.new_empty(len(dh), GATES["lstm"] * dh.shape[1]), torch.zeros_like(dh))
    dx, *parameters = gradient(back, pixels, h, weight_in, weight_left, weight_top, steps(B, Y, X), wanted_x)
    image = None if dx is None else by_rows(dx.to(x.dtype), places, B, Y, X)
    return Gradient(image, *(parameter.to(x.dtype) for parameter in parameters))


def _exact(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)


ACTIVATE = {"sigmoid": torch.sigmoid_, "tanh": torch.tanh_, "relu": torch.relu_}

GATES = {"simple": 1, "lstm": 5}
"""How many sums a cell takes for each hidden unit."""


class Cell(Protocol):
    """One of the two below."""

    @property
    def sums(self) -> Tensor: ...  # (rows, gates H)
    @property
    def h(self) -> Tensor: ...  # (rows, H)
    def finish(self, step: Step) -> None:
        """From the sums of a diagonal to its states."""


class Simple(NamedTuple):
    """h = act(sum), in place of the sum."""

    h: Tensor
    activation: str

    @property
    def sums(self) -> Tensor:
        return self.h

    def finish(self, step: Step) -> None:
        ACTIVATE[self.activation](self.h[step.pixels])


class LSTM(NamedTuple):
    """c = in new + keep_left c_left + keep_top c_top, h = out tanh(c); the gates take the place of their sums."""

    gates_and_memory: Tensor  # rows, 6H: the five gates and c
    h: Tensor

    @property
    def sums(self) -> Tensor:
        return self.gates_and_memory[:, : 5 * self.h.shape[1]]

    def finish(self, step: Step) -> None:
        H = self.h.shape[1]
        kept = self.gates_and_memory
        kept[step.pixels, : 4 * H].sigmoid_()
        kept[step.pixels, 4 * H : 5 * H].tanh_()
        let_in, keep_left, keep_top, let_out, new, c = kept.split(H, 1)
        torch.mul(let_in[step.pixels], new[step.pixels], out=c[step.pixels])
        c[step.right].addcmul_(keep_left[step.right], c[step.left])
        c[step.below].addcmul_(keep_top[step.below], c[step.above])
        torch.tanh(c[step.pixels], out=self.h[step.pixels]).mul_(let_out[step.pixels])
