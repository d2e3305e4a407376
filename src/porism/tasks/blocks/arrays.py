"""Arrays in `.npz` files, each checked before memory is taken for it.

>>> with open_npz(Path("graph.npz")) as file:             # doctest: +SKIP
...     file.names, file.read("labels")
(['edge_index', 'labels'], array([0, 1, 1]))

An .npz is a zip archive with an .npy file for each array: a short header of text, then the elements. Only arrays of
numbers and of text are read. The header is matched, never evaluated, and must agree with the size of the file.
"""

import io
import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from porism.errors import DataError, one_line
from porism.tasks.blocks.download import COMPRESSED, read_content, readable
from porism.tasks.blocks.memory import check_fits

MAGIC = b"\x93NUMPY"
LONGEST_HEADER = 10_000
BLOCK = 2**24
DESCRIPTION = re.compile(r"""["']descr["']\s*:\s*["']([<>|=]?)([biufUS])(\d{1,9})["']""")
"""Byte order, kind and bytes (of text: letters) of an element. Anything else is no plain number or text."""
ORDER = re.compile(r"""["']fortran_order["']\s*:\s*(True|False)""")
SHAPE = re.compile(r"""["']shape["']\s*:\s*\(([\d\s,L]*)\)""")


class StoredArray(NamedTuple):
    """An array that lies in a file as it is, row by row: what its elements are, and where."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    offset: int
    header_crc: int
    """The CRC-32 of what stands before the elements, and of all."""
    crc: int


class Npz:
    """An open .npz file."""

    def __init__(self, path: Path, archive: zipfile.ZipFile) -> None:
        self.path = path
        self._archive = archive
        self._members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        if len(self._members) < len(archive.infolist()):
            raise ValueError("two arrays of one name")

    @property
    def names(self) -> list[str]:
        return list(self._members)

    def read(self, name: str) -> NDArray[Any]:
        """One array, in the byte order of this machine."""
        with _whole(self.path), self._archive.open(self._members[name]) as member:
            dtype, columns_first, shape, header = _parse_header(name, member)
            size, stored = prod(shape) * dtype.itemsize, self._members[name].file_size - header
            if size != stored:
                raise ValueError(f"{name} is {shape} of {dtype}, {size} bytes, and {stored} are there")
            check_fits(self.path, size, name)
            flat = np.empty(prod(shape), dtype)
            _fill(flat.view(np.uint8), member, name)
            found = flat.reshape(shape, order="F" if columns_first else "C")
            return found.astype(dtype.newbyteorder("="), order="C", copy=False)

    def size(self, name: str) -> int:
        """Elements of an array, read from its header."""
        with _whole(self.path), self._archive.open(self._members[name]) as member:
            return prod(_parse_header(name, member)[2])

    def stored(self, name: str) -> StoredArray | None:
        """Where an array lies; None where it is compressed, or has its columns first, and must be read."""
        info = self._members[name]
        if info.compress_type != zipfile.ZIP_STORED or self.path.suffix in COMPRESSED:
            return None
        with _whole(self.path), self._archive.open(info) as member:
            dtype, columns_first, shape, header = _parse_header(name, member)
            if prod(shape) * dtype.itemsize != info.file_size - header:
                raise ValueError(f"{name} is {shape} of {dtype}, and {info.file_size - header} bytes are there")
            if columns_first and len(shape) > 1:
                return None
        with _whole(self.path), self.path.open("rb") as file:
            # The archive's own header before the array: 30 bytes, then a name and more of lengths that it says.
            file.seek(info.header_offset + 26)
            lengths = file.read(4)
            start = (
                info.header_offset + 30 + int.from_bytes(lengths[:2], "little") + int.from_bytes(lengths[2:], "little")
            )
            file.seek(start)
            return StoredArray(dtype, shape, start + header, zlib.crc32(file.read(header)), info.CRC)


@contextmanager
def open_npz(path: Path) -> Iterator[Npz]:
    """The file, whose arrays can be read by name."""
    with readable(path):
        content = io.BytesIO(read_content(path)) if path.suffix in COMPRESSED else path.open("rb")
    with content:
        with _whole(path):
            if content.read(len(MAGIC)) == MAGIC:
                raise ValueError("a single array, an .npy file")
            file = Npz(path, zipfile.ZipFile(content))
        yield file


@contextmanager
def _whole(path: Path) -> Iterator[None]:
    """Damaged bytes can fail anywhere: in the archive's tables, in a decompressor, in a header."""
    try:
        yield
    except DataError:
        raise
    except Exception as error:
        raise DataError(
            f"{path}: not a whole .npz of plain arrays ({one_line(error)}). Write it with numpy.savez."
        ) from None


def _parse_header(name: str, member: IO[bytes]) -> tuple[np.dtype[Any], bool, tuple[int, ...], int]:
    """Type, whether columns come first, shape, and the bytes up to the first element."""
    start = member.read(8)
    if not start.startswith(MAGIC) or len(start) < 8 or start[6] not in (1, 2, 3):
        raise ValueError(f"{name} is no array")
    width = 2 if start[6] == 1 else 4
    length = int.from_bytes(member.read(width), "little")
    if length > LONGEST_HEADER:
        raise ValueError(f"the header of {name} has {length} bytes")
    header = member.read(length).decode("latin1")
    description, order, shape = (pattern.findall(header) for pattern in (DESCRIPTION, ORDER, SHAPE))
    if not len(description) == len(order) == len(shape) == 1:
        raise ValueError(f"{name} holds something else than numbers or text")
    dtype = np.dtype("".join(description[0]))
    if not dtype.itemsize or (dtype.kind in "iuf" and dtype.itemsize > 8):
        raise ValueError(f"{name} has elements of type {dtype}")
    sizes = tuple(int(size.strip().rstrip("L")) for size in shape[0].split(",") if size.strip())
    return dtype, order[0] == "True", sizes, 8 + width + length


def _fill(target: NDArray[np.uint8], member: IO[bytes], name: str) -> None:
    position = 0
    while position < len(target):
        block = member.read(min(BLOCK, len(target) - position))
        if not block:
            raise ValueError(f"{name} was cut off")
        target[position : position + len(block)] = np.frombuffer(block, np.uint8)
        position += len(block)
