"""Predicting pixels: loss, bits per dimension beside simpler models, and images completed from their upper half."""

import math
from collections.abc import Mapping
from functools import lru_cache

import torch
from torch import Tensor, nn
from torch.nn import functional

from porism.runs.exhibits import AnyExhibit, Picture, Pictures, Table, picture
from porism.tasks.images.data.image_set import ImageSet
from porism.tasks.images.model.histograms import LeftHistogram, PlaceHistogram
from porism.tasks.images.model.pixel_rnn import Completing, complete, quantise
from porism.tasks.images.recipes import ImagesRecipe
from porism.training.task import Sample

AT_ONCE = 250
SHOWN = 16
METRIC = "bits_per_dimension"
PEERS = {"bits_of_each_place": "each place for itself", "bits_given_left": "each pixel given its left neighbour"}
"""The metrics of the simpler models, and what they are."""


def loss(model: nn.Module, images: Tensor, recipe: ImagesRecipe) -> Tensor:
    """Mean nats for the level of a pixel's channel."""
    levels = quantise(images, recipe.levels)
    return functional.cross_entropy(model(levels).transpose(1, 2), levels)


def bits(nats: float) -> float:
    return nats / math.log(2)


@torch.no_grad()
def evaluate(model: nn.Module, images: Tensor, recipe: ImagesRecipe) -> float:
    """Bits per dimension over all images, added up in float64."""
    device = next(model.parameters()).device
    nats = sum(float(loss(model, part.to(device), recipe)) * len(part) for part in images.split(AT_ONCE))
    return bits(nats / len(images))


@lru_cache(maxsize=2)
def _histograms(images: ImageSet, levels: int) -> Mapping[str, PlaceHistogram | LeftHistogram]:
    train = quantise(images.splits["train"].images, levels)
    return dict(zip(PEERS, (PlaceHistogram(train, levels), LeftHistogram(train, levels)), strict=True))


def evaluate_peers(images: ImageSet, split: str, recipe: ImagesRecipe) -> dict[str, float]:
    """What the simpler models, fitted on train, pay on a split."""
    levels = quantise(images.splits[split].images, recipe.levels)
    return {name: model.bits_per_dimension(levels) for name, model in _histograms(images, recipe.levels).items()}


def show(model: nn.Module, images: ImageSet, recipe: ImagesRecipe, count: int = 5) -> list[Sample]:
    """What the first test images cost the model."""
    test = images.splits["test"]
    return [
        Sample(
            f"test image {place}: {images.classes[int(test.labels[place])]}",
            f"{evaluate(model, test.images[place : place + 1], recipe):.3f} bits per dimension",
        )
        for place in range(min(count, len(test.labels)))
    ]


def exhibits(model: Completing, images: ImageSet, recipe: ImagesRecipe) -> list[AnyExhibit]:
    """The bits beside those of simpler models, and test images completed from their upper half."""
    test = images.splits["test"]
    peers = evaluate_peers(images, "test", recipe)
    rows: list[list[str | int | float]] = [["this model", evaluate(model, test.images, recipe)]]
    rows += [[about, peers[name]] for name, about in PEERS.items()]
    table = Table(
        title="Bits per dimension beside simpler models",
        about=f"On the test images in {recipe.levels} levels; all models learned on train. "
        f"Equal chances for all levels would be {math.log2(recipe.levels):g}.",
        columns=["model", "bits per dimension"],
        rows=rows,
    )
    return [table, completed(model, test.images[:SHOWN], recipe)]


def completed(model: Completing, images: Tensor, recipe: ImagesRecipe, seed: int = 0) -> Pictures:
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
        "drawn by the chances it gives."
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
