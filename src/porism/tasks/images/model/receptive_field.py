"""Receptive field, path length and sequential steps of an image model."""

from collections.abc import Sequence
from math import ceil
from typing import NamedTuple

from porism.tasks.images.data.image_set import Shape
from porism.tasks.images.model.causal import FIRST_KERNEL, KERNEL
from porism.tasks.images.model.residual import STAGES
from porism.tasks.images.recipes import ImagesRecipe


class ReceptiveField(NamedTuple):
    """Of the last states before the image is summed up.

    `field`: rows and columns of pixels one of them sees. `path`: products on the shortest way from the farthest of
    these pixels. `steps`: products of the whole net that wait for one another, however many processors there are.
    """

    field: tuple[int, int]
    path: int
    steps: int

    def facts(self) -> dict[str, int | float | str]:
        rows, columns = self.field
        return {
            "receptive field": f"{rows} x {columns}",
            "path length from its farthest pixel": self.path,
            "sequential products": self.steps,
        }


def receptive_field(recipe: ImagesRecipe, shape: Shape) -> ReceptiveField:
    """
    >>> receptive_field(RECIPES["grid-4"], Shape(1, 28, 28)).field
    (28, 28)
    >>> receptive_field(RECIPES["convolution-equal"], Shape(1, 28, 28)).field
    (5, 5)
    """
    rows, columns, layers = (
        ceil(shape.rows / recipe.patch_size),
        ceil(shape.columns / recipe.patch_size),
        recipe.num_layers,
    )
    match recipe.model:
        case "complete" if recipe.layer == "convolution":
            reach = FIRST_KERNEL // 2 + (layers - 1) * (KERNEL // 2)
            field = (min(reach + 1, shape.rows), min(2 * reach + 1, shape.columns))
            return ReceptiveField(field, layers, layers + 2)
        case "grid" | "complete":
            # A scan over the grid takes a step a diagonal, and the path from corner to corner crosses all of them once.
            scanned = rows * columns if recipe.layer == "sequence" else rows + columns - 1
            read_out = 1 if recipe.model == "grid" else 2
            field = (shape.rows, shape.columns)
            return ReceptiveField(field, scanned - 1 + layers, layers * scanned + read_out)
        case "convolution":
            return _convolutions(
                [(recipe.patch_size, recipe.patch_size), *[(3, 1)] * layers], shape, layers, layers + 1
            )
        case "pooled":
            return _convolutions([(3, 1), (2, 2), (3, 1), (2, 2)], shape, 2, 5)
        case "strided":
            return _convolutions([(3, 2), (3, 2)], shape, 2, 5)
        case "residual":
            kernels = [(3, 1)]
            for stage in range(STAGES):
                kernels += [(3, 2 if stage else 1), *[(3, 1)] * (2 * layers - 1)]
            return _convolutions(kernels, shape, len(kernels), len(kernels) + 1)


def _convolutions(kernels: Sequence[tuple[int, int]], shape: Shape, path: int, steps: int) -> ReceptiveField:
    """Kernel sizes and strides, one after the other; no field is larger than the image."""
    field, apart = 1, 1
    for size, stride in kernels:
        field += (size - 1) * apart
        apart *= stride
    return ReceptiveField((min(field, shape.rows), min(field, shape.columns)), path, steps)
