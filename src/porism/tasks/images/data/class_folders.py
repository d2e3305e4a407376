"""A folder of pictures with a subfolder a class, or with such folders for train, valid and test."""

import hashlib
from collections import Counter
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from porism.errors import MOST_NAMED, DataError, advise, fields
from porism.tasks.blocks.download import readable
from porism.tasks.blocks.memory import check_fits
from porism.tasks.blocks.splits import check_disjoint, file_identity
from porism.tasks.images.data.image_files import is_grey, open_picture, pixels_of
from porism.tasks.images.data.image_set import AS_GIVEN, SPLITS, ImageSet, Labelled, image_set, labelled

SPLIT_FOLDERS = {"train": ("train",), "valid": ("valid", "val", "validation"), "test": ("test",)}
HELD_OUT = 10
"""One picture of so many is test, and one is valid."""
LITTER = ("Thumbs.db", "desktop.ini")
"""Hidden files by the customs of Windows."""
SEED = 0
"""Fixed: a folder is split in the same way every time."""

Files = dict[str, list[Path]]
"""The pictures of each class."""


def read_folder(folder: Path, size: int | None = None, skip_broken: bool = False) -> ImageSet:
    """Pictures of one size, or all resized to `size` x `size`; grey if all are, else in colour.

    A folder that holds train, valid (or val) and test is split so. Otherwise a tenth of each class is test and a tenth
    is valid, drawn by a fixed seed from the files in the order of their names; files of the same bytes stay together.

    skip_broken: files that are no pictures that can be read are left out, and named among the facts; else all of them
    are refused at once.
    """
    apart = {split: path for split in SPLITS if (path := _split_folder(folder, split))}
    if "train" in apart and len(apart) < len(SPLITS):
        lost = next(split for split in SPLITS if split not in apart)
        raise DataError(f"{folder}: it holds train, but no folder {lost}. Add it, or put the classes side by side.")
    found = {s: _by_class(path) for s, path in apart.items()} if len(apart) == 3 else {"": _by_class(folder)}
    opened = _opened(folder, found, skip_broken)
    by_split = opened.files if len(apart) == 3 else _drawn(opened.files[""])
    classes = sorted(by_split["train"])
    for split, files in by_split.items():
        if strange := sorted(set(files) - set(classes)):
            raise DataError(f"{folder}: class {strange[0]} is in {split}, but not in train. Every class needs both.")
        if not any(files.values()):
            raise DataError(
                f"{folder}: no pictures for {split}. Give at least {HELD_OUT} of a class, or three folders."
            )
    _check_disjoint(folder, by_split)
    splits = {split: _read(files, classes, opened.colour, size) for split, files in by_split.items()}
    drawn = AS_GIVEN if len(apart) == 3 else "drawn at random by file in each class, files of the same bytes together"
    return image_set(folder.name, classes, splits, drawn, opened.left_out)


class OpenedFolder(NamedTuple):
    """The pictures of each split that can be read, whether one is in colour, and what is left out, in words."""

    files: dict[str, Files]
    colour: bool
    left_out: str


def _opened(folder: Path, by_split: dict[str, Files], skip_broken: bool) -> OpenedFolder:
    """Every picture opened once. What cannot be read is refused, or left out."""
    colour = False
    broken: dict[str, DataError] = {}
    kept: dict[str, Files] = {}
    for split, by_class in by_split.items():
        kept[split] = {name: [] for name in by_class}
        for name, files in by_class.items():
            for file in files:
                try:
                    colour = not is_grey(open_picture(file)) or colour
                    kept[split][name].append(file)
                except DataError as error:
                    broken[str(file.relative_to(folder))] = error
            if not kept[split][name] and skip_broken:
                raise DataError(f"{folder}: class {name} has no picture that can be read. Add some, or take it away.")
    if not broken:
        return OpenedFolder(kept, colour, "")
    first, others = next(iter(broken.values())), len(broken) > 1
    more = [f"{len(broken) - MOST_NAMED} more"] if len(broken) > MOST_NAMED else []
    named = ", ".join([*list(broken)[:MOST_NAMED], *more])
    if not skip_broken:
        raise DataError(
            f"{first} {len(broken)} files of {folder} cannot be read: {named}." if others else str(first),
            advise("Or leave such files out with {}.", fields(skip_broken=True)),
        )
    return OpenedFolder(kept, colour, f"{len(broken)} files that cannot be read: {named}")


def _split_folder(folder: Path, split: str) -> Path | None:
    return next((folder / name for name in SPLIT_FOLDERS[split] if (folder / name).is_dir()), None)


def _by_class(folder: Path) -> Files:
    """The pictures of every subfolder. Files beside the subfolders, such as a README, are no pictures of a class."""
    classes = [path for path in _content(folder) if path.is_dir()]
    if len(classes) < 2:
        raise DataError(
            f"{folder}: {len(classes)} subfolders, expected two or more, a class each, with pictures in them."
        )
    found = {path.name: _content(path) for path in classes}
    for path in classes:
        if not found[path.name]:
            raise DataError(f"{path}: no pictures in it. Add some, or take the folder away.")
        if inner := next((file for file in found[path.name] if file.is_dir()), None):
            raise DataError(f"{inner}: a folder within a class, expected pictures alone. Take it away.")
    return found


def _content(folder: Path) -> list[Path]:
    """Files and folders by name, without hidden ones and what Windows leaves."""
    with readable(folder):
        found = sorted(path for path in folder.iterdir() if not path.name.startswith(".") and path.name not in LITTER)
    if strange := next((path for path in found if not (path.is_file() or path.is_dir())), None):
        kind = "a link that leads nowhere" if strange.is_symlink() else "neither a file nor a folder"
        raise DataError(f"{strange}: {kind}. Take it away.")
    return found


def _check_disjoint(folder: Path, by_split: dict[str, Files]) -> None:
    """A picture that a link puts into two splits is one picture."""
    names = {file_identity(file): str(file.relative_to(folder)) for files in by_split.values() for file in _all(files)}
    members = {split: dict.fromkeys(file_identity(file) for file in _all(files)) for split, files in by_split.items()}
    check_disjoint(str(folder), members, "picture", names.__getitem__)


def _drawn(by_class: Files) -> dict[str, Files]:
    """A tenth of the distinct pictures of each class is test and a tenth valid, copies where their picture is."""
    draw = np.random.default_rng(SEED)
    by_split: dict[str, Files] = {split: {} for split in SPLITS}
    for name, files in by_class.items():
        order = _with_copies([files[index] for index in draw.permutation(len(files))])
        held = len(order) // HELD_OUT
        cuts = {"test": order[:held], "valid": order[held : 2 * held], "train": order[2 * held :]}
        for split, chosen in cuts.items():
            by_split[split][name] = sorted(file for same in chosen for file in same)
    return by_split


def _with_copies(files: Sequence[Path]) -> list[list[Path]]:
    """Files of the same bytes together, at the place of the first."""
    sizes = Counter(file.stat().st_size for file in files)
    same: dict[Hashable, list[Path]] = {}
    for file in files:
        with readable(file):
            has_twin = sizes[file.stat().st_size] > 1
            content = hashlib.sha256(file.read_bytes()).digest() if has_twin else file
        same.setdefault(content, []).append(file)
    return list(same.values())


def _all(files: Files) -> list[Path]:
    return [file for of_class in files.values() for file in of_class]


def _read(files: Files, classes: Sequence[str], colour: bool, size: int | None) -> Labelled:
    pixels: list[NDArray[np.uint8]] = []
    expected = (size, size) if size else None
    for file in _all(files):
        picture = open_picture(file)
        rows, columns = expected or (picture.height, picture.width)
        if not pixels:
            _check_memory(file, len(_all(files)), rows, columns, colour)
        if pixels and (rows, columns) != pixels[0].shape[:2]:
            first_rows, first_columns = pixels[0].shape[:2]
            raise DataError(
                f"{file}: {rows} x {columns}, the ones before are {first_rows} x {first_columns}.",
                advise("Resize all with {}.", fields(image_size=min(first_rows, first_columns))),
            )
        pixels.append(pixels_of(picture, colour, expected))
    labels = [classes.index(name) for name, of_class in files.items() for _ in of_class]
    return labelled(np.stack(pixels), np.array(labels), len(classes), str(_all(files)[0].parent.parent))


def _check_memory(first: Path, count: int, rows: int, columns: int, colour: bool) -> None:
    # They are read one by one, and then put into one array.
    needed = 2 * count * rows * columns * (3 if colour else 1)
    what = f"reading {count} pictures of {rows} x {columns}"
    check_fits(
        first.parent, needed, what, advice=advise("Make them smaller with {}, or give fewer.", fields(image_size=32))
    )
