"""Metrics of image models: accuracy, cross-entropy and AUC of classes; bits per dimension of predicted pixels."""

import math
from collections.abc import Mapping
from functools import lru_cache

import torch
from torch import Tensor, nn

from porism.tasks.blocks.classification import accuracy_and_cross_entropy
from porism.tasks.blocks.ranks import ranks
from porism.tasks.images.data.image_set import ImageSet, Labelled
from porism.tasks.images.model.base import logits_of
from porism.tasks.images.model.histograms import LeftHistogram, PositionHistogram
from porism.tasks.images.model.pixel_rnn import pixel_loss, quantise
from porism.tasks.images.recipes import ImagesRecipe

EVALUATION_BATCH = 250
BITS_PER_DIMENSION = "bits_per_dimension"
PEERS = {"bits_of_each_place": "each position for itself", "bits_given_left": "each pixel given its left neighbour"}
"""The metrics of the simpler models, and what they are."""


def evaluate_classes(model: nn.Module, split: Labelled, recipe: ImagesRecipe) -> dict[str, float]:
    """The metrics of a classifier on a split."""
    return classification(logits_of(model, split.images, recipe), split.labels)


def outcomes(model: nn.Module, split: Labelled, recipe: ImagesRecipe) -> list[bool]:
    """Which images the model is right on."""
    right: list[bool] = (logits_of(model, split.images, recipe).argmax(1) == split.labels).tolist()
    return right


@torch.no_grad()
def evaluate_pixels(model: nn.Module, images: Tensor, recipe: ImagesRecipe) -> float:
    """Bits per dimension over all images, added up in float64."""
    device = next(model.parameters()).device
    batches = images.split(EVALUATION_BATCH)
    nats = sum(float(pixel_loss(model, part.to(device), recipe.levels)) * len(part) for part in batches)
    return bits(nats / len(images))


def bits(nats: float) -> float:
    return nats / math.log(2)


@lru_cache(maxsize=2)
def _histograms(images: ImageSet, levels: int) -> Mapping[str, PositionHistogram | LeftHistogram]:
    train = quantise(images.splits["train"].images, levels)
    return dict(zip(PEERS, (PositionHistogram(train, levels), LeftHistogram(train, levels)), strict=True))


def evaluate_peers(images: ImageSet, split: str, recipe: ImagesRecipe) -> dict[str, float]:
    """Bits per dimension of the simpler models, fitted on train."""
    levels = quantise(images.splits[split].images, recipe.levels)
    return {name: model.bits_per_dimension(levels) for name, model in _histograms(images, recipe.levels).items()}


def classification(logits: Tensor, labels: Tensor) -> dict[str, float]:
    """Accuracy, mean cross-entropy in nats, and AUC.

    >>> classification(torch.tensor([[2.0, 0.0], [0.0, 3.0], [1.0, 0.0]]), torch.tensor([0, 1, 1]))["accuracy"]
    0.6666666666666666

    Shapes: logits (N, V), labels (N,).
    """
    return accuracy_and_cross_entropy(logits, labels) | {"auc": auc(logits.double().softmax(1), labels)}


def auc(scores: Tensor, labels: Tensor) -> float:
    """The mean over classes of the probability that an image of the class scores higher for it than one of another.

    It is read off the ranks, equal scores sharing theirs: with n images of a class whose ranks sum to R, and m others,
    the area is (R - n (n + 1) / 2) / (n m). A class that no image has, or all, has no area and is left out.
    """
    areas = []
    for label in range(scores.shape[1]):
        of_class = labels == label
        n = int(of_class.sum())
        m = len(labels) - n
        if n and m:
            areas.append((ranks(scores[:, label])[of_class].sum() - n * (n + 1) / 2) / (n * m))
    return float(torch.stack(areas).mean()) if areas else 0.5
