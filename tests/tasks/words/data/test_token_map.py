"""A text that memory does not hold trains from a mapped file, to the same bits; a damaged file is written anew."""

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from porism.errors import DataError
from porism.runs.recipe import override
from porism.tasks.words.data.corpus import ReadingOptions, StreamedCorpus, TextSource
from porism.tasks.words.data.token_map import INDEX, TOKENS, TokenMap
from porism.tasks.words.recipes import RECIPES
from porism.tasks.words.task import Words

FIELDS = ["vector_size=5", "epochs=2", "min_count=1", "batch_size=3000", "validation_split=0.1", "deterministic=true"]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PORISM_DATA", str(tmp_path / "cache"))
    return tmp_path / "cache" / "words"


@pytest.fixture
def corpus() -> StreamedCorpus:
    text = "".join(f"so many words w{line % 50} in line {line}\n" for line in range(900)).encode()
    reading = ReadingOptions(least_count=1, chunk_words=500)
    return StreamedCorpus.counted("text", {"train": (TextSource("text", text),)}, reading)


def trained(text: Path) -> torch.Tensor:
    task = Words.load(override(RECIPES["skipgram"], FIELDS), str(text))
    torch.manual_seed(1)
    model = task.build()
    step = task.step(model)
    assert step is not None
    for epoch in (1, 2):
        for batch in task.batches(epoch, 1):
            step(batch, {})
    return model.weight.detach().clone()


def test_vectors_are_those_of_the_text_in_memory(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = tmp_path / "text.txt"
    lines = torch.randint(40, (1500, 10), generator=torch.Generator().manual_seed(1)).tolist()
    text.write_text("\n".join(" ".join(f"w{number}" for number in line) for line in lines))
    in_memory = trained(text)
    assert not cache.exists()
    monkeypatch.setattr("porism.tasks.words.data.corpus.BYTES_A_TOKEN", 2**20)
    assert torch.equal(trained(text), in_memory)
    (entry,) = cache.iterdir()
    assert sorted(file.name for file in entry.iterdir()) == [INDEX, TOKENS]


def test_a_file_is_shared_and_a_damaged_one_is_written_anew(corpus: StreamedCorpus, cache: Path) -> None:
    first = TokenMap.of(corpus)
    written = (first.folder / TOKENS).stat().st_mtime_ns
    assert (TokenMap.of(corpus).folder / TOKENS).stat().st_mtime_ns == written
    expected = [first.chunk(number).tolist() for number in range(len(corpus))]
    right = (first.folder / TOKENS).read_bytes()

    def flipped(folder: Path) -> None:
        (folder / TOKENS).write_bytes(right[:-1] + bytes([right[-1] ^ 1]))

    damages: list[Any] = [
        flipped,
        lambda folder: (folder / TOKENS).write_bytes(right[:-4]),
        lambda folder: (folder / TOKENS).unlink(),
        lambda folder: (folder / INDEX).write_text("{}"),
        lambda folder: (folder / INDEX).write_text('{"lengths": [], "sha256": ""}'),
        lambda folder: (folder / INDEX).write_bytes(b"\xff"),
        shutil.rmtree,
    ]
    for damage in damages:
        damage(first.folder)
        found = TokenMap.of(corpus)
        assert [found.chunk(number).tolist() for number in range(len(corpus))] == expected
    assert [entry.name for entry in cache.iterdir()] == [first.folder.name]


def test_what_is_read_stays_what_it_was(corpus: StreamedCorpus) -> None:
    opened = TokenMap.of(corpus)
    before = opened.chunk(1).tolist()
    tokens = torch.from_numpy(opened.chunk(1))
    tokens.zero_()
    assert opened.chunk(1).tolist() == before
    shutil.rmtree(opened.folder)
    assert opened.chunk(1).tolist() == before


def test_another_vocabulary_or_another_cut_is_another_file(corpus: StreamedCorpus, cache: Path) -> None:
    TokenMap.of(corpus)
    for reading in (
        replace(corpus.reading, least_count=3),
        replace(corpus.reading, every=50),
        replace(corpus.reading, chunk_words=400),
    ):
        TokenMap.of(StreamedCorpus.counted("text", corpus.texts, reading))
    assert len(list(cache.iterdir())) == 4


def test_a_disk_without_room_is_refused_and_nothing_stays(
    corpus: StreamedCorpus, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Usage(NamedTuple):
        free: int

    with monkeypatch.context() as context:
        context.setattr(shutil, "disk_usage", lambda path: Usage(1000))
        with pytest.raises(
            DataError, match=r"the disk is full: .* needs about \S+ bytes, 1,000 are free\. .*PORISM_DATA"
        ):
            TokenMap.of(corpus)
    assert list(cache.iterdir()) == []
    cache.rmdir()
    cache.write_text("a file")
    with pytest.raises(DataError, match=r"words/\w+ cannot be written: .*PORISM_DATA"):
        TokenMap.of(corpus)


def test_of_two_that_write_at_once_the_first_counts(corpus: StreamedCorpus, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = shutil.rmtree
    others: list[TokenMap] = []

    def while_another_writes(path: Path, *args: Any, **options: Any) -> None:
        plain(path, *args, **options)
        if not path.name.endswith(".writing") and not others:
            # Between the removal of the damaged one and the new name of this one.
            others.append(TokenMap.of(corpus))

    damaged = TokenMap.of(corpus)
    (damaged.folder / INDEX).unlink()
    with monkeypatch.context() as context:
        context.setattr(shutil, "rmtree", while_another_writes)
        context.setattr("porism.tasks.words.data.token_map.own_temporary", numbered_temporary())
        found = TokenMap.of(corpus)
    assert others
    assert found.chunk(2).tolist() == others[0].chunk(2).tolist() == damaged.chunk(2).tolist()


def numbered_temporary() -> Any:
    numbers = iter(range(9))
    return lambda path: path.with_name(f".{path.name}.{next(numbers)}.writing")


def test_those_used_longest_ago_are_deleted(
    corpus: StreamedCorpus, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    readings = [replace(corpus.reading, every=every) for every in (50, 60, 70)]
    corpora = [StreamedCorpus.counted("text", corpus.texts, reading) for reading in readings]
    maps = [TokenMap.of(one) for one in corpora]
    size = max((one.folder / TOKENS).stat().st_size for one in maps)
    for days, one in enumerate(maps):
        os.utime(one.folder / INDEX, (days * 86_400, days * 86_400))
    foreign = cache / "notes"
    foreign.mkdir()
    assert TokenMap.of(corpora[0]).folder == maps[0].folder  # used now
    monkeypatch.setattr("porism.tasks.words.data.token_map.MOST_BYTES", 2 * size)
    newest = TokenMap.of(corpus)
    assert {path.name for path in cache.iterdir()} == {newest.folder.name, maps[0].folder.name, "notes"}
    # Who had opened one reads on.
    assert len(maps[1].chunk(0))


def test_a_file_beyond_all_bounds_is_kept_alone(
    corpus: StreamedCorpus, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    TokenMap.of(StreamedCorpus.counted("text", corpus.texts, replace(corpus.reading, every=50)))
    monkeypatch.setattr("porism.tasks.words.data.token_map.MOST_BYTES", 1)
    newest = TokenMap.of(corpus)
    assert [path.name for path in cache.iterdir()] == [newest.folder.name]
