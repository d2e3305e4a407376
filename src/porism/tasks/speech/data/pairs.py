"""Recordings with a text file of the same name beside each: `001.wav` and `001.txt`, in a folder and those below it.

Folders train, valid (or val, dev) and test are the splits; without them they are held out.
"""

from pathlib import Path

from porism.errors import DataError
from porism.tasks.blocks.download import readable
from porism.tasks.speech.data.recordings import (
    SOUND_SUFFIXES,
    SPLITS,
    Recordings,
    Utterance,
    hold_out,
    read_lines,
    recordings,
    utterance,
)

FOLDERS = {"train": ("train",), "valid": ("valid", "val", "dev"), "test": ("test",)}


def holds_pairs(folder: Path) -> bool:
    """Whether a recording lies somewhere in the folder with its transcript beside it."""
    return any(sound.with_suffix(".txt").is_file() for sound in sounds_in(folder))


def sounds_in(folder: Path) -> list[Path]:
    """The recordings of a folder and those below it, by name, hidden ones left out."""
    with readable(folder):
        found = [path for path in folder.rglob("*") if path.suffix.lower() in SOUND_SUFFIXES and path.is_file()]
    return sorted(path for path in found if not path.name.startswith("."))


def read_pairs(folder: Path) -> Recordings:
    """The recordings of a folder, each with its transcript in the text file of its name."""
    apart = {split: path for split in SPLITS if (path := _folder_of(folder, split))}
    if "train" not in apart:
        apart = {"train": folder}
    files = {split: sounds_in(path) for split, path in apart.items()}
    if beside := sorted(set(sounds_in(folder)).difference(*files.values())):
        raise DataError(f"{beside[0]}: beside the folders of the splits. Put it into one of them, or take it away.")
    splits = {split: [_read(sound) for sound in sounds] for split, sounds in files.items()}
    how = ["by folder"] if len(apart) > 1 else []
    for split in ("test", "valid"):
        if split not in splits:
            splits["train"], splits[split], drawn = hold_out(splits["train"])
            how.append(f"{split} {drawn}")
    return recordings(folder.name, splits, ", ".join(how))


def _folder_of(folder: Path, split: str) -> Path | None:
    return next((folder / name for name in FOLDERS[split] if (folder / name).is_dir()), None)


def _read(sound: Path) -> Utterance:
    transcript = sound.with_suffix(".txt")
    if not transcript.is_file():
        raise DataError(f"{sound}: no {transcript.name} beside it. Write its transcript there, or take it away.")
    lines = read_lines(transcript)
    return utterance(sound.stem, " ".join(line.text for line in lines), sound, lines[0].where)
