"""Files as MedMNIST comes: one .npz with images and labels of three splits."""

from pathlib import Path

import numpy as np

from porism.errors import DataError, shown
from porism.tasks.blocks.arrays import open_npz
from porism.tasks.blocks.labels import check_class_count, whole_labels
from porism.tasks.images.data.image_set import AS_GIVEN, ImageSet, image_set, labelled

KEYS = {"train": "train", "valid": "val", "test": "test"}
"""Our names of the splits, and the beginnings of theirs."""


def read_npz(path: Path, name: str, classes: tuple[str, ...] | None = None) -> ImageSet:
    """A file with the arrays train_images, train_labels, val_images, and so on; nothing in it is executed.

    Images are (N, rows, columns) or (N, rows, columns, 3), labels (N,) or (N, 1). Without names the classes are called
    by their numbers.
    """
    expected = [f"{key}_{part}" for key in KEYS.values() for part in ("images", "labels")]
    with open_npz(path) as file:
        if missing := [name for name in expected if name not in file.names]:
            there = shown(", ".join(file.names) or "nothing")[1:-1]
            raise DataError(f"{path}: no array {missing[0]}; it holds {there}. Expected {', '.join(expected)}.")
        arrays = {name: file.read(name) for name in expected}
    labels = {key: whole_labels(f"{path}, {key}", arrays[f"{key}_labels"]) for key in KEYS.values()}
    if classes is None:
        examples = np.concatenate(list(labels.values()))
        count = int(examples.max(initial=0)) + 1
        check_class_count(str(path), count, len(examples))
        classes = tuple(str(number) for number in range(count))
    splits = {
        split: labelled(arrays[f"{key}_images"], labels[key], len(classes), f"{path}, {key}")
        for split, key in KEYS.items()
    }
    return image_set(name, classes, splits, AS_GIVEN)
