"""Text in UTF-8 is read, and other encodings are named."""

from collections.abc import Callable
from pathlib import Path

import pytest

from porism.errors import DataError
from porism.tasks.blocks.texts import decoded, split_files, text_files

WORDS = "the cat sees\n"


@pytest.mark.parametrize("text", ["", "a", "größer", "日本語 テキスト\n", "\ufeffwith a mark", "ends\r\n", "a\x01b"])
def test_text_is_read(text: str) -> None:
    assert decoded(text.encode(), "file") == text.removeprefix("\ufeff")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("text", [WORDS, WORDS * 99])
def test_two_bytes_a_letter_are_told(encoding: str, text: str) -> None:
    with pytest.raises(DataError, match="file: UTF-16 or UTF-32, expected UTF-8. Convert it, as iconv"):
        decoded(text.encode(encoding), "file")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a\nb\nc\0d\n", "file, line 3: a zero byte, so no text"),
        (bytes(range(256)), "file, line 1: a zero byte, so no text"),
        (bytes(64), "file, line 1: a zero byte, so no text"),
        (b"caf\xe9\n", "file, line 1: byte 0xe9 is not UTF-8"),
    ],
)
def test_what_is_no_text(content: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        decoded(content, "file")


@pytest.mark.parametrize("link", [Path.symlink_to, Path.hardlink_to])
def test_a_text_is_not_tested_on_what_it_was_trained_on(tmp_path: Path, link: Callable[[Path, Path], None]) -> None:
    for split in ("train", "valid"):
        (tmp_path / f"{split}.txt").write_text(WORDS)
    link(tmp_path / "test.txt", tmp_path / "train.txt")
    with pytest.raises(
        DataError, match="1 file is in train and test, train.txt for instance. Put each into one split."
    ):
        split_files(tmp_path, text_files(tmp_path))
