"""Files of word2vec: what is written is read back to the last bit, by us and by gensim, and bad files are raised."""

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from porism.errors import DataError, ShapeError
from porism.tasks.words.data import word2vec
from porism.tasks.words.data.word2vec import load, save
from porism.tasks.words.predict import analogy, most_similar

NAMES = ("v.txt", "v.vec", "v.bin", "v.txt.gz", "v.vec.gz", "v.bin.gz")
ODD_WORDS = ["the", "naïve", "日本語", "</s>", "1990", "0.5", "new_york", "a\u00a0b", "\N{GRINNING FACE}", "-", "x\ty"]


def some_vectors(count: int, width: int) -> Tensor:
    """Of all sizes: the smallest and largest that float32 has, zeros, and those in between."""
    vectors = torch.randn(count, width, generator=torch.Generator().manual_seed(0))
    vectors.view(-1)[::5] *= 1e-30
    vectors.view(-1)[1::7] *= 1e30
    vectors[-1] = 0
    vectors[0, 0] = torch.finfo(torch.float32).tiny / 2**23
    return vectors


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("width", [1, 2, 7, 63])
def test_what_is_written_is_read_back(name: str, width: int, tmp_path: Path) -> None:
    vectors = some_vectors(len(ODD_WORDS), width)
    save(tmp_path / name, ODD_WORDS, vectors)
    words, found = load(tmp_path / name)
    assert words == ODD_WORDS
    assert found.dtype == torch.float32
    assert torch.equal(found, vectors)
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_the_content_tells_the_format_whatever_the_name(tmp_path: Path) -> None:
    vectors = some_vectors(2, 3)
    for name in ("v.txt", "v.bin"):
        save(tmp_path / name, ["a", "b"], vectors)
        assert torch.equal(load((tmp_path / name).rename(tmp_path / "vectors"))[1], vectors)


@pytest.mark.parametrize("name", ["v.txt.gz", "v.bin.gz"])
def test_the_same_vectors_give_the_same_bytes(name: str, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    for folder in (tmp_path, tmp_path / "other"):
        save(folder / name, ["a", "b"], some_vectors(2, 3))
    content = (tmp_path / name).read_bytes()
    assert content == (tmp_path / "other" / name).read_bytes()
    assert content[4:8] == bytes(4)  # where gzip keeps the date


def test_numbers_cross_the_border_of_what_is_read_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word2vec, "READ_AT_ONCE", 5)
    words, vectors = [f"word{number}" for number in range(63)], some_vectors(63, 7)
    save(tmp_path / "v.bin", words, vectors)
    found = load(tmp_path / "v.bin")
    assert found[0] == words
    assert torch.equal(found[1], vectors)


def test_a_text_by_others_may_have_words_with_spaces(tmp_path: Path) -> None:
    (tmp_path / "glove.txt").write_text("3 2\nthe 1 2\n. . . 3 4\r\nnew york 5 6 \n\n")
    words, vectors = load(tmp_path / "glove.txt")
    assert words == ["the", ". . .", "new york"]
    assert vectors.tolist() == [[1, 2], [3, 4], [5, 6]]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "v.txt"
    save(file, ["a"], torch.ones(1, 2))

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(DataError, match=r"v.txt: cannot be written \(No space left on device\). Choose another folder"):
        save(file, ["b"], torch.zeros(1, 2))
    assert load(file)[0] == ["a"]
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(
    ("name", "words", "vectors", "message"),
    [
        ("v.csv", ["a"], torch.ones(1, 2), "v.csv: no format of word2vec ends in '.csv'. Name it .txt or .vec for"),
        ("v.gz", ["a"], torch.ones(1, 2), "v.gz: no format of word2vec ends in 'v.gz'."),
        ("v.txt", ["new york"], torch.ones(1, 2), "word 1, 'new york', is empty or has a space or an end of line"),
        ("v.bin", ["a", "b\nc"], torch.ones(2, 2), r"word 2, 'b\\nc', is empty or has .* Join its parts"),
        ("v.bin", ["a", ""], torch.ones(2, 2), "word 2, '', is empty"),
        ("v.txt", ["a", "b", "a"], torch.ones(3, 2), "v.txt: 'a' is there 2 times. Leave one of them."),
        ("v.txt", ["a", "b"], torch.tensor([[1.0], [torch.nan]]), "'b' has a number that is not finite"),
    ],
)
def test_what_cannot_be_written(name: str, words: list[str], vectors: Tensor, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        save(tmp_path / name, words, vectors)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("shape", [(3, 4), (2,), (2, 0)])
def test_vectors_that_do_not_fit_the_words(shape: tuple[int, ...], tmp_path: Path) -> None:
    with pytest.raises(
        ShapeError, match=r"word2vec: vectors are \(.*\) for 2 words, expected \(2, D\), .*Give a vector"
    ):
        save(tmp_path / "v.txt", ["a", "b"], torch.ones(shape))


def binary(*records: tuple[bytes, list[float]]) -> bytes:
    return b"".join(word + b" " + np.array(numbers, "<f4").tobytes() + b"\n" for word, numbers in records)


TWO = binary((b"a", [1, 2]), (b"b", [3, 4]))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"",
            "v, line 1: '', expected two whole numbers from 1 on, how many words there are and how wide. Give a file",
        ),
        (b"the 0.1 0.2\n", "v, line 1: 'the 0.1 0.2', expected two whole numbers"),
        (b"2\na 1\n", "v, line 1: '2', expected"),
        (b"0 2\n", "v, line 1: '0 2', expected"),
        (b"2 -1\na 1\n", "v, line 1: '2 -1', expected"),
        (b"2 2\na 1 2\nb 3\n", "v, line 3: 1 numbers, expected a word and 2. Mend the line."),
        (b"2 2\na 1 2 3\nb 3 4\n", "v, line 2: 3 numbers, expected a word and 2."),
        (b"2 2\na 1 2\nb 3 x\n", "v, line 3: 'x' is not a number. Expected a word and 2 numbers."),
        (b"2 2\na 1 2\nb 3 nan\n", "v, line 3: 'b' has a number that is not finite"),
        (b"2 2\na 1 2\nb 3 1e39\n", "v, line 3: 'b' has a number that is not finite"),
        (b"2 2\na 1 2\na 3 4\n", "v, line 3: 'a' is already at line 2. Leave one of them."),
        (b"2 2\na 1 2\n\xff 3 4\n", "v, line 3: byte 0xff of a word is not UTF-8. Save it in UTF-8"),
        (b"2 2\na 1 2\n 3 4\n", "v, line 3: numbers without a word before them"),
        (b"3 2\na 1 2\nb 3 4\n", "v: ends after 2 words, line 1 promises 3. Copy it again."),
        (b"1 2\na 1 2\nb 3 4\n", "v, line 3: goes on, line 1 promises 1 words. Mend line 1."),
        (b"999999999999 2\na 1 2\n", "v: ends after 1 words, line 1 promises 999999999999."),
        (b"2 999999999999\na 1 2\n", "v: 21 bytes at most, and a word of width 999999999999 takes 1,999,999,999,999."),
        (b"2 2\n" + TWO[:-2], r"v, byte 24: ends within word 2 of 2, .* does not end in a number. Copy it again."),
        (b"3 2\n" + TWO, "v, byte 26: ends within word 3 of 3"),
        (b"1 2\n" + TWO, "v, byte 14: goes on, line 1 promises 1 words. Mend line 1."),
        (b"2 2\n" + binary((b"a", [1, 2]), (b"b", [3, np.inf])), "v, byte 14: 'b' has a number that is not finite"),
        (b"2 2\n" + binary((b"a", [1, 2]), (b"a", [3, 4])), "v, byte 14: 'a' is already at byte 4."),
        (b"2 2\n" + binary((b"a", [1, 2]), (b"\xff", [3, 4])), "v, byte 14: byte 0xff of a word is not UTF-8."),
        (b"2 2\n" + binary((b"a", [1, 2]), (b"", [3, 4])), "v, byte 14: numbers without a word before them"),
    ],
)
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_bad_file_is_reported_in_one_line(content: bytes, message: str, suffix: str, tmp_path: Path) -> None:
    if suffix and "bytes at most" in message:
        message = "bytes at most, and a word of width 999999999999 takes"
    file = tmp_path / f"v{suffix}"
    file.write_bytes(gzip.compress(content) if suffix else content)
    with pytest.raises(DataError, match=message.replace("v,", f"v{suffix},").replace("v:", f"v{suffix}:")) as raised:
        load(file)
    assert "\n" not in str(raised.value)


def test_a_file_that_is_not_there_or_not_whole(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="gone.bin: no such file. Check the path."):
        load(tmp_path / "gone.bin")
    (tmp_path / "v.bin.gz").write_bytes(gzip.compress(b"2 2\n" + TWO)[:-12])
    with pytest.raises(DataError, match="v.bin.gz: not a whole .gz file .* Copy or compress it again."):
        load(tmp_path / "v.bin.gz")
    with pytest.raises(DataError, match="cannot be read"):
        load(tmp_path)


def small_world() -> tuple[list[str], Tensor]:
    words = [*ODD_WORDS, *(f"w{number}" for number in range(200))]
    return words, torch.randn(len(words), 25, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def keyed_vectors() -> Any:
    return pytest.importorskip("gensim.models", reason="gensim, of the dev extra, is not installed").KeyedVectors


@pytest.mark.parametrize("name", NAMES)
def test_gensim_reads_ours_and_finds_the_same_neighbours(name: str, keyed_vectors: Any, tmp_path: Path) -> None:
    words, vectors = small_world()
    save(tmp_path / name, words, vectors)
    theirs = keyed_vectors.load_word2vec_format(str(tmp_path / name), binary=".bin" in name)
    assert theirs.index_to_key == words
    assert np.array_equal(theirs.vectors, vectors.numpy())
    for query, ours in zip(words[:20], most_similar(vectors, words, words[:20], 10), strict=True):
        expected = theirs.most_similar(query, topn=10)
        assert [word for word, _ in ours] == [word for word, _ in expected]
        assert [cosine for _, cosine in ours] == pytest.approx([cosine for _, cosine in expected], abs=1e-6)
    expected = theirs.most_similar(positive=["naïve", "日本語"], negative=["the"], topn=10)
    assert [word for word, _ in analogy(vectors, words, "the", "naïve", "日本語")] == [word for word, _ in expected]


@pytest.mark.parametrize("name", NAMES)
def test_what_gensim_writes_is_read(name: str, keyed_vectors: Any, tmp_path: Path) -> None:
    words, vectors = small_world()
    theirs = keyed_vectors(vectors.shape[1])
    theirs.add_vectors(words, vectors.numpy())
    theirs.save_word2vec_format(str(tmp_path / name), binary=".bin" in name)
    found = load(tmp_path / name)
    assert sorted(found[0]) == sorted(words)
    order = [words.index(word) for word in found[0]]
    assert torch.equal(found[1], vectors[order])
