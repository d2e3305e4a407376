"""Files as MedMNIST comes: one .npz with images and labels of three splits."""

import zipfile
import zlib
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from porism.errors import DataError
from porism.tasks.images.imageset import ImageSet, image_set, labelled

KEYS = {"train": "train", "valid": "val", "test": "test"}
"""Our names of the splits, and the beginnings of theirs."""


def read_npz(path: Path, name: str, classes: tuple[str, ...] | None = None) -> ImageSet:
    """A file with the arrays train_images, train_labels, val_images, and so on; nothing in it is executed.

    Images are (N, rows, columns) or (N, rows, columns, 3), labels (N,) or (N, 1). Without names the classes are called
    by their numbers.
    """
    try:
        with path.open("rb") as file:
            arrays = _arrays(file, path)
    except FileNotFoundError:
        raise DataError(f"{path}: no such file. Check the path.") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error}). Check its permissions.") from None
    if classes is None:
        numbers = [labels.max() for key, labels in arrays.items() if key.endswith("labels") and labels.size]
        most = max((int(number) for number in numbers if np.issubdtype(number.dtype, np.integer)), default=0)
        classes = tuple(str(number) for number in range(most + 1))
    splits = {
        split: labelled(arrays[f"{key}_images"], arrays[f"{key}_labels"], len(classes), f"{path}, {key}")
        for split, key in KEYS.items()
    }
    return image_set(name, classes, splits)


def _arrays(file: IO[bytes], path: Path) -> dict[str, NDArray[np.generic]]:
    wanted = [f"{key}_{part}" for key in KEYS.values() for part in ("images", "labels")]
    try:
        loaded = np.load(file, allow_pickle=False)
        if not isinstance(loaded, np.lib.npyio.NpzFile):
            raise DataError(f"{path}: one array, wanted an .npz with {', '.join(wanted)}.")
        with loaded as kept:
            if missing := [name for name in wanted if name not in kept.files]:
                there = ", ".join(kept.files) or "nothing"
                raise DataError(f"{path}: no array {missing[0]}; it holds {there}. Wanted {', '.join(wanted)}.")
            return {name: kept[name] for name in wanted}
    except (zipfile.BadZipFile, zlib.error, ValueError, EOFError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path}: not a whole .npz of plain arrays ({error}). Get it again.") from None
