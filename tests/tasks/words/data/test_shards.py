"""Words counted in shards are those that one process counts, whatever the text and however many shards there are."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.training.threads import together

from porism.errors import DataError
from porism.tasks.words import data
from porism.tasks.words.data.corpus import ReadingOptions, StreamedCorpus, TextSource
from porism.tasks.words.data.shards import count_shard
from porism.training.distributed.processes import Processes

pytest.importorskip("numba", reason="numba reads words")
READING = ReadingOptions(least_count=2, chunk_words=300, every=10)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORISM_DATA", str(tmp_path / "cache"))


@pytest.fixture
def texts(tmp_path: Path) -> dict[str, tuple[TextSource, ...]]:
    """Empty ones, short and long lines, lines longer than a chunk, blank lines, no line break at the end."""
    draw = np.random.default_rng(3)

    def line(words: int) -> str:
        return " ".join(f"Wört{int(number)}," for number in draw.zipf(1.6, words) % 400)

    contents = [
        "",
        "\n\n".join(line(int(length)) for length in draw.integers(1, 60, 300)),
        "   \n",
        line(9000) + "\n" + line(30),
        "",
    ]
    found = []
    for number, content in enumerate(contents):
        file = tmp_path / f"{number}.txt"
        file.write_text(content, encoding="utf-8")
        found.append(TextSource(str(file)))
    return {"train": tuple(found)}


def counted(texts: Any, reading: ReadingOptions, size: int) -> list[Any]:
    return together(size, lambda processes: count_shard(processes, "text", lambda: texts, reading))


def assert_same(found: StreamedCorpus, expected: StreamedCorpus) -> None:
    assert found.vocabulary == expected.vocabulary
    assert np.array_equal(found.table, expected.table)
    assert found.fingerprint == expected.fingerprint
    assert found.pruned == expected.pruned == 0


@pytest.mark.sweep(3)
@pytest.mark.parametrize(("size", "chunk_words"), [(1, 300), (2, 300), (5, 300), (25, 10**5)])
@pytest.mark.parametrize("tokenizer", ["whitespace", "words"])
def test_shards_count_what_one_process_counts(texts: Any, size: int, chunk_words: int, tokenizer: Any) -> None:
    reading = replace(READING, tokenizer=tokenizer, chunk_words=chunk_words)
    expected = StreamedCorpus.counted("text", texts, reading)
    # Of 25 some have no chunk.
    assert (len(expected) < size) == (size == 25)
    found, *others = counted(texts, reading, size)
    assert_same(found, expected)
    assert others == [None] * (size - 1)


def test_texts_that_bring_their_splits_hold_nothing_out(texts: Any) -> None:
    own = {**texts, "valid": texts["train"][1:2], "test": texts["train"][3:4]}
    assert_same(counted(own, READING, 3)[0], StreamedCorpus.counted("text", own, READING))


@pytest.mark.parametrize("size", [1, 7, 100, 5000, 20_000])
def test_bounds_are_those_of_the_chunks_that_are_read(texts: Any, size: int) -> None:
    for text in texts["train"]:
        assert list(text.bounds(size)) == [(offset, len(chunk)) for offset, chunk in text.chunks(size)]


def test_what_is_no_text_is_said_by_the_first(texts: Any) -> None:
    path = texts["train"][3].path
    path.write_bytes(path.read_bytes() + b" caf\xe9")
    found, *others = counted(texts, READING, 3)
    assert isinstance(found, DataError)
    assert str(found).startswith("process 2 of 3: ")
    assert str(refusal_of_one(texts)) in str(found)
    assert others == [None, None]


def refusal_of_one(texts: Any) -> DataError:
    with pytest.raises(DataError, match="0xe9 is not UTF-8") as raised:
        StreamedCorpus.counted("text", texts, READING)
    return raised.value


def test_more_words_than_memory_holds_are_counted_by_one(texts: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("porism.tasks.words.data.shards.BYTES_A_TABLE_WORD", READING.memory * 2**20 // 100)
    assert counted(texts, READING, 3) == [None] * 3


def test_other_files_on_another_machine_are_refused(texts: Any) -> None:
    fewer = {"train": texts["train"][:2]}

    def work(processes: Processes) -> StreamedCorpus | None:
        return count_shard(processes, "text", lambda: fewer if processes.rank else texts, READING)

    found, other = together(2, work)
    assert "text: not the same text on all machines" in str(found)
    assert other is None


def test_a_process_that_has_helped_loads_what_all_have_counted(texts: Any, tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    for text in texts["train"][1:4:2]:
        text.path.rename(folder / text.path.name)
    source, found = str(folder), data._texts(str(folder))

    def work(processes: Processes) -> StreamedCorpus | None:
        if processes.rank:
            for _ in range(2):
                message = processes.receive()
                assert (message["do"], message["task"]) == ("help load", "words")
                data.help_load_corpus(processes, message["request"])
        return data._counted_together(processes, source, found, READING)

    expected = StreamedCorpus.counted(source, found, READING)
    for corpus in together(2, work):
        assert_same(corpus, expected)
    assert not data._COUNTED
