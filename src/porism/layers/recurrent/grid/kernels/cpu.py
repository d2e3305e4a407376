"""Both passes as a scan over diagonals in torch's own operations, on any device.

Images are (B, Y, X, C), the channels of a pixel last. States are summed up in float32 at least: rounding errors would
be fed back at every diagonal.
"""

from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from porism.layers.recurrent.grid.gradient import Back, GridGradient, LSTMBack, RNNBack, gradient
from porism.layers.recurrent.grid.kernels.diagonals import PixelDiagonal, by_diagonals, by_rows, diagonals, order


class GridSettings(NamedTuple):
    """What is computed at a pixel, and from which corner on."""

    cell: str
    nonlinearity: str
    direction: str


def empty_kept(x: Tensor, H: int, settings: GridSettings) -> Tensor:
    """Room for what the backward pass needs beside the operands and the answer: the gates and the memory of an LSTM."""
    B, Y, X, _ = x.shape
    size = (B * Y * X, 6 * H) if settings.cell == "lstm" else (0,)
    return x.new_empty(size, dtype=_exact(x))


def forward(
    x: Tensor, weight_in: Tensor, weight_left: Tensor, weight_top: Tensor, bias: Tensor | None, settings: GridSettings
) -> tuple[Tensor, Tensor]:
    """The states (B, Y, X, H), and what else the backward pass needs: x (B, Y, X, C), weights as torch keeps them."""
    (B, Y, X, _), H = x.shape, weight_left.shape[1]
    positions = order(B, Y, X, settings.direction, x.device)
    pixels, W_in, W_left, W_top = (
        part.to(_exact(x)) for part in (by_diagonals(x, positions), weight_in.mT, weight_left.mT, weight_top.mT)
    )
    # Products read a matrix that lies as they need it twice as fast as its transpose.
    W_left, W_top = W_left.contiguous(), W_top.contiguous()
    h, kept = pixels.new_empty(B * Y * X, H), empty_kept(x, H, settings)
    cell: GridCell = LSTMCell(kept, h) if settings.cell == "lstm" else RNNCell(h, settings.nonlinearity)
    sums = cell.sums
    if bias is None:
        torch.mm(pixels, W_in, out=sums)
    else:
        torch.addmm(bias.to(_exact(x)), pixels, W_in, out=sums)
    for diagonal in diagonals(B, Y, X):
        if diagonal.right.stop > diagonal.right.start:
            sums[diagonal.right].addmm_(h[diagonal.left], W_left)
        if diagonal.below.stop > diagonal.below.start:
            sums[diagonal.below].addmm_(h[diagonal.above], W_top)
        cell.finish(diagonal)
    return by_rows(h.to(x.dtype), positions, B, Y, X), kept


def backward(
    dy: Tensor,
    x: Tensor,
    weight_in: Tensor,
    weight_left: Tensor,
    weight_top: Tensor,
    y: Tensor,
    kept: Tensor,
    settings: GridSettings,
    needs_x: bool,
) -> GridGradient:
    """What reaches x (B, Y, X, C), where it is needed, and the parameters; dy and y (B, Y, X, H)."""
    B, Y, X, _ = x.shape
    positions = order(B, Y, X, settings.direction, x.device)
    dh, h, pixels = (by_diagonals(image, positions).to(_exact(x)) for image in (dy, y, x))
    weight_in, weight_left, weight_top = (weight.to(_exact(x)) for weight in (weight_in, weight_left, weight_top))
    back: Back = RNNBack(dh, h, settings.nonlinearity)
    if settings.cell == "lstm":
        back = LSTMBack(dh, kept, dh.new_empty(len(dh), GATES["lstm"] * dh.shape[1]), torch.zeros_like(dh))
    dx, *parameters = gradient(back, pixels, h, weight_in, weight_left, weight_top, diagonals(B, Y, X), needs_x)
    image = None if dx is None else by_rows(dx.to(x.dtype), positions, B, Y, X)
    return GridGradient(image, *(parameter.to(x.dtype) for parameter in parameters))


def _exact(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)


ACTIVATE = {"sigmoid": torch.sigmoid_, "tanh": torch.tanh_, "relu": torch.relu_}

GATES = {"rnn": 1, "lstm": 5}
"""How many sums a cell takes for each hidden unit."""


class GridCell(Protocol):
    """One of the two below."""

    @property
    def sums(self) -> Tensor: ...  # (rows, gates H)
    @property
    def h(self) -> Tensor: ...  # (rows, H)
    def finish(self, diagonal: PixelDiagonal) -> None:
        """From the sums of a diagonal to its states."""


class RNNCell(NamedTuple):
    """h = act(sum), in place of the sum."""

    h: Tensor
    nonlinearity: str

    @property
    def sums(self) -> Tensor:
        return self.h

    def finish(self, diagonal: PixelDiagonal) -> None:
        ACTIVATE[self.nonlinearity](self.h[diagonal.pixels])


class LSTMCell(NamedTuple):
    """c = in new + keep_left c_left + keep_top c_top, h = out tanh(c); the gates take the place of their sums."""

    gates_and_memory: Tensor  # rows, 6H: the five gates and c
    h: Tensor

    @property
    def sums(self) -> Tensor:
        return self.gates_and_memory[:, : 5 * self.h.shape[1]]

    def finish(self, diagonal: PixelDiagonal) -> None:
        H = self.h.shape[1]
        kept = self.gates_and_memory
        kept[diagonal.pixels, : 4 * H].sigmoid_()
        kept[diagonal.pixels, 4 * H : 5 * H].tanh_()
        let_in, keep_left, keep_top, let_out, new, c = kept.split(H, 1)
        torch.mul(let_in[diagonal.pixels], new[diagonal.pixels], out=c[diagonal.pixels])
        c[diagonal.right].addcmul_(keep_left[diagonal.right], c[diagonal.left])
        c[diagonal.below].addcmul_(keep_top[diagonal.below], c[diagonal.above])
        torch.tanh(c[diagonal.pixels], out=self.h[diagonal.pixels]).mul_(let_out[diagonal.pixels])
