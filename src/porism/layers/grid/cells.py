"""What happens at a pixel once the sums of its products are there. Rows are in the order of the walk."""

from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from porism.layers.grid.diagonals import Step

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
