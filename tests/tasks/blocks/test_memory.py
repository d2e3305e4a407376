"""What does not fit into memory is refused before it is read."""

import gzip
import lzma
import os
from pathlib import Path

import pytest

from porism.costing.predicting.available import GIB
from porism.errors import DataError
from porism.tasks.blocks.download import read_content
from porism.tasks.blocks.memory import check_fits
from porism.tasks.blocks.texts import read_lines
from porism.tasks.words.data import load_corpus


def test_the_message_says_what_it_takes_and_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("porism.tasks.blocks.memory.available_bytes", lambda: 2.0 * GIB)
    check_fits("file", 2 * GIB, "its content")
    check_fits("file", 3 * GIB, "its content", taken=GIB)
    with pytest.raises(
        DataError, match=r"file: its content takes 4 GiB, and 3 GiB of memory are free. Give less data."
    ):
        check_fits("file", 4 * GIB, "its content", taken=GIB)


@pytest.mark.parametrize(("suffix", "pack"), [("", bytes), (".gz", gzip.compress), (".xz", lzma.compress)])
def test_a_file_larger_than_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, pack: type[bytes]
) -> None:
    path = tmp_path / f"text.txt{suffix}"
    path.write_bytes(pack(os.urandom(1000)))
    assert len(read_content(path)) == 1000
    monkeypatch.setattr("porism.tasks.blocks.memory.available_bytes", lambda: 999.0)
    with pytest.raises(DataError, match=r"text.txt.*: its content takes .* GiB of memory are free"):
        read_content(path)


def test_words_take_more_than_their_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "text.txt").write_text("a cat\n" * 100)
    monkeypatch.setattr("porism.tasks.blocks.memory.available_bytes", lambda: 6000.0)
    with pytest.raises(DataError, match=r"text.txt: its text as words takes .* Give less text. The words task"):
        read_lines(tmp_path / "text.txt")
    # They are read piece by piece.
    assert load_corpus(str(tmp_path / "text.txt")).words == 196


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_much_in_few_bytes_is_refused_packed_and_taken_plain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, pack: type[bytes]
) -> None:
    monkeypatch.setattr("porism.tasks.blocks.download.LEAST_BOMB", 2**20)
    content = b"so rain\n" * 2**18
    (tmp_path / "text.txt").write_bytes(content)
    (tmp_path / f"text.txt{suffix}").write_bytes(pack(content))
    assert read_content(tmp_path / "text.txt") == content
    for read in (read_content, lambda path: load_corpus(str(path))):
        with pytest.raises(DataError, match="bytes that unpack to more than 100 times as many, which no data does"):
            read(tmp_path / f"text.txt{suffix}")
    (tmp_path / f"text.txt{suffix}").write_bytes(pack(content[: 2**20]))
    assert len(read_content(tmp_path / f"text.txt{suffix}")) == 2**20
