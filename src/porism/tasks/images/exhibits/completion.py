"""Exhibits of a pixel model: bits per dimension beside simpler models, and images completed from their upper half."""

import math

import torch
from torch import Tensor

from porism.runs.exhibits import AnyExhibit, Picture, Pictures, Table
from porism.tasks.blocks.pictures import picture
from porism.tasks.images.data.image_set import ImageSet
from porism.tasks.images.metric import PEERS, evaluate_peers, evaluate_pixels
from porism.tasks.images.model.pixel_rnn import PixelRNN, complete, quantise
from porism.tasks.images.recipes import ImagesRecipe

SHOWN = 16


def completion_exhibits(model: PixelRNN, images: ImageSet, recipe: ImagesRecipe) -> list[AnyExhibit]:
    """The bits beside those of simpler models, and test images completed from their upper half."""
    test = images.splits["test"]
    peers = evaluate_peers(images, "test", recipe)
    rows: list[list[str | int | float]] = [["this model", evaluate_pixels(model, test.images, recipe)]]
    rows += [[about, peers[name]] for name, about in PEERS.items()]
    table = Table(
        title="Bits per dimension beside simpler models",
        about=f"On the test images in {recipe.levels} levels; all models learned on train. "
        f"Uniform over all levels would be {math.log2(recipe.levels):g}.",
        columns=["model", "bits per dimension"],
        rows=rows,
    )
    return [table, completed(model, test.images[:SHOWN], recipe)]


def completed(model: PixelRNN, images: Tensor, recipe: ImagesRecipe, seed: int = 0) -> Pictures:
    """Each image as it was, as it was given, and as it was completed, side by side."""
    device = next(model.parameters()).device
    levels = quantise(images, recipe.levels)
    rows = images.shape[2] // 2
    made = complete(model, levels.to(device), rows, seed).cpu()
    given = levels.clone()
    given[:, :, rows:] = 0
    pictures = [
        _side_by_side(*(shades(part, recipe.levels) for part in parts))
        for parts in zip(levels, given, made, strict=True)
    ]
    about = (
        "Test images from their upper half: as they were, as they were given, and as the model goes on, each pixel "
        "drawn by the probabilities it gives."
    )
    return Pictures(title="Completed images", about=about, pictures=pictures)


def shades(levels: Tensor, count: int) -> Tensor:
    """Levels as numbers from 0 to 1."""
    return levels / (count - 1)


def _side_by_side(*images: Tensor) -> Picture:
    gap = torch.full_like(images[0][:, :, :1], 0.5)  # a grey line between
    parts = [images[0], *(part for image in images[1:] for part in (gap, image))]
    channels = torch.cat(parts, 2)
    return picture(channels, "original, given, completed")
