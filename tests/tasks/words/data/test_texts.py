"""A text is read in chunks that end where lines or words do, and is distinguished from what is no text."""

import gzip
import lzma
from pathlib import Path

import pytest

from porism.errors import DataError
from porism.tasks.words.data.corpus import LONGEST_LINE, Reader, TextSource

POEM = b"".join(b"line %d of a poem\n" % number for number in range(200)) + b"the end without a break"


@pytest.mark.parametrize("size", [1, 7, 63, 1000, 10**6])
def test_chunks_are_all_of_the_text_in_whole_lines(size: int) -> None:
    chunks = list(TextSource("poem", POEM).chunks(size))
    assert b"".join(content for _, content in chunks) == POEM
    assert [offset for offset, _ in chunks] == [sum(len(c) for _, c in chunks[:n]) for n in range(len(chunks))]
    assert all(content.endswith(b"\n") for _, content in chunks[:-1])


def test_a_line_longer_than_a_chunk_is_cut_between_words() -> None:
    line = b"word " * 20_000
    chunks = [content for _, content in TextSource("line", line).chunks(64)]
    assert b"".join(chunks) == line
    assert len(chunks) > 5
    assert all(chunk.endswith(b" ") and len(chunk) < 64 + LONGEST_LINE + len(b"word ") for chunk in chunks)


def test_no_white_space_is_no_text() -> None:
    with pytest.raises(DataError, match=r"blob, byte 4: \d+ bytes without white space, so no words"):
        list(TextSource("blob", b"a b\n" + b"x" * 50_000).chunks(2))


@pytest.mark.parametrize(("suffix", "pack"), [("", bytes), (".gz", gzip.compress), (".xz", lzma.compress)])
def test_compressed_files_read_alike_in_any_order(tmp_path: Path, suffix: str, pack: type[bytes]) -> None:
    file = tmp_path / f"poem.txt{suffix}"
    file.write_bytes(pack(POEM))
    text = TextSource(str(file))
    chunks = list(text.chunks(100))
    assert b"".join(content for _, content in chunks) == POEM
    reader = Reader((TextSource("other", b"something else"), text))
    for offset, content in [*chunks, *reversed(chunks)]:
        assert reader.read(1, offset, len(content)) == content
    assert reader.read(0, 0, 9) == b"something"


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "broken.txt.gz"
    file.write_bytes(gzip.compress(POEM)[:-20])
    with pytest.raises(DataError, match=r"broken.txt.gz: not a whole .gz file"):
        list(TextSource(str(file)).chunks(100))


def test_bytes_that_are_no_text_are_named_by_their_offset() -> None:
    text = TextSource("letter.txt", b"")
    with pytest.raises(DataError, match=r"letter.txt, byte 1005: 0xe9 is not UTF-8"):
        text.plain("aé bé".encode("latin-1"), offset=1001 + 3, lower=True)
    with pytest.raises(DataError, match=r"letter.txt, byte 12: a zero byte, so no text"):
        text.plain(b"a\0", offset=11, lower=False)


def test_plain_text_has_no_mark_in_front_and_is_lower_on_request() -> None:
    text = TextSource("letter.txt", b"")
    assert text.plain("\ufeffÉté".encode(), 0, lower=True) == "été".encode()
    assert text.plain("Été".encode(), 0, lower=False) == "Été".encode()
    assert text.plain(b"ABC", 5, lower=True) == b"abc"
