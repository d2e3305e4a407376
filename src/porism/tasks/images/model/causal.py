"""Layers whose states know of pixels before their own only, when an image is read like a text: rows from the top left.

The first layer of a net reads the pixels themselves, so it must leave out the pixel to be predicted. After it a state
knows only of pixels before its own, and may be read at its own position.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from porism.layers import LSTM, Elman, Grid
from porism.tasks.images.recipes import ImagesRecipe

FIRST_KERNEL, KERNEL = 7, 3
"""Rows and columns of a masked convolution: of the first layer, and of those after it, as in PixelCNN."""


def causal_layer(recipe: ImagesRecipe, before: int, width: int, first: bool) -> nn.Module:
    """The layer that a recipe's `layer` names, from `before` channels to `width`."""
    match recipe.layer:
        case "grid":
            return Causal(recipe, before, width, first)
        case "sequence":
            return CausalSequence(recipe, before, width, first)
        case "convolution":
            return CausalConvolution(before, width, first)


class Causal(nn.Module):
    """A scan from the top left, which sees the columns to the left, and one from the top right over the rows above.

    The first sees (j' <= j, i' < i), the second (j' < j, i' >= i), j rows and i columns: together all that comes
    before pixel (j, i). For that, the first layer moves the image of the first scan one pixel to the right, and every
    layer that of the second scan one row down.

    Shapes: x (B, C, Y, X) -> (B, H, Y, X).
    """

    def __init__(self, recipe: ImagesRecipe, before: int, width: int, first: bool) -> None:
        super().__init__()
        self.first = first
        cell, nonlinearity = ("lstm", "sigmoid") if recipe.cell == "lstm" else ("rnn", recipe.nonlinearity)
        self.left, self.right = (
            Grid(before, width, nonlinearity, bias=True, cell=cell, directions=(direction,))
            for direction in ("top-left", "top-right")
        )

    def forward(self, x: Tensor) -> Tensor:
        to_the_right = functional.pad(x, (1, -1)) if self.first else x
        down = functional.pad(x, (0, 0, 1, -1))
        states: Tensor = self.left(to_the_right) + self.right(down)
        return states


class CausalSequence(nn.Module):
    """One scan over all pixels in the order in which a text is read: a row goes on where the one above it ends.

    Shapes: x (B, C, Y, X) -> (B, H, Y, X).
    """

    def __init__(self, recipe: ImagesRecipe, before: int, width: int, first: bool) -> None:
        super().__init__()
        self.first = first
        self.scan = (
            LSTM(before, width) if recipe.cell == "lstm" else Elman(before, width, nonlinearity=recipe.nonlinearity)
        )
        if isinstance(self.scan, LSTM):
            # An LSTM that starts by remembering learns sooner: the forget gate is the second quarter.
            nn.init.ones_(self.scan.get_parameter("bias_ih_l0").chunk(4)[1])

    def forward(self, x: Tensor) -> Tensor:
        pixels = x.flatten(2)  # B, C, Y X
        if self.first:
            pixels = functional.pad(pixels, (1, -1))
        states: Tensor = self.scan(pixels.permute(2, 0, 1))[0]  # Y X, B, H
        return states.permute(1, 2, 0).reshape(len(x), -1, *x.shape[2:])


class CausalConvolution(nn.Module):
    """A masked convolution: of its kernel only the rows above, and in the same row the columns to the left.

    Made of two convolutions, one for either part, so that there is no weight that a mask takes away.

    Shapes: x (B, C, Y, X) -> (B, H, Y, X).
    """

    def __init__(self, before: int, width: int, first: bool) -> None:
        super().__init__()
        self.first = first
        size = FIRST_KERNEL if first else KERNEL
        self.reach = size // 2
        self.above = nn.Conv2d(before, width, (self.reach, size))
        self.left = nn.Conv2d(before, width, (1, self.reach if first else self.reach + 1), bias=False)

    def forward(self, x: Tensor) -> Tensor:
        reach = self.reach
        if not self.first:
            x = torch.relu(x)
        above = self.above(functional.pad(x, (reach, reach, reach, -1)))
        left = self.left(functional.pad(x, (reach, -1 if self.first else 0)))
        states: Tensor = above + left
        return states
