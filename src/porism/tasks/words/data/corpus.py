"""Text that is read piece by piece: a file, plain or compressed, or what the program carries itself.

>>> text = Text("poem", content=b"one two\\nthree\\n")
>>> list(text.pieces(size=4))
[(0, b'one two\\n'), (8, b'three\\n')]
"""

import hashlib
import io
import weakref
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from porism.errors import DataError
from porism.tasks.blocks.download import COMPRESSED, check_unpacked, open_content, readable
from porism.tasks.blocks.texts import check_encoding
from porism.tasks.words.data.vocabulary import Numbered, Numbering, Split, Vocabulary

BOM = b"\xef\xbb\xbf"
LONGEST_LINE = 2**14
"""Bytes of a line, or of a word, that are read to its end however small a piece should be."""
EXPANDED = 4
"""Bytes of text in a byte of a compressed file, about."""


@dataclass(frozen=True)
class Text:
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

    def pieces(self, size: int) -> Iterator[tuple[int, bytes]]:
        """All of it in order: where a piece begins, and the piece.

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

    def plain(self, piece: bytes, offset: int, lower: bool) -> bytes:
        """A piece that began at `offset`, checked to be text, in lower case if asked."""
        if offset == 0:
            check_encoding(piece, self.name)
            piece = piece.removeprefix(BOM)
        if b"\0" in piece:
            raise DataError(f"{self.name}, byte {offset + piece.index(0)}: a zero, so no text. Give a text file.")
        if piece.isascii():
            return piece.lower() if lower else piece
        try:
            text = piece.decode()
        except UnicodeDecodeError as error:
            raise DataError(
                f"{self.name}, byte {offset + error.start}: 0x{piece[error.start]:02x} is not UTF-8. "
                "Give a text file, converted to UTF-8 if need be."
            ) from None
        return text.lower().encode() if lower else piece

    def _after_last_word(self, block: bytes, offset: int) -> int:
        end = 1 + max(block.rfind(white) for white in b" \n\t\r")
        if end == 0:
            raise DataError(
                f"{self.name}, byte {offset}: {len(block)} bytes without white space, so no words. "
                "Give a text with spaces between words."
            )
        return end


class Reader:
    """Pieces of texts by their places. The one after the last costs no more than reading on."""

    def __init__(self, texts: tuple[Text, ...]) -> None:
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
"""Of English with the space behind it."""
LEAST_PIECE = 2**12
PIECES = 16
"""That would fill the memory. One piece is at work and one is read ahead, each as bytes, as text and as numbers."""
FEWEST_PIECES = 8
"""Of a text, so that there is progress to see."""
BYTES_A_TABLE_WORD = 64
"""In the table that counts: hash, place, number, letters."""
HELD_WORDS = 20_000
"""As many as are read of what is held out."""


class Piece(NamedTuple):
    """Where a piece lies: the text's number, first byte, bytes; its first sentence, its words, the words before it."""

    text: int
    offset: int
    length: int
    sentence: int
    words: int
    before: int


@dataclass(frozen=True)
class Reading:
    """How a text becomes words."""

    lower: bool = True
    least_count: int = 5
    every: int = 100
    """Of so many sentences one is held out for valid and one for test, where texts do not say what to hold out."""
    piece_words: int = 200_000
    memory: int = 1024
    """MiB."""

    def piece_bytes(self, size: int) -> int:
        """Of a text of `size` bytes."""
        wanted = min(self.piece_words * BYTES_A_WORD, self.memory * MIB // PIECES, size // FEWEST_PIECES)
        return max(wanted, min(LEAST_PIECE, self.piece_words * BYTES_A_WORD))


@dataclass(eq=False)
class Corpus:
    """Texts of each split, the vocabulary of the training text, and where its pieces lie.

    >>> corpus = Corpus.counted("poem", {"train": (Text("poem", b"so rain, so rain\\n" * 500),)}, Reading())
    >>> corpus.vocabulary.words, corpus.words
    (('so', 'rain', 'rain,'), 1960)
    """

    name: str
    texts: Mapping[str, tuple[Text, ...]]
    reading: Reading
    vocabulary: Vocabulary
    table: NDArray[np.int64]
    """The pieces of the training text, a row each."""
    fingerprint: str
    forgotten: int
    """Words seen so often or less were dropped whenever the table was full while counting; 0 if it never was."""

    @classmethod
    def counted(cls, name: str, texts: Mapping[str, tuple[Text, ...]], reading: Reading) -> Self:
        """Once through all texts, whose words count if they are for training."""
        counter = _Counter(reading, Split.of("train", _every(texts, reading)))
        for number, text in enumerate(texts["train"]):
            counter.count(number, text)
        for split in ("valid", "test"):
            for text in texts.get(split, ()):
                counter.look_at(text)
        vocabulary = Vocabulary.counted(counter.numbering, reading.least_count, name)
        table = np.frombuffer(counter.rows, np.int64).reshape(-1, len(Piece._fields))
        return cls(name, texts, reading, vocabulary, table, counter.digest.hexdigest(), counter.forgotten)

    @cached_property
    def numbering(self) -> Numbering:
        return self.vocabulary.numbering()

    @property
    def every(self) -> int:
        return _every(self.texts, self.reading)

    @property
    def words(self) -> int:
        """Of the training text, known or not."""
        return int(self.table[:, Piece._fields.index("words")].sum())

    def __len__(self) -> int:
        return len(self.table)

    def piece(self, number: int) -> Piece:
        return Piece(*self.table[number].tolist())

    def numbered(self, piece: Piece, reader: Reader) -> Numbered:
        """A piece of the training text as numbers of known words."""
        text = reader.texts[piece.text]
        content = text.plain(reader.read(piece.text, piece.offset, piece.length), piece.offset, self.reading.lower)
        return self.numbering.numbers(content, piece.sentence, Split.of("train", self.every))

    def held_out(self, split: str) -> NDArray[np.int32]:
        """The beginning of what is held out for valid or test, (T,): HELD_WORDS words or a little more."""
        own = split in self.texts
        which = Split() if own else Split.of(split, self.every)
        found: list[NDArray[np.int32]] = []
        words = sentence = 0
        for text in self.texts[split if own else "train"]:
            for offset, content in text.pieces(self.reading.piece_bytes(text.size)):
                plain = text.plain(content, offset, self.reading.lower)
                tokens, seen, sentence = self.numbering.numbers(plain, sentence, which)
                found.append(tokens)
                words += seen
                if words >= HELD_WORDS:
                    return np.concatenate(found)
        return np.concatenate(found)


class _Counter:
    """What is known of a training text while it is read for the first time."""

    def __init__(self, reading: Reading, split: Split) -> None:
        self.reading, self.split = reading, split
        self.numbering = Numbering()
        self.rows = array("q")
        self.digest = hashlib.sha256()
        self.forgotten = 0
        self._sentence = self._before = 0
        self._most = max(2, reading.memory * MIB // BYTES_A_TABLE_WORD)

    def count(self, number: int, text: Text) -> None:
        for offset, length, plain in self._pieces(text):
            _, words, following = self.numbering.learn(plain, self._sentence, self.split)
            self.rows.extend(Piece(number, offset, length, self._sentence, words, self._before))
            self._sentence, self._before = following, self._before + words
            while len(self.numbering) > self._most:
                self.forgotten += 1
                self.numbering = self.numbering.without_rare(self.forgotten)

    def look_at(self, text: Text) -> None:
        """Only for the fingerprint, and for what may be wrong with it."""
        for _ in self._pieces(text):
            pass

    def _pieces(self, text: Text) -> Iterator[tuple[int, int, bytes]]:
        """Where each piece begins, its bytes in the file, and its plain text, which goes into the fingerprint."""
        for offset, content in text.pieces(self.reading.piece_bytes(text.size)):
            plain = text.plain(content, offset, self.reading.lower)
            self.digest.update(plain)
            yield offset, len(content), plain
        # One text must not run into the next.
        self.digest.update(b"\0")


def _every(texts: Mapping[str, tuple[Text, ...]], reading: Reading) -> int:
    return 0 if "valid" in texts else reading.every
