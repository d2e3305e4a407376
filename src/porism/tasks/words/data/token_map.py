"""The training text as word ids in a file of the cache folder, of which a chunk at a time is mapped into memory.

For a text whose ids do not fit in memory: it is tokenized once, and no pass through it reads the text again. The file
belongs to one text, vocabulary and way of reading; runs and processes that share these share it. It may be deleted when
nobody trains on it, and is written anew when it is needed or damaged. Once a file is written, those that were used
longest ago are deleted until all together take at most MOST_BYTES.
"""

import errno
import hashlib
import json
import os
import shutil
import weakref
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from porism.errors import DataError, advise, fields
from porism.files import FULL, cache_folder, own_temporary, sha256_of_file, sync_folder, write_synced
from porism.tasks.words.data.corpus import Reader, StreamedCorpus

TOKENS, INDEX = "tokens.i32", "index.json"
TOKEN = np.dtype("<i4")
MOST_BYTES = 32 * 2**30
"""Of all files together; the newest is kept whatever its size."""


class Index(msgspec.Struct, forbid_unknown_fields=True):
    """What index.json says: how many tokens each chunk has, and the checksum of all of them."""

    lengths: list[int]
    sha256: str


@dataclass(frozen=True, eq=False)
class TokenMap:
    """The chunks of a corpus as word ids, with END between sentences, in a file."""

    folder: Path
    starts: NDArray[np.int64]
    """The first token of each chunk, and after them the number of all."""
    file: IO[bytes]
    """Open, so that it stays what it was if somebody deletes it."""

    @classmethod
    def of(cls, corpus: StreamedCorpus) -> Self:
        """The map of a corpus, from the cache folder or written there now."""
        folder = cache_folder() / "words" / _key(corpus)
        found = cls._opened(folder, len(corpus))
        if found is None:
            _write(folder, corpus)
            found = cls._opened(folder, len(corpus))
            delete_oldest(folder.parent, MOST_BYTES)
        if found is None:
            raise DataError(f"{folder} changes while it is written. Let no other program write there, and try again.")
        return found

    @classmethod
    def _opened(cls, folder: Path, chunks: int) -> Self | None:
        """None where there is none, or a damaged one."""
        try:
            index = msgspec.json.decode((folder / INDEX).read_bytes(), type=Index)
            if len(index.lengths) != chunks or sha256_of_file(folder / TOKENS) != index.sha256:
                return None
            file = (folder / TOKENS).open("rb")
            with suppress(PermissionError):  # of another user's, which only she may delete
                os.utime(folder / INDEX)  # used now
        except (FileNotFoundError, NotADirectoryError, msgspec.DecodeError):
            return None
        except OSError as error:
            raise DataError(f"{folder} cannot be read: {error.strerror}. Delete it, and it is written anew.") from error
        found = cls(folder, np.cumsum([0, *index.lengths], dtype=np.int64), file)
        weakref.finalize(found, file.close)
        return found

    def chunk(self, number: int) -> NDArray[np.int32]:
        """The tokens of a chunk, (T,), in memory for as long as they are used."""
        start, end = self.starts[number : number + 2].tolist()
        if start == end:
            return np.empty(0, np.int32)
        # Copied where it is written to: torch takes no array that cannot be.
        return np.memmap(self.file, TOKEN, "c", offset=TOKEN.itemsize * start, shape=(end - start,))


def _key(corpus: StreamedCorpus) -> str:
    """What decides the tokens: the text, the words that have an id, the chunks and what is held out."""
    known = corpus.fingerprint, corpus.vocabulary.sha256(), corpus.every, corpus.table.tobytes().hex()
    return hashlib.sha256(json.dumps(known).encode()).hexdigest()


def _write(folder: Path, corpus: StreamedCorpus) -> None:
    """Write the tokens aside and rename their folder, so that it is there whole or not at all."""
    writing, size = own_temporary(folder), TOKEN.itemsize * corpus.words
    try:
        shutil.rmtree(writing, ignore_errors=True)
        writing.mkdir(parents=True)
        if (free := shutil.disk_usage(writing).free) < size:
            raise DataError(_no_room(folder, size, free), _ELSEWHERE)
        digest, lengths = hashlib.sha256(), []
        with (writing / TOKENS).open("wb") as file:
            for tokens in _chunks(corpus):
                content = tokens.astype(TOKEN, copy=False).tobytes()
                file.write(content)
                digest.update(content)
                lengths.append(len(tokens))
            file.flush()
            os.fsync(file.fileno())
        write_synced(writing / INDEX, msgspec.json.encode(Index(lengths, digest.hexdigest())))
        _replace(folder, writing)
        sync_folder(folder.parent)
    except OSError as error:
        if error.errno in FULL:
            raise DataError(_no_room(folder, size, shutil.disk_usage(folder.parent).free), _ELSEWHERE) from error
        raise DataError(f"{folder} cannot be written: {error.strerror}.", _ELSEWHERE) from error
    finally:
        shutil.rmtree(writing, ignore_errors=True)


def delete_oldest(folder: Path, most: int) -> list[Path]:
    """Delete maps, from the one on that was used longest ago, until the others take so many bytes; those deleted.

    A process that has opened one keeps what it has opened.
    """
    used = sorted(_maps(folder), key=lambda found: found[1], reverse=True)
    sizes = np.cumsum([size for *_, size in used])
    deleted = [path for (path, *_), size in zip(used[1:], sizes[1:], strict=True) if size > most]
    for path in deleted:
        # First what says that it is whole. What another user owns stays.
        with suppress(OSError):
            (path / INDEX).unlink()
        shutil.rmtree(path, ignore_errors=True)
    return deleted


def _maps(folder: Path) -> Iterator[tuple[Path, float, int]]:
    """Each map of a folder, when it was used last, and its bytes."""
    for path in folder.iterdir():
        with suppress(OSError):  # no map, or deleted by another process at this moment
            yield path, (path / INDEX).stat().st_mtime, (path / TOKENS).stat().st_size


_ELSEWHERE = advise(
    "Name another folder in the variable PORISM_DATA, or let the text stay in memory, for instance with {}.",
    fields(max_memory_mib=16384),
)


def _no_room(folder: Path, size: int, free: int) -> str:
    return f"the disk is full: {folder}, with the text as numbers, needs about {size:,} bytes, {free:,} are free."


def _replace(folder: Path, by: Path) -> None:
    """Put a folder in the place of a damaged one, unless another process was first: what it wrote is the same."""
    with suppress(FileNotFoundError):
        shutil.rmtree(folder)
    try:
        by.rename(folder)
    except OSError as error:
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
            raise


def _chunks(corpus: StreamedCorpus) -> Iterator[NDArray[np.int32]]:
    reader = Reader(corpus.texts["train"])
    return (corpus.tokens(corpus.chunk(number), reader).tokens for number in range(len(corpus)))
