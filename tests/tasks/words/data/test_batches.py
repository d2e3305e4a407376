"""Chunks come in any order, cached or from a mapped file, and each knows its position."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from porism.tasks.words.data.batches import Chunks, CorpusPass, part_of_chunk
from porism.tasks.words.data.corpus import ReadingOptions, StreamedCorpus, TextSource

READING = ReadingOptions(least_count=1, chunk_words=500)


@pytest.fixture(params=["", ".gz"])
def corpus(request: pytest.FixtureRequest, tmp_path: Path) -> StreamedCorpus:
    import gzip

    file = tmp_path / f"text.txt{request.param}"
    text = "".join(f"so many words w{line % 50} in line {line}\n" for line in range(3000)).encode()
    file.write_bytes(gzip.compress(text) if request.param else text)
    return StreamedCorpus.counted("text", {"train": (TextSource(str(file)),)}, READING)


def test_what_is_kept_read_again_and_mapped_is_the_same(
    corpus: StreamedCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PORISM_DATA", str(tmp_path / "cache"))
    kept, read = Chunks(corpus), Chunks(replace(corpus, kept=None))
    mapped = Chunks(replace(corpus, kept=None, reading=replace(READING, memory=0)))
    assert (kept.mapped is None, read.mapped is None, mapped.mapped is None) == (True, True, False)
    order = [3, 0, 1, 2, len(kept) - 1, 0, 7, 8, 3]
    assert len(kept) == len(read) == len(mapped) > 10
    for number in order:
        for other in (read, mapped):
            assert torch.equal(kept[number][0], other[number][0])
            assert torch.equal(kept[number][1], other[number][1])
    assert kept[3][0] is kept[3][0]
    assert read[3][0] is read[3][0]
    assert mapped[3][0] is not mapped[3][0]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 50])
def test_parts_of_a_chunk_are_whole_sentences_and_make_up_the_chunk(size: int) -> None:
    lengths = torch.tensor([4, 1, 9, 2, 2, 17, 3, 1, 6])
    tokens = torch.cat([torch.cat([torch.arange(length), torch.tensor([-1])]) for length in lengths]).int()
    parts = [part_of_chunk((tokens, torch.tensor([700, 60])), rank, size) for rank in range(size)]
    assert torch.equal(torch.cat([part for part, _ in parts]), tokens)
    assert all(part[-1] == -1 for part, _ in parts if len(part))
    done = 700
    for part, position in parts:
        known = int((part >= 0).sum())
        assert position.tolist() == [done, known]
        done += known
    if size == 2:
        # As equal as sentences allow: the longest has 17 words.
        assert abs(len(parts[0][0]) - len(parts[1][0])) <= 2 * 18
    assert part_of_chunk((tokens[:0], torch.tensor([700, 0])), size - 1, size)[1].tolist() == [700, 0]


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
