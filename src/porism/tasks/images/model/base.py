"""Loss and logits of image classifiers: bytes in, scaled and augmented as the recipe says."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from porism.errors import ShapeError
from porism.tasks.images.data.augment import flipped, rotated, shifted
from porism.tasks.images.data.image_set import Labelled
from porism.tasks.images.recipes import ImagesRecipe

EVALUATION_BATCH = 500


def classification_loss(model: nn.Module, images: Labelled, recipe: ImagesRecipe, classes: int) -> Tensor:
    """Mean cross-entropy, on images that are augmented as the recipe says."""
    x = scaled(images.images, recipe)
    if recipe.translate:
        x = shifted(x, recipe.translate)
    if recipe.degrees or recipe.scale:
        x = rotated(x, recipe.degrees, recipe.scale)
    if recipe.horizontal_flip:
        x = flipped(x)
    logits = model(x)
    # A module of the user's own may give anything, and on a GPU no process survives a class that has no output.
    if not isinstance(logits, Tensor) or logits.shape != (len(x), classes):
        got = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise ShapeError(f"images: the model's output is {got}, expected {(len(x), classes)}: (B, classes).")
    return functional.cross_entropy(logits, images.labels, label_smoothing=recipe.label_smoothing)


def scaled(images: Tensor, recipe: ImagesRecipe) -> Tensor:
    """From bytes to numbers up to 1."""
    return images.float() / recipe.divisor


@torch.no_grad()
def logits_of(model: nn.Module, images: Tensor, recipe: ImagesRecipe) -> Tensor:
    """Logits of any number of images, (N, V), on the CPU."""
    device = next(model.parameters()).device
    return torch.cat([model(scaled(part.to(device), recipe)).float().cpu() for part in images.split(EVALUATION_BATCH)])
