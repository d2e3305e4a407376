"""The recurrent layer for images that people import, and its functional form."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from porism.errors import ShapeError
from porism.layers.operands import check_operands, check_whole
from porism.layers.recurrent.grid.functional import _COMBINE, _activation, _named, _suffix, grid
from porism.layers.recurrent.grid.kernels.cpu import GATES


class Grid(nn.Module):
    """A recurrent layer that walks an image: every pixel reads its left and its top neighbour.

    h[i,j] = act(x[i,j] W_in + h[i-1,j] W_left + h[i,j-1] W_top + b), i a column and j a row, zero outside

    >>> Grid(3, 16)(torch.randn(8, 3, 28, 20)).shape                 # B C Y X -> B H Y X
    torch.Size([8, 16, 28, 20])
    >>> Grid(3, 16, corners=4, combine="concatenate")(torch.randn(8, 3, 28, 20)).shape
    torch.Size([8, 64, 28, 20])
    >>> sum(parameter.numel() for parameter in Grid(3, 16).parameters())      # 2 H^2 + H C
    560

    It stands where an nn.Conv2d could, and sees all that lies above and to the left of a pixel. `corners` says where
    walks start, each with weights of its own: 1 (top left), 2 (and bottom right), 4, or their names; `combine` adds
    their states or puts them side by side. `cell="lstm"` keeps a memory with a gate for each neighbour, which has
    activations of its own; otherwise `activation` is sigmoid (unless told otherwise), tanh or relu. Weights start
    Glorot-uniform, biases at zero.

    Shapes: x (B, C, Y, X), or (C, Y, X) without a batch -> (B, H, Y, X), corners * H channels where concatenated.
    """

    def __init__(
        self,
        in_channels: int,
        hidden: int,
        activation: str | None = None,
        bias: bool = False,
        cell: str = "simple",
        corners: int | Sequence[str] = 1,
        combine: str = "sum",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        for name, size in (("in_channels", in_channels), ("hidden", hidden)):
            check_whole("grid", name, size)
        if combine not in _COMBINE:
            raise ShapeError(f"grid: combine is {combine!r}. Choose from {', '.join(_COMBINE)}.")
        self.activation = _activation(cell, activation)
        self.in_channels = in_channels
        self.hidden = hidden
        self.cell = cell
        self.corners = _named(corners)
        self.combine = combine
        self.biased = bias
        width = GATES[cell] * hidden
        shapes: dict[str, tuple[int, ...]] = {
            "weight_in": (width, in_channels),
            "weight_left": (width, hidden),
            "weight_top": (width, hidden),
        }
        if bias:
            shapes["bias"] = (width,)
        for corner in self.corners:
            for name, shape in shapes.items():
                parameter = nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
                self.register_parameter(name + _suffix(corner), parameter)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Glorot-uniform weights, zero biases."""
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.xavier_uniform_(parameter)
            else:
                nn.init.zeros_(parameter)

    def forward(self, x: Tensor) -> Tensor:
        """The states of every pixel, over all corners."""
        check_operands("grid", x=x)
        self._check_input(x)
        images = x if x.dim() == 4 else x.unsqueeze(0)
        walks = [self._walk(images, corner) for corner in self.corners]
        y = torch.cat(walks, 1) if self.combine == "concatenate" else sum(walks[1:], walks[0])
        return y if x.dim() == 4 else y.squeeze(0)

    def _walk(self, images: Tensor, corner: str) -> Tensor:
        names = ("weight_in", "weight_left", "weight_top", *(("bias",) if self.biased else ()))
        weight_in, weight_left, weight_top, *bias = (getattr(self, name + _suffix(corner)) for name in names)
        only_bias = bias[0] if bias else None
        return grid(images, weight_in, weight_left, weight_top, only_bias, self.activation, self.cell, corner)

    def _check_input(self, x: Tensor) -> None:
        shape = tuple(x.shape)
        if len(shape) not in (3, 4):
            raise ShapeError(
                f"grid: x is {shape}, {len(shape)} dimensions, wanted (B, C, Y, X) or (C, Y, X) without a batch. "
                "Add the missing dimension with x.unsqueeze."
            )
        if shape[-3] != self.in_channels:
            raise ShapeError(
                f"grid: x is {shape}, {shape[-3]} channels, wanted {self.in_channels}, the in_channels. "
                f"Build the layer with in_channels={shape[-3]}, or bring the channels in front with x.movedim(-1, -3)."
            )

    def extra_repr(self) -> str:
        activation = [] if self.activation is None else [f"activation={self.activation!r}"]
        options = ("cell", "corners", "combine")
        settings = [f"bias={self.biased}", *(f"{option}={getattr(self, option)!r}" for option in options)]
        return ", ".join([str(self.in_channels), str(self.hidden), *activation, *settings])
