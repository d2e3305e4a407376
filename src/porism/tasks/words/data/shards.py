"""Words counted by several processes, each in its range of the chunks of a text, with the result of one process.

A process reads its chunks once, cut into words, and keeps them so in a temporary file. How many sentences each chunk
has is exchanged, since their numbers decide what is held out; then each process counts, and the first merges the
counts. The fingerprint is a sha256 of the whole text in order, so the first process is sent what the others have kept.
"""

import hashlib
import tempfile
import weakref
import zlib
from collections.abc import Callable, Iterator
from typing import IO, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from porism.errors import DataError, PorismError
from porism.files import cache_folder
from porism.tasks.blocks.download import COMPRESSED
from porism.tasks.words.data.corpus import (
    BYTES_A_TABLE_WORD,
    MIB,
    Chunk,
    Counter,
    Reader,
    ReadingOptions,
    StreamedCorpus,
    TextSource,
    held_every,
)
from porism.tasks.words.data.vocabulary import Split, WordCounts, WordTable
from porism.training.distributed.processes import Processes

LEAST_BYTES = 2**24
"""A smaller text is counted by each process for itself, in a few seconds."""

Texts = dict[str, tuple[TextSource, ...]]


def can_be_shared(texts: Texts) -> bool:
    """Whether the training text is long, and lies in files that can be read from any position."""
    train = texts["train"]
    plain = all(text.content is None and text.path.suffix not in COMPRESSED for text in train)
    return plain and sum(text.size for text in train) >= LEAST_BYTES


class ChunkRange(NamedTuple):
    """Offset and length of a chunk of one of the texts."""

    text: int
    offset: int
    length: int


class Shard:
    """The range of a text's chunks that one of several processes counts."""

    def __init__(self, texts: tuple[TextSource, ...], reading: ReadingOptions, rank: int, size: int) -> None:
        self.texts, self.reading = texts, reading
        self.ranges = [
            ChunkRange(number, *bounds)
            for number, text in enumerate(texts)
            for bounds in text.bounds(reading.chunk_bytes(text.size))
        ]
        """Of all chunks of all processes."""
        cuts = np.linspace(0, len(self.ranges), size + 1).astype(int).tolist()
        self.own = range(cuts[rank], cuts[rank + 1])
        self.cuts = cuts
        self._lengths: list[int] = []

    def read(self) -> NDArray[np.int64]:
        """Keeps the own chunks as plain text.

        Returns: sentences and checksum of all chunks, (2, chunks); 0 for those of others.
        """
        found = np.zeros((2, len(self.ranges)), np.int64)
        reader, nothing = Reader(self.texts), WordTable()
        self._kept = _temporary()
        weakref.finalize(self, self._kept.close)
        for number in self.own:
            text, offset, length = self.ranges[number]
            content = reader.read(text, offset, length)
            plain = self.texts[text].plain(content, offset, self.reading.lower, self.reading.tokenizer)
            found[:, number] = nothing.tokenize(plain).sentence, zlib.crc32(content)
            self._lengths.append(_written(self._kept, plain))
        return found

    def plain(self) -> Iterator[bytes]:
        """The own chunks, as they were kept."""
        self._kept.seek(0)
        return (self._kept.read(length) for length in self._lengths)

    def count(self, sentences: NDArray[np.int64], split: Split, most: int) -> tuple[WordTable, NDArray[np.int64]]:
        """The counts, and the words of all chunks, those of others 0. Stops at a table of more than `most` words.

        sentences: the number of the first of each chunk.
        """
        table, words = WordTable(), np.zeros(len(self.ranges), np.int64)
        for number, plain in zip(self.own, self.plain(), strict=True):
            words[number] = table.count(plain, int(sentences[number]), split).words
            if len(table) > most:
                break
        return table, words


def count_shard(
    processes: Processes, name: str, find_texts: Callable[[], Texts], reading: ReadingOptions
) -> StreamedCorpus | None:
    """Takes part in counting, with all other processes.

    Returns: the corpus on rank 0, as `StreamedCorpus.counted` has it; None if its words do not fit in the memory of
        counting, where one process drops rare words as it goes on. None on the other processes.
    """
    shard, problem = None, None
    try:
        texts = find_texts()
        shard = Shard(texts["train"], reading, processes.rank, processes.size)
        own = shard.read()
    except PorismError as error:
        problem = error
    problems = processes.gather("" if problem is None else str(problem))
    if any(problems):
        if processes.rank:
            return None
        # The first in the order of the text, as one process would meet it.
        raise problem or DataError(next(f"process {r} of {processes.size}: {x}" for r, x in enumerate(problems) if x))
    assert shard is not None
    cut = hashlib.sha256(repr(shard.ranges).encode()).hexdigest()
    if len(set(processes.gather(cut))) > 1:
        if processes.rank:
            return None
        raise DataError(f"{name}: not the same text on all machines. Bring the same files to every machine.")
    sentences, checksums = _summed(own, processes)
    starts = np.cumsum(sentences) - sentences
    most = max(2, reading.memory * MIB // BYTES_A_TABLE_WORD)
    table, own_words = shard.count(starts, Split.of("train", held_every(texts, reading)), most)
    words = _summed(own_words, processes)
    if processes.rank:
        processes.send_bytes(b" ".join(table.words()))
        processes.send_bytes(table.counts.tobytes())
        for plain in shard.plain():
            processes.send_bytes(plain)
        return None
    fits = len(table) <= most
    digest = hashlib.sha256()
    _update(digest, shard, shard.own, shard.plain())
    for rank in range(1, processes.size):
        letters, counts = processes.receive_bytes(rank), np.frombuffer(processes.receive_bytes(rank), np.int64)
        if fits:
            table.merge(letters, counts)
            fits = len(table) <= most
        numbers = range(shard.cuts[rank], shard.cuts[rank + 1])
        _update(digest, shard, numbers, (processes.receive_bytes(rank) for _ in numbers))
    # Texts without a chunk at the end have nothing after which they could end.
    digest.update(b"\0" * (len(shard.texts) - (shard.ranges[-1].text if shard.ranges else 0)))
    if not fits:
        return None
    held_out = Counter(reading, Split())
    held_out.digest = digest
    for split in ("valid", "test"):
        for text in texts.get(split, ()):
            held_out.check(text)
    vocabulary = WordCounts.counted(table, reading.least_count, name)
    rows = np.column_stack([np.array(shard.ranges, np.int64), starts, words, np.cumsum(words) - words, checksums])
    assert rows.shape[1] == len(Chunk._fields)
    return StreamedCorpus(name, texts, reading, vocabulary, rows, digest.hexdigest(), 0)


def _update(digest: Any, shard: Shard, numbers: range, plain: Iterator[bytes]) -> None:
    """Adds chunks to the fingerprint, and a zero byte for each text that ended before one of them."""
    for number, content in zip(numbers, plain, strict=True):
        ended = shard.ranges[number].text - (shard.ranges[number - 1].text if number else 0)
        digest.update(b"\0" * ended)
        digest.update(content)


def _summed(numbers: NDArray[np.int64], processes: Processes) -> NDArray[np.int64]:
    total = torch.from_numpy(numbers)
    processes.sum(total)
    return total.numpy()


def _written(file: IO[bytes], content: bytes) -> int:
    try:
        return file.write(content)
    except OSError as error:
        raise _cannot_write(error) from error


def _temporary() -> IO[bytes]:
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return tempfile.TemporaryFile(dir=folder)
    except OSError as error:
        raise _cannot_write(error) from error


def _cannot_write(error: OSError) -> DataError:
    return DataError(
        f"{cache_folder()} cannot hold the text while its words are counted: {error.strerror}. Make room, or name "
        "another folder in the variable PORISM_DATA."
    )
