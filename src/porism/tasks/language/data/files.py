"""A text by split, from a file or a folder."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from porism.tasks.blocks.texts import SPLITS, hold_out, read_lines, split_files, text_files

ENOUGH_TO_SPLIT = 10
"""From this many files, or lines, on a text is split between them; below, inside them."""


@dataclass(frozen=True)
class Text:
    """The text of each split, every line ended by a newline, and whether somebody else drew the border between them."""

    splits: dict[str, str]
    published_split: bool
    how_split: str = ""

    def facts(self) -> dict[str, str]:
        """How it was split, and how much of test can be known by heart."""
        found = {"split": self.how_split} if self.how_split else {}
        learned = {hash(line) for line in _long_lines(self.splits["train"])}
        tested = _long_lines(self.splits["test"])
        if known := sum(hash(line) in learned for line in tested):
            found[f"test lines of {LONG} words or more that are in train too"] = f"{known:,} of {len(tested):,}"
        return found


LONG = 5
"""Words from which on a line seldom recurs by chance."""


def _long_lines(text: str) -> list[str]:
    return [line.strip() for line in text.split("\n") if len(line.split(None, LONG - 1)) == LONG]


def read_text(path: Path) -> Text:
    """A file, or a folder of files.

    A folder with files named for the splits (`ptb.train.txt`, `wiki.valid.tokens.xz`) is split as it says. Of ten or
    more other files, whole files are held out. Fewer, or a single file, are cut into 80, 10 and 10 % at line ends.
    """
    if not path.is_dir():
        return cut_text(read_lines(path))
    files = text_files(path)
    if named := split_files(path, files):
        return read_split_files(named)
    if len(files) >= ENOUGH_TO_SPLIT:
        held = hold_out(files)
        how = "by file: of every ten in the order of their names, the first is valid and the sixth test"
        return Text({split: _concatenate(held[split]) for split in SPLITS}, published_split=False, how_split=how)
    return cut_text(_concatenate(files), ", one file after the other" * (len(files) > 1))


def read_split_files(files: dict[str, Path]) -> Text:
    """One file a split."""
    return Text({split: read_lines(files[split]) for split in SPLITS}, published_split=True, how_split="as given")


def cut_text(text: str, more: str = "") -> Text:
    """A text that says nothing of splits."""
    parts = "lines" if text.count("\n") >= ENOUGH_TO_SPLIT else "words"
    return Text(cut(text), published_split=False, how_split=f"80, 10 and 10 % of the {parts} in their order{more}")


def cut(text: str) -> dict[str, str]:
    """80, 10 and 10 % in three blocks, cut at line ends; between words where there are fewer than ten lines.

    >>> cut("a b c d e f g h i j")["valid"]
    ' i'
    """
    ends = [line.end() for line in re.finditer(r"\n", text)]
    if len(ends) < ENOUGH_TO_SPLIT:
        ends = [word.end() for word in re.finditer(r"\S+|\n", text)]
    first, second = ends[len(ends) * 8 // 10 - 1], ends[len(ends) * 9 // 10 - 1]
    return {"train": text[:first], "valid": text[first:second], "test": text[second:]}


def _concatenate(files: Sequence[Path]) -> str:
    return "".join(read_lines(file) for file in files)
