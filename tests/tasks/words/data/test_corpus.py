"""A corpus is the same words whatever the size of its pieces, and what is held out is nowhere in training."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from porism.errors import DataError
from porism.tasks.words.data.corpus import Reader, ReadingOptions, StreamedCorpus, TextSource
from porism.tasks.words.data.vocabulary import WordTable

# Every line has a word of its own, so that lines can be distinguished.
LINES = [f"The line number{line} of {line % 7} Words" for line in range(700)]
READING = ReadingOptions(least_count=1, every=10, chunk_words=100)


def counted(reading: ReadingOptions = READING, lines: list[str] = LINES) -> StreamedCorpus:
    return StreamedCorpus.counted("lines", {"train": (TextSource("lines", "\n".join(lines).encode()),)}, reading)


def training_tokens(corpus: StreamedCorpus) -> list[int]:
    reader = Reader(corpus.texts["train"])
    pieces = [corpus.tokens(corpus.chunk(number), reader).tokens for number in range(len(corpus))]
    return [int(token) for token in np.concatenate(pieces)]


def own_words(tokens: list[int], corpus: StreamedCorpus) -> set[str]:
    words = {corpus.vocabulary.words[token] for token in tokens if token >= 0}
    return {word for word in words if word.startswith("number")}


def test_frequencies_are_those_of_the_training_text() -> None:
    corpus = counted()
    found = np.bincount([token for token in training_tokens(corpus) if token >= 0])
    assert found.tolist() == list(corpus.vocabulary.counts)
    assert corpus.words == found.sum() == 6 * 560
    chunks = [corpus.chunk(number) for number in range(len(corpus))]
    assert [chunk.previous for chunk in chunks] == np.cumsum([0, *(chunk.words for chunk in chunks)])[:-1].tolist()


def test_the_size_of_pieces_changes_nothing() -> None:
    few, many = counted(replace(READING, chunk_words=1000)), counted(replace(READING, chunk_words=10))
    assert len(few) < len(many)
    assert training_tokens(few) == training_tokens(many)
    assert few.fingerprint == many.fingerprint
    assert all(np.array_equal(few.held_out(split), many.held_out(split)) for split in ("valid", "test"))


def test_what_is_held_out_is_not_trained_on() -> None:
    # Words that only held-out lines have are unknown, so let all lines share them.
    corpus = counted(lines=LINES + [line for line in LINES for _ in range(10)])
    for split, rest in (("valid", 5), ("test", 9)):
        held = own_words(corpus.held_out(split).tolist(), corpus)
        assert {f"number{line}" for line in range(rest, 700, 10)} <= held
    assert counted().held_out("valid").tolist().count(-1) == 70
    assert not own_words(training_tokens(counted()), counted()) & {f"number{line}" for line in range(5, 700, 10)}


def test_split_files_are_taken_as_they_are() -> None:
    texts = {split: (TextSource(split, f"{split} text here\n".encode() * 30),) for split in ("train", "valid", "test")}
    corpus = StreamedCorpus.counted("split", texts, READING)
    assert corpus.words == 90
    assert len(corpus.held_out("valid")) == 30 * 3
    other = {**texts, "test": (TextSource("test", b"other text here\n" * 30),)}
    assert StreamedCorpus.counted("split", other, READING).fingerprint != corpus.fingerprint


def test_several_files_are_one_text(tmp_path: Path) -> None:
    for name, lines in (("a.txt", LINES[:333]), ("b.txt", LINES[333:])):
        (tmp_path / name).write_text("\n".join(lines))
    texts = tuple(TextSource(str(tmp_path / name)) for name in ("a.txt", "b.txt"))
    corpus = StreamedCorpus.counted("two", {"train": texts}, READING)
    assert training_tokens(corpus) == training_tokens(counted())
    assert corpus.vocabulary == counted().vocabulary


def test_the_fingerprint_is_of_what_is_read() -> None:
    assert counted().fingerprint != counted(lines=LINES[1:]).fingerprint
    assert counted().fingerprint == counted(lines=[line.upper() for line in LINES]).fingerprint
    assert counted().fingerprint != counted(replace(READING, lower=False)).fingerprint


@pytest.mark.parametrize("least_count", [1, 5])
def test_counting_keeps_the_tokens_that_reading_again_finds(least_count: int) -> None:
    # Lines come several times, so that some words come less than five times and some more often.
    lines = [line for number, line in enumerate(LINES) for _ in range(number % 9)]
    corpus = counted(replace(READING, least_count=least_count), lines)
    assert corpus.kept is not None
    assert [len(tokens) > 0 for tokens in corpus.kept] == [True] * len(corpus)
    assert np.concatenate(corpus.kept).tolist() == training_tokens(corpus)


def test_no_tokens_are_kept_where_they_have_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    words = counted().words
    for room, kept in ((words, True), (words - 1, False)):
        monkeypatch.setattr("porism.tasks.words.data.corpus.BYTES_A_TOKEN", 2**20 * READING.memory / 2 / room)
        assert (counted().kept is not None) == kept


def test_a_full_table_forgets_rare_words_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = counted()
    assert whole.pruned == 0
    # Room for 64 words of the 575 or so.
    monkeypatch.setattr("porism.tasks.words.data.corpus.BYTES_A_TABLE_WORD", 2**14)
    small = counted(replace(READING, memory=1))
    assert small.pruned > 0
    # Numbers of words changed on the way.
    assert small.kept is None
    assert len(small.vocabulary) < 100
    assert {"the", "line", "of", "words"} <= set(small.vocabulary.words)
    assert set(small.vocabulary.words) <= set(whole.vocabulary.words)
    # Words of every line were never dropped.
    assert dict(zip(small.vocabulary.words, small.vocabulary.counts, strict=True))["the"] == 560


def test_pieces_are_bounded_by_memory_and_by_the_text() -> None:
    assert ReadingOptions(chunk_words=10**9, memory=1).chunk_bytes(10**12) == 2**16
    assert ReadingOptions().chunk_bytes(10**12) == 1_200_000
    assert ReadingOptions().chunk_bytes(400_000) == 50_000
    assert ReadingOptions().chunk_bytes(1) == 2**12
    assert ReadingOptions(chunk_words=10).chunk_bytes(1) == 60


def test_a_table_of_words_is_made_once() -> None:
    corpus = counted()
    assert isinstance(corpus.word_table, WordTable)
    assert corpus.word_table is corpus.word_table


def test_a_file_that_changes_while_it_is_trained_on_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "lines.txt"
    path.write_text("\n".join(LINES))
    corpus = StreamedCorpus.counted("lines", {"train": (TextSource(str(path)),)}, READING)
    training_tokens(corpus)
    path.write_text("\n".join(LINES).replace("number699", "number998"))
    with pytest.raises(DataError, match=r"lines\.txt, byte \d+: the file was changed since its words were counted"):
        training_tokens(corpus)
