"""Vectors in the files of word2vec, which gensim and most other programs read and write too.

>>> save(Path("vectors.bin"), ["the", "of"], torch.randn(2, 100))
>>> words, vectors = load(Path("vectors.bin"))

A line says how many words there are and how wide they are. In text (`.txt`, `.vec`) a line a word follows: the word and
its numbers, a space between. In binary (`.bin`) the word, a space, and the numbers as float32, low bytes first. Both
may end in `.gz`. Numbers survive either way to the last bit.
"""

import gzip
import os
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from io import BufferedIOBase
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from porism.errors import DataError, ShapeError, shown

TEXT, BINARY = (".txt", ".vec"), (".bin",)
LONGEST_LINE = 2**24
READ_AT_ONCE = 2**22
MOST_DEFLATED = 1032
"""No gzip file holds more than this many times its own size."""

Record = tuple[str, bytes, NDArray[np.float32] | list[float]]
"""The position of a word in the file, its bytes and its numbers."""


def save(path: Path, words: Sequence[str], vectors: Tensor | NDArray[np.float32]) -> None:
    """Write words and their vectors (V, D) in the format of the file's suffix.

    The file is written under a temporary name and renamed, so that it is complete or unchanged.
    """
    kind = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
    if kind not in (*TEXT, *BINARY):
        raise DataError(
            f"{path}: no format of word2vec ends in {kind or path.name!r}. "
            f"Name it {' or '.join(TEXT)} for text, {BINARY[0]} for binary, followed by .gz to compress."
        )
    rows = torch.as_tensor(vectors).detach().to("cpu", torch.float32).contiguous()
    _check(path, words, rows)
    lines = (_text_lines if kind in TEXT else _binary_lines)(words, rows.numpy())
    writing = path.with_name(f".{path.name}.writing")
    try:
        with writing.open("wb") as file:
            with _packed(file, path.suffix) as out:
                out.write(b"%d %d\n" % tuple(rows.shape))
                out.writelines(lines)
            file.flush()
            os.fsync(file.fileno())
        writing.replace(path)
    except OSError as error:
        raise DataError(
            f"{path}: cannot be written ({error.strerror or error}). Choose another folder, or make room."
        ) from None
    finally:
        writing.unlink(missing_ok=True)


def load(path: Path) -> tuple[list[str], Tensor]:
    """Words and their vectors (V, D) from text or binary, whichever the file holds."""
    with _opened(path) as file:
        V, D = _header(path, file)
        start = file.readline(LONGEST_LINE)
        is_text = _ends_in_a_number(start)
        # The shortest word has one byte, the shortest number of a text one and a space.
        shortest = 2 * D + 1 if is_text else 4 * D + 2
        room = path.stat().st_size * (MOST_DEFLATED if path.suffix == ".gz" else 1)
        if room < shortest:
            raise DataError(
                f"{path}: {room:,} bytes at most, and a word of width {D} takes {shortest:,}. Its first line promises "
                f"{V} words of that width: copy the file again, or mend the line."
            )
        # A header that promises too much must not allocate the memory for it.
        vectors = np.empty((min(V, room // shortest), D), dtype=np.float32)
        positions: dict[str, str] = {}
        # A number that float32 cannot hold becomes infinite, and is reported as such.
        with np.errstate(over="ignore"):
            for position, spelling, numbers in (_read_text if is_text else _read_binary)(path, file, start, V, D):
                word = _decoded(path, spelling, position)
                if word in positions:
                    raise DataError(
                        f"{path}, {position}: {shown(word)} is already at {positions[word]}. Leave one of them."
                    )
                vectors[len(positions)] = numbers
                if not np.isfinite(vectors[len(positions)]).all():
                    raise DataError(
                        f"{path}, {position}: {shown(word)} has a number that is not finite. Leave the word out."
                    )
                positions[word] = position
    return list(positions), torch.from_numpy(vectors)


def _text_lines(words: Sequence[str], rows: NDArray[np.float32]) -> Iterator[bytes]:
    # Nine digits distinguish any two numbers of float32.
    form = "%s " + " ".join(["%.9g"] * rows.shape[1]) + "\n"
    for word, row in zip(words, rows, strict=True):
        yield (form % (word, *row.tolist())).encode()


def _binary_lines(words: Sequence[str], rows: NDArray[np.float32]) -> Iterator[bytes]:
    for word, row in zip(words, rows.astype("<f4", copy=False), strict=True):
        yield b"%s %s\n" % (word.encode(), row.tobytes())


def _check(path: Path, words: Sequence[str], vectors: Tensor) -> None:
    if vectors.dim() != 2 or len(vectors) != len(words) or vectors.numel() == 0:
        raise ShapeError(
            f"word2vec: vectors are {tuple(vectors.shape)} for {len(words)} words, expected ({len(words)}, D), "
            "at least one word and one number. Give a vector for each word."
        )
    for number, word in enumerate(words, 1):
        if not word or " " in word or "\n" in word:
            raise DataError(
                f"{path}: word {number}, {shown(word)}, is empty or has a space or an end of line in it, which end a "
                "word in these files. Join its parts, for instance by _."
            )
    word, times = Counter(words).most_common(1)[0]
    if times > 1:
        raise DataError(f"{path}: {shown(word)} is there {times} times. Leave one of them.")
    bad = (~vectors.isfinite().all(1)).nonzero()
    if len(bad):
        raise DataError(f"{path}: {shown(words[int(bad[0])])} has a number that is not finite. Leave the word out.")


def _packed(file: BufferedIOBase, suffix: str) -> AbstractContextManager[BufferedIOBase]:
    """The stream to write to. Without a date, a compressed file has the same bytes for the same vectors."""
    return gzip.GzipFile("", "wb", fileobj=file, mtime=0) if suffix == ".gz" else nullcontext(file)


@contextmanager
def _opened(path: Path) -> Iterator[BufferedIOBase]:
    """The file's content; errors while reading it are reported in one line."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            yield file
    except FileNotFoundError:
        raise DataError(f"{path}: no such file. Check the path.") from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{path}: not a whole .gz file ({error}). Copy or compress it again.") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error}). Check its permissions.") from None


def _header(path: Path, file: BufferedIOBase) -> tuple[int, int]:
    line = file.readline(LONGEST_LINE)
    try:
        V, D = (int(part) for part in line.split())
    except ValueError:
        V = D = 0
    if V < 1 or D < 1:
        shown = repr(line[:40].decode(errors="replace").strip())
        raise DataError(
            f"{path}, line 1: {shown}, expected two whole numbers from 1 on, how many words there are and how wide. "
            "Give a file of word2vec, text or binary."
        )
    return V, D


def _is_number(text: bytes) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _ends_in_a_number(line: bytes) -> bool:
    """Whether a line is one of text. The odds that binary numbers spell a decimal before an end of line are nil."""
    return _is_number(line.rpartition(b" ")[2])


def _read_text(path: Path, file: BufferedIOBase, line: bytes, V: int, D: int) -> Iterator[Record]:
    """The records of a text whose second line was read already."""
    for number in range(2, V + 2):
        if not line:
            raise DataError(f"{path}: ends after {number - 2} words, line 1 promises {V}. Copy it again.")
        line = line.rstrip()
        # From the end, since others write words with spaces in them; one that ends in a number is a number too many.
        word, *texts = line.rsplit(b" ", D)
        if len(texts) < D or (b" " in word and _ends_in_a_number(word)):
            raise DataError(
                f"{path}, line {number}: {line.count(b' ')} numbers, expected a word and {D}. Mend the line."
            )
        try:
            numbers = [float(text) for text in texts]
        except ValueError:
            bad = next(text for text in texts if not _is_number(text)).decode(errors="replace")
            raise DataError(
                f"{path}, line {number}: {shown(bad)} is not a number. Expected a word and {D} numbers."
            ) from None
        yield f"line {number}", word, numbers
        line = file.readline(LONGEST_LINE)
    if line.strip() or file.read(READ_AT_ONCE).strip():
        raise DataError(f"{path}, line {V + 2}: goes on, line 1 promises {V} words. Mend line 1.")


def _read_binary(path: Path, file: BufferedIOBase, data: bytes, V: int, D: int) -> Iterator[Record]:
    """The records of a binary file of which some data was read already."""
    here, offset = 0, file.tell() - len(data)  # in the data, and that of the data in the file
    for number in range(1, V + 1):
        # A word may begin before the end of what was read, and its numbers end after it.
        while (space := data.find(b" ", here)) < 0 or len(data) < space + 1 + 4 * D:
            more = file.read(max(READ_AT_ONCE, 8 * D))
            if not more:
                raise DataError(
                    f"{path}, byte {offset + len(data)}: ends within word {number} of {V}, each with {D} numbers of "
                    "4 bytes; read as binary, since line 2 does not end in a number. Copy it again."
                )
            data, offset, here = data[here:] + more, offset + here, 0
        # word2vec ends a vector by an end of line, gensim does not.
        yield f"byte {offset + here}", data[here:space].lstrip(b"\n"), np.frombuffer(data, "<f4", D, space + 1)
        here = space + 1 + 4 * D
    if data[here:].strip() or file.read(READ_AT_ONCE).strip():
        raise DataError(f"{path}, byte {offset + here}: goes on, line 1 promises {V} words. Mend line 1.")


def _decoded(path: Path, spelling: bytes, position: str) -> str:
    if not spelling:
        raise DataError(f"{path}, {position}: numbers without a word before them. Mend the file, or copy it again.")
    try:
        return spelling.decode()
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}, {position}: byte 0x{spelling[error.start]:02x} of a word is not UTF-8. "
            "Save it in UTF-8 where it was made."
        ) from None
