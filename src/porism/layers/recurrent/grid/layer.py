"""The recurrent layer for images that people import."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from porism.errors import ShapeError
from porism.layers.operands import check_operands, check_whole
from porism.layers.recurrent.grid.functional import MERGE_MODES, check_cell, direction_names, grid, parameter_suffix
from porism.layers.recurrent.grid.kernels.cpu import GATES


class Grid(nn.Module):
    """Two-dimensional recurrent layer over images: every pixel reads its left and its top neighbour.

    h[i,j] = act(x[i,j] W_in + h[i-1,j] W_left + h[i,j-1] W_top + b), i a column and j a row, zero outside

    >>> Grid(3, 16)(torch.randn(8, 3, 28, 20)).shape                 # B C Y X -> B H Y X
    torch.Size([8, 16, 28, 20])
    >>> Grid(3, 16, directions=4, merge_mode="concat")(torch.randn(8, 3, 28, 20)).shape
    torch.Size([8, 64, 28, 20])
    >>> sum(parameter.numel() for parameter in Grid(3, 16).parameters())      # 2 H^2 + H C
    560

    It stands where an nn.Conv2d could, and sees all that lies above and to the left of a pixel. `directions` are the
    corners where scans start, each with weights of its own: 1 (top left), 2 (and bottom right), 4, or their names;
    `merge_mode` "sum" adds their states, "concat" puts them side by side. `cell="lstm"` keeps a memory with a gate for
    each neighbour and has nonlinearities of its own; for `cell="rnn"` it is sigmoid, tanh or relu. Weights start
    Glorot-uniform, biases at zero.

    Shapes: input (B, C, Y, X), or (C, Y, X) without a batch -> (B, H, Y, X), with "concat" directions * H channels.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_size: int,
        nonlinearity: str = "sigmoid",
        bias: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        cell: str = "rnn",
        directions: int | Sequence[str] = 1,
        merge_mode: str = "sum",
    ) -> None:
        super().__init__()
        for name, size in (("in_channels", in_channels), ("hidden_size", hidden_size)):
            check_whole("grid", name, size)
        if merge_mode not in MERGE_MODES:
            raise ShapeError(f"grid: merge_mode is {merge_mode!r}. Choose from {', '.join(MERGE_MODES)}.")
        check_cell(cell, nonlinearity)
        self.nonlinearity = nonlinearity
        self.in_channels = in_channels
        self.hidden_size = hidden_size
        self.cell = cell
        self.directions = direction_names(directions)
        self.merge_mode = merge_mode
        self.has_bias = bias
        width = GATES[cell] * hidden_size
        shapes: dict[str, tuple[int, ...]] = {
            "weight_in": (width, in_channels),
            "weight_left": (width, hidden_size),
            "weight_top": (width, hidden_size),
        }
        if bias:
            shapes["bias"] = (width,)
        for direction in self.directions:
            for name, shape in shapes.items():
                parameter = nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
                self.register_parameter(name + parameter_suffix(direction), parameter)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Glorot-uniform weights, zero biases."""
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.xavier_uniform_(parameter)
            else:
                nn.init.zeros_(parameter)

    def forward(self, input: Tensor) -> Tensor:
        """The states of every pixel, over all directions."""
        check_operands("grid", input=input)
        self._check_input(input)
        images = input if input.dim() == 4 else input.unsqueeze(0)
        scans = [self._scan(images, direction) for direction in self.directions]
        y = torch.cat(scans, 1) if self.merge_mode == "concat" else sum(scans[1:], scans[0])
        return y if input.dim() == 4 else y.squeeze(0)

    if TYPE_CHECKING:
        __call__ = forward

    def _scan(self, images: Tensor, direction: str) -> Tensor:
        names = ("weight_in", "weight_left", "weight_top", *(("bias",) if self.has_bias else ()))
        weight_in, weight_left, weight_top, *bias = (
            getattr(self, name + parameter_suffix(direction)) for name in names
        )
        only_bias = bias[0] if bias else None
        return grid(images, weight_in, weight_left, weight_top, only_bias, self.nonlinearity, self.cell, direction)

    def _check_input(self, input: Tensor) -> None:
        shape = tuple(input.shape)
        if len(shape) not in (3, 4):
            raise ShapeError(
                f"grid: input is {shape}, {len(shape)} dimensions, expected (B, C, Y, X) or (C, Y, X). "
                "Add the missing dimension with input.unsqueeze."
            )
        if shape[-3] != self.in_channels:
            raise ShapeError(
                f"grid: input is {shape}, {shape[-3]} channels, expected {self.in_channels}, the in_channels. "
                f"Build the layer with in_channels={shape[-3]}, or move the channels with input.movedim(-1, -3)."
            )

    def extra_repr(self) -> str:
        nonlinearity = [] if self.cell == "lstm" else [f"nonlinearity={self.nonlinearity!r}"]
        options = ("cell", "directions", "merge_mode")
        settings = [f"bias={self.has_bias}", *(f"{option}={getattr(self, option)!r}" for option in options)]
        return ", ".join([str(self.in_channels), str(self.hidden_size), *nonlinearity, *settings])
