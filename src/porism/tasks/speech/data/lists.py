"""Lists of a path, a tab and a transcript a line: one file, or one a split in a folder.

    clips/001.wav	open the door
    clips/002.wav	close the window

Paths are relative to the list's folder.
"""

from pathlib import Path

from porism.errors import DataError
from porism.tasks.speech.data.recordings import (
    SPLITS,
    Recordings,
    Utterance,
    hold_out,
    read_lines,
    recordings,
    utterance,
)

LISTS = {"train": ("train.tsv",), "valid": ("valid.tsv", "dev.tsv", "val.tsv"), "test": ("test.tsv",)}
HEADER = ("path", "file", "filename")
"""The first field of a header line."""


def list_of(folder: Path, split: str) -> Path | None:
    """The list for a split, if the folder has one."""
    return next((folder / name for name in LISTS[split] if (folder / name).is_file()), None)


def read_lists(folder: Path) -> Recordings:
    """train.tsv and, if present, valid.tsv and test.tsv; what is missing is held out from train."""
    files = {split: list_of(folder, split) for split in SPLITS}
    if files["train"] is None:
        raise DataError(f"{folder}: no train.tsv in it. Give one, with a path, a tab and a transcript a line.")
    return _split(folder.name, {split: read_list(file) for split, file in files.items() if file})


def read_single_list(path: Path) -> Recordings:
    """One list, from which test and valid are held out."""
    return _split(path.stem, {"train": read_list(path)})


def read_list(path: Path) -> list[Utterance]:
    lines = read_lines(path)
    if lines[0].text.split("\t")[0].strip().lower() in HEADER:
        lines = lines[1:]
    utterances = []
    for where, line in lines:
        fields = line.split("\t")
        if len(fields) != 2:
            raise DataError(f"{where}: {len(fields)} fields, expected two split by a tab: path and transcript.")
        sound = path.parent / fields[0].strip()
        utterances.append(utterance(sound.stem, fields[1], sound, where))
    return utterances


def _split(name: str, listed: dict[str, list[Utterance]]) -> Recordings:
    splits, how = dict(listed), ["as listed"]
    for split in ("test", "valid"):
        if split not in splits:
            splits["train"], splits[split], drawn = hold_out(splits["train"])
            how.append(f"{split} {drawn}")
    return recordings(name, splits, ", ".join(how))
