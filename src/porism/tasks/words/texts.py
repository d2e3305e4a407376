"""Text that is read piece by piece: a file, plain or compressed, or what the program carries itself.

>>> text = Text("poem", content=b"one two\\nthree\\n")
>>> list(text.pieces(size=4))
[(0, b'one two\\n'), (8, b'three\\n')]
"""

import io
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from porism.errors import DataError
from porism.tasks.download import COMPRESSED, check_unpacked, open_content, readable
from porism.tasks.text_files import check_encoding

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
