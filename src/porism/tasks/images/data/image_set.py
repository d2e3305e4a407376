"""Images with their classes, split in three: what every loader gives."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from porism.errors import DataError, advise, fields
from porism.tasks.blocks.labels import whole_labels
from porism.tasks.blocks.splits import missing_classes

SPLITS = ("train", "valid", "test")
AS_GIVEN = "as given"
"""How data was split that somebody else has split."""


class Labelled(NamedTuple):
    """Images (N, C, Y, X) of one byte a pixel and channel, and their classes (N,) as int64."""

    images: Tensor
    labels: Tensor


class Shape(NamedTuple):
    """What a model must know of the images it is built for."""

    channels: int
    rows: int
    columns: int

    def __str__(self) -> str:
        colours = {1: "grey", 3: "colour"}.get(self.channels, f"{self.channels} channels")
        return f"{self.rows} x {self.columns}, {colours}"


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Three splits of images of one shape, and the names of their classes.

    >>> digits().shape, len(digits().classes), len(digits().splits["train"].labels)
    (Shape(channels=1, rows=8, columns=8), 10, 1079)
    """

    name: str
    classes: tuple[str, ...]
    splits: Mapping[str, Labelled]
    facts: Mapping[str, str] = field(default_factory=dict)
    """How the splits came about."""

    @property
    def shown(self) -> str:
        """The split that the report shows: test, where there is one."""
        return "test" if "test" in self.splits else "valid"

    @property
    def shape(self) -> Shape:
        return Shape(*self.splits["train"].images.shape[1:])

    def told(self) -> dict[str, int | float | str]:
        """What a report says of them."""
        sizes = ", ".join(f"{len(labelled.labels):,} {split}" for split, labelled in self.splits.items())
        return {"images": f"{sizes}, {self.shape}", "classes": len(self.classes), **self.facts}

    def fingerprint(self) -> str:
        """The sha256 of classes, images and labels: all that a model ever sees."""
        digest = hashlib.sha256(json.dumps(self.classes).encode())
        for split in (split for split in SPLITS if split in self.splits):
            images, labels = self.splits[split]
            digest.update(f"\n{split} {tuple(images.shape)}\n".encode())
            digest.update(images.numpy().tobytes() + labels.numpy().astype("<i8").tobytes())
        return digest.hexdigest()

    def with_test_as_train(self) -> Self:
        """The same with the largest test split in which the classes have the shares they have in train.

        It keeps the first images of every class, in their order. Of OCTMNIST's 1,000 test images, 250 a class, these
        are 529: the first 182, 55, 42 and 250.
        """
        labels = self.splits["test"].labels
        share = torch.bincount(self.splits["train"].labels, minlength=len(self.classes)).double()
        share /= share.sum()
        there = torch.bincount(labels, minlength=len(self.classes))
        whole = int((there[share > 0] / share[share > 0]).min())
        expected = (share * whole).round().long()
        rank = torch.stack([(labels == label).cumsum(0) for label in range(len(self.classes))], 1)  # N V, from 1
        kept = rank.gather(1, labels[:, None]).squeeze(1) <= expected[labels]
        if not kept.any():
            raise DataError(
                f"{self.name}: no test images can be chosen as in train.",
                advise("Use {}.", fields(test_subset="whole")),
            )
        test = Labelled(self.splits["test"].images[kept], labels[kept])
        part = f"{len(test.labels):,} of {len(labels):,} images: the first of each class, in the shares of train"
        return replace(self, splits={**self.splits, "test": test}, facts={**self.facts, "test": part})


def labelled(images: NDArray[np.generic], labels: NDArray[np.generic], classes: int | None, where: str) -> Labelled:
    """Arrays from a file as tensors, once they are seen to be what they should: images (N, Y, X) or (N, Y, X, 3).

    `classes` is None where the labels themselves say how many there are; `where` is what an error calls the file.
    """
    if images.dtype != np.uint8:
        raise DataError(f"{where}: pixels are {images.dtype}, expected uint8, 0 to 255.")
    if images.ndim not in (3, 4) or (images.ndim == 4 and images.shape[3] != 3) or 0 in images.shape:
        raise DataError(
            f"{where}: images are {images.shape}, expected (N, rows, columns) or (N, rows, columns, 3), none of them 0."
        )
    numbers = whole_labels(where, labels)
    if len(numbers) != len(images):
        raise DataError(f"{where}: {len(images)} images, but {len(numbers)} labels. Each image needs one.")
    if classes is not None and int(numbers.max()) >= classes:
        wrong = int(numbers.argmax())
        raise DataError(f"{where}: label {numbers[wrong]} of image {wrong}, expected 0 to {classes - 1}.")
    by_channels = images[:, None] if images.ndim == 3 else np.moveaxis(images, 3, 1)
    # A copy, since a file's bytes may be read-only.
    pixels = torch.from_numpy(np.array(by_channels, dtype=np.uint8, order="C"))
    return Labelled(pixels, torch.from_numpy(numbers))


def image_set(
    name: str, classes: Sequence[str], splits: Mapping[str, Labelled], how_split: str = "", left_out: str = ""
) -> ImageSet:
    """The set, once its splits are seen to hold images of one shape."""
    shapes = {split: tuple(splits[split].images.shape[1:]) for split in SPLITS if split in splits}
    if len(set(shapes.values())) > 1:
        listed = ", ".join(f"{split} {shape}" for split, shape in shapes.items())
        raise DataError(f"{name}: images of different shapes (channels, rows, columns): {listed}. Expected one shape.")
    missing = missing_classes({split: part.labels for split, part in splits.items()}, classes, "image")
    facts = {"split": how_split, **missing, "left out": left_out}
    return ImageSet(name, tuple(classes), splits, {fact: value for fact, value in facts.items() if value})
