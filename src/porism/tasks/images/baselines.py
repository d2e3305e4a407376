"""Classifiers of images without a net, to set one beside: most frequent class, nearest mean, logistic regression.

Logistic regression reads pixels, and histograms of oriented gradients (Dalal and Triggs 2005): in each cell of a grid
the strengths of the gradients, by their direction; then each 2 x 2 cells are brought to length 1.

All are fitted on train; the regularization is chosen on valid. For `model="complete"` they are histograms of pixels.

>>> baseline_metrics(digits())["nearest mean"]["test"]["accuracy"]
0.8802228412256268
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from porism.tasks.blocks.logistic import FittedClassifier, Labels, fit_logistic, sklearn_missing
from porism.tasks.images.data.image_set import ImageSet, Labelled
from porism.tasks.images.metric import BITS_PER_DIMENSION, PEERS, classification, evaluate_peers
from porism.tasks.images.recipes import ImagesRecipe

LARGEST_SIDE = 32
"""Rows and columns of pixels that are read: larger images are averaged down to it first."""
MOST_NUMBERS = 3_000_000
"""Images times features that a regression is fitted on: with more it would outlast many a training."""
BLOCK = 2048
"""Images whose features are held at once."""
BINS, MOST_CELLS = 9, 7
"""Directions of gradients from 0 to 180 degrees, and cells along a side, each of two pixels at least."""

Features = NDArray[np.float32]
Metrics = dict[str, float]


def baseline_metrics(images: ImageSet) -> dict[str, dict[str, Metrics]]:
    """The metrics of each baseline on the splits beside train: name, then split."""
    train = images.splits["train"]
    models: dict[str, Callable[[Tensor], Tensor]] = {
        "majority class": _majority(train, len(images.classes)),
        "nearest mean": _nearest_mean(train, len(images.classes)),
    }
    if not sklearn_missing("") and len(train.labels.unique()) > 1:
        models |= {name: _logistic(features, images) for name, features in FEATURES.items()}
    return {
        name: {split: _measured(name, model, images.splits[split]) for split in images.splits if split != "train"}
        for name, model in models.items()
    }


def baseline_notes(images: ImageSet) -> list[str]:
    """What to know of them: which are left out, and which saw a part of train alone."""
    missing = sklearn_missing("logistic regression on pixels and HOG")
    train = images.splits["train"]
    parts = {name: most_fitted(features(train.images[:1]).shape[1]) for name, features in FEATURES.items()}
    return missing or [
        f"{name[0].upper()}{name[1:]} is fitted on {most} of {len(train.labels)} images, drawn at random."
        for name, most in parts.items()
        if most < len(train.labels)
    ]


def pixel_baselines(images: ImageSet, recipe: ImagesRecipe) -> dict[str, dict[str, Metrics]]:
    """Bits per dimension of two histograms of pixels: name, then split."""
    found = {split: evaluate_peers(images, split, recipe) for split in images.splits if split != "train"}
    return {
        about: {split: {BITS_PER_DIMENSION: bits[name]} for split, bits in found.items()}
        for name, about in PEERS.items()
    }


def pixels(images: Tensor) -> Features:
    """Pixels from 0 to 1, of large images averaged. (N, C, Y, X) bytes -> (N, C * Y * X)."""
    sizes = (min(images.shape[2], LARGEST_SIDE), min(images.shape[3], LARGEST_SIDE))
    shown = images.float() / 255
    smaller = functional.adaptive_avg_pool2d(shown, sizes) if tuple(images.shape[2:]) != sizes else shown
    return np.asarray(smaller.flatten(1).numpy())


def hog(images: Tensor) -> Features:
    """Histograms of oriented gradients of the mean over channels. (N, C, Y, X) bytes -> (N, features)."""
    grey = functional.pad((images.float() / 255).mean(1, keepdim=True), (1, 1, 1, 1), mode="replicate")
    across, down = grey[:, :, 1:-1, 2:] - grey[:, :, 1:-1, :-2], grey[:, :, 2:, 1:-1] - grey[:, :, :-2, 1:-1]
    strength = torch.hypot(across, down)
    # A direction and its opposite are one. Each gradient is shared by the two bins that are next to its direction.
    place = torch.atan2(down, across) / torch.pi % 1 * BINS
    bins = torch.arange(BINS).view(1, -1, 1, 1)
    distance = (place - bins).abs()
    shares = (1 - torch.minimum(distance, BINS - distance)).clamp(min=0)  # N BINS Y X
    rows, columns = (max(1, min(MOST_CELLS, side // 2)) for side in images.shape[2:])
    cells = functional.adaptive_avg_pool2d(shares * strength, (rows, columns))
    if min(rows, columns) > 1:
        # Each block of 2 x 2 cells, by its own length.
        cells = functional.unfold(cells, 2).transpose(1, 2)  # N blocks 4 * BINS
        cells = functional.normalize(cells, dim=2, eps=1e-3)
    return np.asarray(cells.flatten(1).numpy())


FEATURES: Mapping[str, Callable[[Tensor], Features]] = {
    "logistic regression on pixels": pixels,
    "logistic regression on HOG": hog,
}


def most_fitted(features: int) -> int:
    """Images that a regression of so many features is fitted on at most."""
    return max(1, MOST_NUMBERS // features)


def _logistic(features: Callable[[Tensor], Features], images: ImageSet) -> Callable[[Tensor], Tensor]:
    most = most_fitted(features(images.splits["train"].images[:1]).shape[1])
    (train, labels), (valid, valid_labels) = (_part(images.splits[split], most) for split in ("train", "valid"))
    model: FittedClassifier = fit_logistic(
        features(train), labels, features(valid), valid_labels, classes=len(images.classes)
    )
    return lambda some: model.log_probs(features(some))


def _part(split: Labelled, most: int) -> tuple[Tensor, Labels]:
    """As many images, drawn at random where there are more, and their labels."""
    rows = torch.randperm(len(split.labels), generator=torch.Generator().manual_seed(0))[:most]
    return split.images[rows], np.asarray(split.labels[rows].numpy())


def _majority(train: Labelled, classes: int) -> Callable[[Tensor], Tensor]:
    """The classes' shares in train, whatever the image; a class that train has not has that of half an image."""
    logits = torch.bincount(train.labels, minlength=classes).double().clamp(min=0.5).log()
    return lambda some: logits.expand(len(some), -1)


def _nearest_mean(train: Labelled, classes: int) -> Callable[[Tensor], Tensor]:
    """Minus the squared distance to the mean of each class's pixels; no image is near a class that train has not."""
    sums: Any = 0
    for some, labels in zip(train.images.split(BLOCK), train.labels.split(BLOCK), strict=True):
        shown = torch.from_numpy(pixels(some)).double()
        sums = sums + functional.one_hot(labels, classes).double().mT @ shown  # classes features
    counts = torch.bincount(train.labels, minlength=classes).double()
    means = sums / counts.clamp(min=1)[:, None]

    def negated_distances(some: Tensor) -> Tensor:
        distances = torch.cdist(torch.from_numpy(pixels(some)).double(), means) ** 2
        return -distances.masked_fill(counts == 0, float("inf"))

    return negated_distances


def _measured(name: str, model: Callable[[Tensor], Tensor], split: Labelled) -> Metrics:
    logits = torch.cat([model(some) for some in split.images.split(BLOCK)])
    found = classification(logits, split.labels)
    # A distance is no logarithm of a probability.
    return {"accuracy": found["accuracy"]} if name == "nearest mean" else found
