"""Loss and logits of image classifiers: bytes in, scaled and augmented as the recipe says."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from porism.tasks.images.data.augment import flipped, rotated, shifted
from porism.tasks.images.data.image_set import Labelled
from porism.tasks.images.recipes import ImagesRecipe

EVALUATION_BATCH = 500


def classification_loss(model: nn.Module, images: Labelled, recipe: ImagesRecipe) -> Tensor:
    """Mean cross-entropy, on images that are augmented as the recipe says."""
    x = scaled(images.images, recipe)
    if recipe.translate:
        x = shifted(x, recipe.translate)
    if recipe.degrees or recipe.scale:
        x = rotated(x, recipe.degrees, recipe.scale)
    if recipe.horizontal_flip:
        x = flipped(x)
    return functional.cross_entropy(model(x), images.labels, label_smoothing=recipe.label_smoothing)


def scaled(images: Tensor, recipe: ImagesRecipe) -> Tensor:
    """From bytes to numbers up to 1."""
    return images.float() / recipe.divisor


@torch.no_grad()
def logits_of(model: nn.Module, images: Tensor, recipe: ImagesRecipe) -> Tensor:
    """Logits of any number of images, (N, V), on the CPU."""
    device = next(model.parameters()).device
    return torch.cat([model(scaled(part.to(device), recipe)).float().cpu() for part in images.split(EVALUATION_BATCH)])
