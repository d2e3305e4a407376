"""Text that is streamed in chunks: from a file, plain or compressed, or from memory.

>>> text = TextSource("poem", content=b"one two\\nthree\\n")
>>> list(text.chunks(size=4))
[(0, b'one two\\n'), (8, b'three\\n')]
"""

import hashlib
import io
import weakref
import zlib
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from porism.errors import DataError
from porism.tasks.blocks.download import COMPRESSED, check_unpacked, open_content, readable
from porism.tasks.blocks.texts import check_encoding
from porism.tasks.words.data.vocabulary import Split, TokenizedChunk, WordCounts, WordTable, kernels
from porism.tasks.words.model.trainer import END

BOM = b"\xef\xbb\xbf"
LONGEST_LINE = 2**14
"""Bytes of a line, or of a word, that are read to its end however small a chunk should be."""
Cut = Literal["whitespace", "words"]
EXPANDED = 4
"""Bytes of text in a byte of a compressed file, about."""


@dataclass(frozen=True)
class TextSource:
    """A file's path, or a name with the content itself."""

    name: str
    content: bytes | None = None

    @property
    def path(self) -> Path:
        return Path(self.name)

    @property
    def size(self) -> int:
        """Bytes, roughly where they are compressed."""
        if self.content is not None:
            return len(self.content)
        with readable(self.path):
            return self.path.stat().st_size * (EXPANDED if self.path.suffix in COMPRESSED else 1)

    def open(self) -> IO[bytes]:
        return open_content(self.path) if self.content is None else io.BytesIO(self.content)

    def chunks(self, size: int) -> Iterator[tuple[int, bytes]]:
        """All of it in order: the offset of a chunk, and the chunk.

        Each has `size` bytes and the rest of a line, or ends with a word where that line is long.
        """
        offset, left, longest = 0, b"", max(size, LONGEST_LINE)
        with self.open() as file:
            while True:
                with readable(self.path):
                    block = left + file.read(size)
                    rest = file.readline(longest)
                    block += rest
                    if self.content is None:
                        check_unpacked(self.path, offset + len(block))
                if not block:
                    return
                whole = len(rest) < longest or block.endswith(b"\n")
                end = len(block) if whole else self._after_last_word(block, offset)
                yield offset, block[:end]
                offset, left = offset + end, block[end:]

    def bounds(self, size: int) -> Iterator[tuple[int, int]]:
        """Offset and length of each of these chunks, of a file that is not compressed, without reading all of it."""
        offset, longest = 0, max(size, LONGEST_LINE)
        with self.open() as file, readable(self.path):
            total = file.seek(0, io.SEEK_END)
            position = 0
            while True:
                position = file.seek(min(position + size, total))
                rest = file.readline(longest)
                position += len(rest)
                if position == offset:
                    return
                end = position
                if len(rest) == longest and not rest.endswith(b"\n"):
                    file.seek(offset)
                    end = offset + self._after_last_word(file.read(position - offset), offset)
                yield offset, end - offset
                offset = end

    def plain(self, chunk: bytes, offset: int, lower: bool, tokenizer: Cut = "whitespace") -> bytes:
        """A chunk that begins at `offset`, checked to be text, in lower case and with marks apart on request."""
        if offset == 0:
            check_encoding(chunk, self.name)
            chunk = chunk.removeprefix(BOM)
        if b"\0" in chunk:
            raise DataError(f"{self.name}, byte {offset + chunk.index(0)}: a zero byte, so no text. Give a text file.")
        text = self._in_case(chunk, offset, lower)
        return kernels("spaced_numba").spaced_bytes(text) if tokenizer == "words" else text

    def _in_case(self, chunk: bytes, offset: int, lower: bool) -> bytes:
        """A chunk of UTF-8, in lower case on request."""
        if chunk.isascii():
            return chunk.lower() if lower else chunk
        try:
            text = chunk.decode()
        except UnicodeDecodeError as error:
            raise DataError(
                f"{self.name}, byte {offset + error.start}: 0x{chunk[error.start]:02x} is not UTF-8. "
                "Give a text file, converted to UTF-8 if need be."
            ) from None
        return text.lower().encode() if lower else chunk

    def _after_last_word(self, block: bytes, offset: int) -> int:
        end = 1 + max(block.rfind(white) for white in b" \n\t\r")
        if end == 0:
            raise DataError(
                f"{self.name}, byte {offset}: {len(block)} bytes without white space, so no words. "
                "Give a text with spaces between words."
            )
        return end


class Reader:
    """Random access to texts by number, offset and length. Reading on after the last chunk costs no seek."""

    def __init__(self, texts: tuple[TextSource, ...]) -> None:
        self.texts = texts
        self._open: tuple[int, IO[bytes]] | None = None

    def read(self, number: int, offset: int, length: int) -> bytes:
        """From one of the texts."""
        if self._open is None or self._open[0] != number:
            if self._open:
                self._open[1].close()
            self._open = number, self.texts[number].open()
            weakref.finalize(self, self._open[1].close)
        file = self._open[1]
        with readable(self.texts[number].path):
            if file.tell() != offset:
                file.seek(offset)
            return file.read(length)


MIB = 2**20
BYTES_A_WORD = 6
"""Of English, with the space after it."""
LEAST_CHUNK = 2**12
CHUNKS_IN_MEMORY = 16
"""That would fill the memory. One chunk is trained on and one is read ahead, each as bytes, as text and as tokens."""
FEWEST_CHUNKS = 8
"""Of a text, so that there is progress to see."""
BYTES_A_TOKEN = 4
BYTES_A_TABLE_WORD = 64
"""In the table of counts: hash, slot, number, letters."""
HELD_WORDS = 20_000
"""Held-out words that are read."""


class Chunk(NamedTuple):
    """Position of a chunk: the text's number, first byte, bytes; its first sentence, its words, the words before it.

    Its checksum tells whether the file is still what was counted.
    """

    text: int
    offset: int
    length: int
    sentence: int
    words: int
    previous: int
    crc32: int


@dataclass(frozen=True)
class ReadingOptions:
    """How a text becomes words."""

    lower: bool = True
    least_count: int = 5
    every: int = 100
    """Of so many sentences one is held out for valid and one for test, where texts do not say what to hold out."""
    chunk_words: int = 200_000
    memory: int = 1024
    """MiB."""
    tokenizer: Cut = "whitespace"
    """What is a word: what stands between white space, or words and each punctuation mark for itself."""

    def chunk_bytes(self, size: int) -> int:
        """Of a text of `size` bytes."""
        size = min(self.chunk_words * BYTES_A_WORD, self.memory * MIB // CHUNKS_IN_MEMORY, size // FEWEST_CHUNKS)
        return max(size, min(LEAST_CHUNK, self.chunk_words * BYTES_A_WORD))

    def has_room(self, words: int) -> bool:
        """Whether the tokens of so many words fill at most half of the memory they may take."""
        return 2 * BYTES_A_TOKEN * words <= self.memory * MIB


@dataclass(eq=False)
class StreamedCorpus:
    """Texts of each split, the vocabulary of the training text, and the positions of its chunks.

    >>> text = TextSource("poem", b"so rain, so rain\\n" * 500)
    >>> corpus = StreamedCorpus.counted("poem", {"train": (text,)}, ReadingOptions())
    >>> corpus.vocabulary.words, corpus.words
    (('so', 'rain', 'rain,'), 1960)
    """

    name: str
    texts: Mapping[str, tuple[TextSource, ...]]
    reading: ReadingOptions
    vocabulary: WordCounts
    table: NDArray[np.int64]
    """The chunks of the training text, a row each."""
    fingerprint: str
    pruned: int
    """Words seen so often or less were dropped whenever the table was full while counting; 0 if it never was."""
    kept: Sequence[NDArray[np.int32]] | None = None
    """The tokens of each chunk, from counting; None where there was no room for them, or another process counted."""

    @classmethod
    def counted(cls, name: str, texts: Mapping[str, tuple[TextSource, ...]], reading: ReadingOptions) -> Self:
        """Counts the words of the training texts, and checks the others."""
        counter = Counter(reading, Split.of("train", held_every(texts, reading)))
        for number, text in enumerate(texts["train"]):
            counter.count(number, text)
        for split in ("valid", "test"):
            for text in texts.get(split, ()):
                counter.check(text)
        vocabulary = WordCounts.counted(counter.table, reading.least_count, name)
        table = np.frombuffer(counter.rows, np.int64).reshape(-1, len(Chunk._fields))
        kept = counter.kept and renumbered(counter.kept, counter.table, vocabulary)
        return cls(name, texts, reading, vocabulary, table, counter.digest.hexdigest(), counter.pruned, kept)

    @cached_property
    def word_table(self) -> WordTable:
        return self.vocabulary.word_table()

    @property
    def every(self) -> int:
        return held_every(self.texts, self.reading)

    @property
    def words(self) -> int:
        """Of the training text, known or not."""
        return int(self.table[:, Chunk._fields.index("words")].sum())

    def __len__(self) -> int:
        return len(self.table)

    def chunk(self, number: int) -> Chunk:
        return Chunk(*self.table[number].tolist())

    def tokens(self, chunk: Chunk, reader: Reader) -> TokenizedChunk:
        """A chunk of the training text as ids of known words."""
        text = reader.texts[chunk.text]
        content = reader.read(chunk.text, chunk.offset, chunk.length)
        if zlib.crc32(content) != chunk.crc32:
            raise DataError(
                f"{text.name}, byte {chunk.offset}: the file was changed since its words were counted. Bring it back "
                "as it was and resume, or start a new run."
            )
        content = text.plain(content, chunk.offset, self.reading.lower, self.reading.tokenizer)
        return self.word_table.tokenize(content, chunk.sentence, Split.of("train", self.every))

    def held_out(self, split: str) -> NDArray[np.int32]:
        """The beginning of what is held out for valid or test, (T,): HELD_WORDS words or a little more."""
        return self._held_out(split)[0]

    def unknown_share(self, split: str) -> float:
        """The share of words that have no vector, of all of train and of what is read of valid or test."""
        if split == "train":
            return 1 - sum(self.vocabulary.counts) / max(1, self.words)
        tokens, words = self._held_out(split)
        return 1 - int((tokens != END).sum()) / max(1, words)

    def _held_out(self, split: str) -> tuple[NDArray[np.int32], int]:
        """The known words among those, and how many there are, known or not."""
        own = split in self.texts
        which = Split() if own else Split.of(split, self.every)
        held = [np.empty(0, np.int32)]  # a file of a split may hold no word at all
        words = sentence = 0
        for text in self.texts[split if own else "train"]:
            for offset, content in text.chunks(self.reading.chunk_bytes(text.size)):
                plain = text.plain(content, offset, self.reading.lower, self.reading.tokenizer)
                tokens, seen, sentence = self.word_table.tokenize(plain, sentence, which)
                held.append(tokens)
                words += seen
                if words >= HELD_WORDS:
                    return np.concatenate(held), words
        return np.concatenate(held), words


class Counter:
    """Counts words and records chunks while the training text is read for the first time."""

    def __init__(self, reading: ReadingOptions, split: Split) -> None:
        self.reading, self.split = reading, split
        self.table = WordTable()
        self.rows = array("q")
        self.digest = hashlib.sha256()
        self.pruned = 0
        self.kept: list[NDArray[np.int32]] | None = []
        """Each chunk as numbers of the table, while there is room."""
        self._sentence = self._previous = 0
        self._most = max(2, reading.memory * MIB // BYTES_A_TABLE_WORD)

    def count(self, number: int, text: TextSource) -> None:
        for offset, content, plain in self._chunks(text):
            tokens, words, following = self.table.count(plain, self._sentence, self.split)
            position = Chunk(number, offset, len(content), self._sentence, words, self._previous, zlib.crc32(content))
            self.rows.extend(position)
            self._sentence, self._previous = following, self._previous + words
            while len(self.table) > self._most:
                self.pruned += 1
                self.table = self.table.without_rare(self.pruned)
            if self.pruned or not self.reading.has_room(self._previous):
                self.kept = None
            if self.kept is not None:
                # Of an array with room for a token in every byte.
                self.kept.append(tokens.copy())

    def check(self, text: TextSource) -> None:
        """Only for the fingerprint, and for errors in it."""
        for _ in self._chunks(text):
            pass

    def _chunks(self, text: TextSource) -> Iterator[tuple[int, bytes, bytes]]:
        """Offset and content of each chunk in the file, and its plain text, which goes into the fingerprint."""
        for offset, content in text.chunks(self.reading.chunk_bytes(text.size)):
            plain = text.plain(content, offset, self.reading.lower, self.reading.tokenizer)
            self.digest.update(plain)
            yield offset, content, plain
        # One text must not run into the next.
        self.digest.update(b"\0")


def renumbered(chunks: list[NDArray[np.int32]], table: WordTable, vocabulary: WordCounts) -> list[NDArray[np.int32]]:
    """Chunks of a table's numbers as ids of the vocabulary, without the words that have none."""
    unknown = END - 1
    ids = np.array([vocabulary.index.get(word.decode(), unknown) for word in table.words()], np.int32)
    for number, tokens in enumerate(chunks):
        found = np.where(tokens == END, np.int32(END), ids[tokens])
        # One after another in the same list, so that hardly more than once all of them is in memory.
        chunks[number] = found[found != unknown]
    return chunks


def held_every(texts: Mapping[str, tuple[TextSource, ...]], reading: ReadingOptions) -> int:
    return 0 if "valid" in texts else reading.every
