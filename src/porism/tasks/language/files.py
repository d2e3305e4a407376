"""Text in files: words between white space, one `<eos>` a line, blank lines too."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from porism.errors import DataError
from porism.tasks.download import COMPRESSED, read_content
from porism.tasks.language.vocabulary import EOS

SPLITS = ("train", "valid", "test")
TEXT_SUFFIXES = (".txt", ".text", ".tokens", ".md", ".rst")
SPLIT_NAMES = {"train": "train", "training": "train", "test": "test"} | dict.fromkeys(
    ("valid", "validation", "val", "dev"), "valid"
)
ENOUGH_TO_SPLIT = 10
"""From this many files, or lines, on a text is split between them; below, inside them."""

Item = TypeVar("Item")


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
    files = _text_files(path)
    named = [(split, file) for file in files if (split := split_of(file.name))]
    if named:
        return read_split_files(_one_file_a_split(path, named))
    if len(files) >= ENOUGH_TO_SPLIT:
        held = hold_out(files)
        return Text({split: _concatenate(held[split]) for split in SPLITS}, published_split=False)
    return Text(cut(_concatenate(files)), published_split=False)


def read_split_files(files: dict[str, Path]) -> Text:
    """One file a split."""
    return Text({split: read_words(files[split]) for split in SPLITS}, published_split=True)


def read_words(path: Path) -> list[str]:
    """All words of one file (`.txt`, `.txt.gz` or `.txt.xz` alike), with `<eos>` after each line."""
    content = read_content(path)
    if b"\0" in content:
        raise DataError(f"{path}, line {_line(content, content.index(0))}: a zero byte, so no text. Give a text file.")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}, line {_line(content, error.start)}: byte 0x{content[error.start]:02x} is not UTF-8. "
            "Give a text file, converted to UTF-8 if need be."
        ) from None
    # Only "\n" ends a line: str.splitlines would also break at characters that corpora use inside a line.
    words = [word for line in text.removesuffix("\n").split("\n") for word in (*line.split(), EOS)]
    if all(word == EOS for word in words):
        raise DataError(f"{path}: empty, no word in it. Give a file with text.")
    return words


def split_of(name: str) -> str | None:
    """The split a file is named for: `ptb.train.txt` is train, `wiki.val.tokens` valid, `latest.txt` none."""
    parts = re.split(r"[^a-z]+", name.lower())
    return next((SPLIT_NAMES[part] for part in parts if part in SPLIT_NAMES), None)


def hold_out(items: Sequence[Item]) -> dict[str, list[Item]]:
    """Of every ten items in order, the first to valid and the sixth to test."""
    train = [item for place, item in enumerate(items) if place % 10 not in (0, 5)]
    return {"train": train, "valid": list(items[0::10]), "test": list(items[5::10])}


def cut(words: list[str]) -> dict[str, list[str]]:
    """80, 10 and 10 % in three blocks, cut at line ends; between words where there are fewer than ten lines."""
    ends: Sequence[int] = [place for place, word in enumerate(words, start=1) if word == EOS]
    if len(ends) < ENOUGH_TO_SPLIT:
        ends = range(1, len(words) + 1)
    first, second = ends[len(ends) * 8 // 10 - 1], ends[len(ends) * 9 // 10 - 1]
    return {"train": words[:first], "valid": words[first:second], "test": words[second:]}


def _text_files(folder: Path) -> list[Path]:
    def is_text(file: Path) -> bool:
        name = file.with_suffix("") if file.suffix in COMPRESSED else file
        return file.is_file() and not file.name.startswith(".") and name.suffix in TEXT_SUFFIXES

    try:
        files = sorted(file for file in folder.iterdir() if is_text(file))
    except OSError as error:
        raise DataError(f"{folder}: cannot be read ({error.strerror or error}). Check its permissions.") from None
    if not files:
        wanted = ", ".join(TEXT_SUFFIXES)
        raise DataError(f"{folder}: no text in this folder. Put files in it that end in {wanted}, plain, .gz or .xz.")
    return files


def _one_file_a_split(folder: Path, named: list[tuple[str, Path]]) -> dict[str, Path]:
    files: dict[str, Path] = {}
    for split, file in named:
        if split in files:
            raise DataError(f"{folder}: both {files[split].name} and {file.name} are named for {split}. Leave one.")
        files[split] = file
    missing = [split for split in SPLITS if split not in files]
    if missing:
        raise DataError(
            f"{folder}: a file for {', '.join(files)}, none for {', '.join(missing)}. "
            f"Add one named so, such as {missing[0]}.txt, or give a single file to have it split."
        )
    return files


def _concatenate(files: Sequence[Path]) -> list[str]:
    return [word for file in files for word in read_words(file)]


def _line(content: bytes, offset: int) -> int:
    return content.count(b"\n", 0, offset) + 1
