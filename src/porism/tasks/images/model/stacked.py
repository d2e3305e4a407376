"""Stacked layers of one of two kinds: recurrent scans over the grid, or 3 x 3 convolutions."""

from itertools import pairwise

from torch import Tensor, nn
from torch.nn import functional

from porism.layers import Grid
from porism.tasks.images.recipes import ImagesRecipe


class Stacked(nn.Module):
    """Patches of the image, layers, each followed by a norm, the mean over the image, a linear layer.

    >>> recipe = replace(RECIPES["grid-4"], hidden_size=16, num_layers=2)
    >>> Stacked(recipe, channels=1, classes=10)(torch.randn(8, 1, 28, 28)).shape
    torch.Size([8, 10])

    A patch of p x p pixels becomes one pixel of p^2 times the channels; an image that does not divide into patches
    gets a border of zeros on the right and below. Every layer gives H channels, whatever it is made of; the states of
    several corners are added.

    Shapes: x (B, C, Y, X) -> logits (B, V).
    """

    def __init__(self, recipe: ImagesRecipe, channels: int, classes: int) -> None:
        super().__init__()
        self.patch = recipe.patch_size
        widths = [channels * recipe.patch_size**2, *[recipe.hidden_size] * recipe.num_layers]
        self.layers = nn.ModuleList(_layer(recipe, before, width) for before, width in pairwise(widths))
        self.norms = nn.ModuleList(nn.BatchNorm2d(width) for width in widths[1:])
        self.drop = nn.Dropout(recipe.dropout)
        self.head = nn.Linear(recipe.hidden_size, classes)

    def forward(self, x: Tensor) -> Tensor:
        whole = functional.pad(x, (0, -x.shape[3] % self.patch, 0, -x.shape[2] % self.patch))
        x = functional.pixel_unshuffle(whole, self.patch)  # B, C p^2, Y/p, X/p
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = norm(layer(x))  # B, H, Y/p, X/p
        logits: Tensor = self.head(self.drop(x.mean((2, 3))))
        return logits


def _layer(recipe: ImagesRecipe, before: int, width: int) -> nn.Module:
    if recipe.model == "convolution":
        return nn.Sequential(nn.Conv2d(before, width, 3, padding=1), nn.ReLU())
    cell, nonlinearity = ("lstm", "sigmoid") if recipe.cell == "lstm" else ("rnn", recipe.nonlinearity)
    return Grid(before, width, nonlinearity, bias=True, cell=cell, directions=recipe.directions)
