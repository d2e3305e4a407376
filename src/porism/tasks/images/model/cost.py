"""What is counted of an image model: B images of C channels, Y x X pixels, V classes, H channels inside."""

from dataclasses import replace

from torch import Tensor, nn
from torch.nn import functional

from porism.costing.subject import CostSubject
from porism.tasks.images.data import Shape
from porism.tasks.images.model.build import build
from porism.tasks.images.model.residual import STAGES
from porism.tasks.images.recipes import ImagesRecipe

HALVINGS = 2
"""Of rows and columns, in a net that pools or strides."""
SMALL = 6
"""Patches along a side up to which scans are counted: each diagonal takes its time, and all are alike."""


class ImageModelWithLoss(nn.Module):
    """A model with its loss, over classes or over the levels of every pixel."""

    def __init__(self, recipe: ImagesRecipe, shape: Shape, classes: int) -> None:
        super().__init__()
        self.model = build(recipe, shape, classes)

    def forward(self, images: Tensor, targets: Tensor) -> Tensor:
        # An image is given and needs no gradient.
        logits: Tensor = self.model(images.detach())
        if logits.ndim > 2:
            logits = logits.transpose(1, 2)  # B levels C Y X
        return functional.cross_entropy(logits, targets)


def subject(recipe: ImagesRecipe) -> CostSubject:
    """The model and its loss at any sizes, the inputs, and the recipe's own sizes.

    Formulas are for images that strides and patches divide: then they are short. A run on others has its rows and
    columns as numbers in them.
    """
    inputs = ("B C Y X", "B : int < V")
    sizes = {"B": recipe.batch_size, "H": recipe.hidden_size}
    match recipe.model:
        case "pooled" | "strided":
            return CostSubject(
                lambda C, Y, X, V: ImageModelWithLoss(recipe, Shape(C, Y, X), V),
                inputs,
                {"B": recipe.batch_size},
                multiples=_both(2**HALVINGS),
                sized_fields=("hidden_size",),
            )
        case "complete":
            return CostSubject(
                lambda C, H: ImageModelWithLoss(replace(recipe, hidden_size=H), Shape(C, 1, 1), 1),
                (f"B C Y X : int < {recipe.levels}",) * 2,
                sizes,
                largest=_both(SMALL),
                sized_fields=("hidden_size",),
            )
    step = 2 ** (STAGES - 1) if recipe.model == "residual" else recipe.patch_size
    return CostSubject(
        # These nets are the same for images of any size, so any will do to build them.
        lambda C, H, V: ImageModelWithLoss(replace(recipe, hidden_size=H), Shape(C, 8, 8), V),
        inputs,
        sizes,
        multiples=_both(step),
        largest=_both(SMALL * step) if recipe.model == "grid" else {},
        sized_fields=("hidden_size",),
    )


def _both(size: int) -> dict[str, int]:
    return {"Y": size, "X": size} if size > 1 else {}
