"""Files in the idx format, as MNIST and Fashion-MNIST come: a header of big-endian numbers, then bytes."""

import struct
from collections.abc import Mapping
from math import prod
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from porism.errors import DataError
from porism.tasks.blocks.download import COMPRESSED, read_content
from porism.tasks.images.data.image_set import ImageSet, Labelled, image_set, labelled

FILES = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}
UNSIGNED_BYTE = 8
MOST_VALID = 5_000
EXPECTED, SEVERAL = 10, 5
"""Images of a class that are expected in the last tenth, or are all in it: in a random order it happens less than once
in 10,000 classes that none of the first is there, or that so many have no other in train."""


def read_idx_folder(folder: Path, name: str, classes: tuple[str, ...] | None = None) -> ImageSet:
    """A folder with the four files, plain or compressed. Where a name has a dot for its last hyphen, that is fine."""
    return read_idx_files({part: find(folder, part) for pair in FILES.values() for part in pair}, name, classes)


def read_idx_files(files: Mapping[str, Path], name: str, classes: tuple[str, ...] | None = None) -> ImageSet:
    """The four files. A tenth of train, 5,000 images at most, is valid: the format knows no such split.

    It is the last tenth; or where train is in the order of its classes, or the last tenth lacks one that train has, the
    last tenth of each.
    """
    read = {}
    for split, (images, labels) in FILES.items():
        known = None if classes is None else len(classes)
        read[split] = labelled(read_idx(files[images], 3), read_idx(files[labels], 1), known, str(files[labels]))
    held = min(len(read["train"].labels) // 10, MOST_VALID)
    if not held:
        raise DataError(
            f"{files[FILES['train'][0]]}: {len(read['train'].labels)} training images, expected at least 10, of which "
            "the last tenth is valid."
        )
    is_valid, how_split = _held_out(read["train"].labels, held)
    train, valid = (Labelled(*(part[cut] for part in read["train"])) for cut in (~is_valid, is_valid))
    if classes is None:
        most = max(int(part.labels.max()) for part in read.values())
        classes = tuple(str(number) for number in range(most + 1))
    return image_set(name, classes, {"train": train, "valid": valid, "test": read["test"]}, how_split)


def _held_out(labels: Tensor, held: int) -> tuple[Tensor, str]:
    """Which images of train are valid (N,), and how they were chosen."""
    is_last = torch.arange(len(labels)) >= len(labels) - held
    counts, last = torch.bincount(labels), torch.bincount(labels[is_last], minlength=int(labels.max()) + 1)
    by_chance = (len(labels) - 1) * float(1 - ((counts.double() / len(labels)) ** 2).sum())
    if int((labels.diff() != 0).sum()) < by_chance / 2:
        # One class follows another: the last images would be of the last class alone.
        why = "which is in the order of its classes"
    elif bool(((last == 0) & (counts * held / len(labels) >= EXPECTED) | (last == counts) & (last >= SEVERAL)).any()):
        why = "whose last images are of other classes"
    else:
        return is_last, f"valid is the last {held:,} images of train"
    is_valid = torch.zeros(len(labels), dtype=torch.bool)
    for label, count in enumerate(counts.tolist()):
        # Each class that has two images or more is in both.
        own = min(max(1, round(count * held / len(labels))), count - 1)
        is_valid[(labels == label).nonzero().squeeze(1)[max(0, count - own) :]] = own > 0
    return is_valid, f"valid is the last tenth of each class of train, {why}"


def holds_idx(folder: Path) -> bool:
    """Whether any of the four files is there."""
    return any(_candidates(folder, part) for pair in FILES.values() for part in pair)


def find(folder: Path, part: str) -> Path:
    """One of the four files, under any of its names."""
    found = _candidates(folder, part)
    if not found:
        raise DataError(f"{folder / part}: no such file, plain or as .gz. A folder of idx files holds four of them.")
    return found[0]


def _candidates(folder: Path, part: str) -> list[Path]:
    dotted = part.replace("-idx", ".idx")
    paths = [folder / (spelling + end) for spelling in (part, dotted) for end in ("", *COMPRESSED)]
    return [path for path in paths if path.is_file()]


def read_idx(path: Path, dimensions: int) -> NDArray[np.uint8]:
    """The array of bytes in one file.

    >>> read_idx(Path("t10k-labels-idx1-ubyte.gz"), dimensions=1).shape      # doctest: +SKIP
    (10000,)
    """
    content = read_content(path)
    header = 4 + 4 * dimensions
    if len(content) < header or content[:4] != bytes((0, 0, UNSIGNED_BYTE, dimensions)):
        raise DataError(
            f"{path}: begins with {content[:4].hex(' ') or 'nothing'}, expected 00 00 08 0{dimensions}: an idx file of "
            f"bytes in {dimensions} dimension{'s' * (dimensions > 1)}."
        )
    shape = struct.unpack(f">{dimensions}I", content[4:header])
    if len(content) - header != prod(shape):
        raise DataError(
            f"{path}: {len(content) - header} bytes after the header, expected {prod(shape)} for {shape}. "
            "It was cut off or is damaged: get it again."
        )
    if 0 in shape:
        raise DataError(f"{path}: its header says {shape}, so it is empty.")
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)
