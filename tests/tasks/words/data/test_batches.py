"""Pieces come in any order, kept or read anew, and each knows its position."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from porism.tasks.words.data.batches import Chunks, CorpusPass
from porism.tasks.words.data.corpus import ReadingOptions, StreamedCorpus, TextSource

READING = ReadingOptions(least_count=1, chunk_words=500)


@pytest.fixture(params=["", ".gz"])
def corpus(request: pytest.FixtureRequest, tmp_path: Path) -> StreamedCorpus:
    import gzip

    file = tmp_path / f"text.txt{request.param}"
    text = "".join(f"so many words w{line % 50} in line {line}\n" for line in range(3000)).encode()
    file.write_bytes(gzip.compress(text) if request.param else text)
    return StreamedCorpus.counted("text", {"train": (TextSource(str(file)),)}, READING)


def test_what_is_kept_and_what_is_read_anew_is_the_same(corpus: StreamedCorpus) -> None:
    kept = Chunks(corpus)
    anew = Chunks(replace(corpus, reading=replace(READING, memory=0)))
    order = [3, 0, 1, 2, len(kept) - 1, 0, 7, 8, 3]
    assert len(kept) == len(anew) > 10
    for number in order:
        assert torch.equal(kept[number][0], anew[number][0])
        assert torch.equal(kept[number][1], anew[number][1])
    assert kept[3][0] is kept[3][0]
    assert anew[3][0] is not anew[3][0]


def test_places_count_the_words_of_the_text(corpus: StreamedCorpus) -> None:
    positions = torch.stack([position for _, position in Chunks(corpus)])
    assert positions[:, 1].sum() == corpus.words
    assert torch.equal(positions[1:, 0], positions[:, 1].cumsum(0)[:-1])
    later = CorpusPass(Chunks(corpus), words_before=1000)
    assert later[2][1].tolist() == [1000 + int(positions[2, 0]), int(positions[2, 1])]


def test_chunks_are_a_sequence(corpus: StreamedCorpus) -> None:
    chunks = Chunks(corpus)
    assert torch.equal(chunks[-1][0], chunks[len(chunks) - 1][0])
    assert len(chunks[2:5]) == 3
    with pytest.raises(IndexError):
        chunks[len(chunks)]
