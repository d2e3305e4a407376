"""The model of a recipe, for images of one shape and so many classes."""

from torch import nn

from porism.tasks.images.data.image_set import Shape
from porism.tasks.images.model.downsampling import Downsampling, check_large_enough
from porism.tasks.images.model.pixel_rnn import PixelRNN
from porism.tasks.images.model.residual import Residual
from porism.tasks.images.model.stacked import Stacked
from porism.tasks.images.recipes import ImagesRecipe

SMALLEST_RESIDUAL = 5
"""Rows and columns from which on the last stage has more than one pixel, as its norm needs for a single image."""


def build(recipe: ImagesRecipe, shape: Shape, classes: int) -> nn.Module:
    """
    >>> build(RECIPES["pooled"], Shape(1, 28, 28), classes=4)(torch.rand(8, 1, 28, 28)).shape
    torch.Size([8, 4])
    """
    match recipe.model:
        case "pooled" | "strided":
            return Downsampling(shape, classes, recipe.model == "pooled", recipe.dropout)
        case "residual":
            check_large_enough(shape, SMALLEST_RESIDUAL)
            return Residual(shape.channels, classes, recipe.hidden_size, recipe.num_layers, recipe.dropout)
        case "grid" | "convolution":
            return Stacked(recipe, shape.channels, classes)
        case "complete":
            return PixelRNN(recipe, shape.channels)
