"""An array that stays in its file: parts of it are mapped when they are needed."""

import weakref
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Self

import numpy as np
from numpy.typing import NDArray

from porism.errors import DataError
from porism.tasks.blocks.arrays import StoredArray


@dataclass(frozen=True, eq=False)
class MappedArray:
    """An array of an .npz that is not compressed."""

    path: Path
    stored: StoredArray
    file: IO[bytes]
    """Open, so that it stays what it was if somebody deletes it."""

    @classmethod
    def of(cls, path: Path, stored: StoredArray) -> Self:
        file = path.open("rb")
        found = cls(path, stored, file)
        weakref.finalize(found, file.close)
        return found

    def map(self) -> NDArray[Any]:
        """The array. Mapped anew each time: what was read of it leaves memory with the map."""
        try:
            return np.memmap(self.file, self.stored.dtype, "r", offset=self.stored.offset, shape=self.stored.shape)
        except (OSError, ValueError) as error:
            raise DataError(f"{self.path} can no longer be read ({error}). Restore it.") from error

    def checked(self, blocks: Iterable[NDArray[Any]], what: str) -> Iterator[NDArray[Any]]:
        """Blocks that are the whole array one after another; after the last, refuse them if their checksum is another.

        what: the array in a message.
        """
        checksum = self.stored.header_crc
        for block in blocks:
            checksum = zlib.crc32(block.tobytes(), checksum)
            yield block
        if checksum != self.stored.crc:
            raise DataError(f"{self.path}: its {what} are damaged (their checksum is another). Write the file anew.")
