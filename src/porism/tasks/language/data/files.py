"""A text's words by split, from a file or a folder."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from porism.tasks.blocks.texts import EOS, SPLITS, hold_out, read_words, split_files, text_files

ENOUGH_TO_SPLIT = 10
"""From this many files, or lines, on a text is split between them; below, inside them."""


@dataclass(frozen=True)
class Text:
    """Words of each split, and whether somebody else drew the border between the splits."""

    splits: dict[str, list[str]]
    published_split: bool


def read_text(path: Path) -> Text:
    """A file, or a folder of files.

    A folder with files named for the splits (`ptb.train.txt`, `wiki.valid.tokens.xz`) is split as it says. Of ten or
    more other files, whole files are held out. Fewer, or a single file, are cut into 80, 10 and 10 % at line ends.
    """
    if not path.is_dir():
        return Text(cut(read_words(path)), published_split=False)
    files = text_files(path)
    if named := split_files(path, files):
        return read_split_files(named)
    if len(files) >= ENOUGH_TO_SPLIT:
        held = hold_out(files)
        return Text({split: _concatenate(held[split]) for split in SPLITS}, published_split=False)
    return Text(cut(_concatenate(files)), published_split=False)


def read_split_files(files: dict[str, Path]) -> Text:
    """One file a split."""
    return Text({split: read_words(files[split]) for split in SPLITS}, published_split=True)


def cut(words: list[str]) -> dict[str, list[str]]:
    """80, 10 and 10 % in three blocks, cut at line ends; between words where there are fewer than ten lines."""
    ends: Sequence[int] = [position for position, word in enumerate(words, start=1) if word == EOS]
    if len(ends) < ENOUGH_TO_SPLIT:
        ends = range(1, len(words) + 1)
    first, second = ends[len(ends) * 8 // 10 - 1], ends[len(ends) * 9 // 10 - 1]
    return {"train": words[:first], "valid": words[first:second], "test": words[second:]}


def _concatenate(files: Sequence[Path]) -> list[str]:
    return [word for file in files for word in read_words(file)]
