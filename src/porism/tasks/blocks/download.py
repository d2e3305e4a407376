"""Public files: fetched once, checked by their sha256 (or md5, where only that is published), kept in one folder.

>>> ptb = PublicFile("ptb/ptb.test.txt", "https://.../ptb.test.txt", sha256="dd65dff3...")
>>> fetch(ptb)                                     # doctest: +SKIP
PosixPath('.../.cache/porism/ptb/ptb.test.txt')

The folder is `$PORISM_DATA`, or `$XDG_CACHE_HOME/porism`, or `~/.cache/porism`. A file put there by hand is as good as
a fetched one, and may be kept as `.gz` or `.xz`: the sha256 is that of the content. An address that ends so gives a
file that is kept so.
"""

import gzip
import hashlib
import http.client
import io
import lzma
import os
import shutil
import sys
import tempfile
import urllib.error
import urllib.request
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, cast

from rich.console import Console
from rich.progress import wrap_file

from porism.errors import DataError
from porism.files import cache_folder, cached, refuse_stream
from porism.tasks.blocks.memory import check_fits

COMPRESSED = (".gz", ".xz")
TIMEOUT_SECONDS = 30
BLOCK = 2**24
MOST_PADDING = 2**20
"""Zero bytes after the end of a .gz: tapes and block devices fill up to a block."""
MOST_EXPANSION, LEAST_BOMB = 100, 2**26
"""A file that unpacks to more than so many times its bytes, and to more than 64 MiB, was made to fill a memory. Text is
packed into a tenth of its bytes, logs into a fiftieth."""


@dataclass(frozen=True)
class PublicFile:
    """Where a file belongs under the data folder, where the world keeps it, and how to know the right one."""

    path: str
    url: str
    sha256: str = ""
    md5: str = ""

    @property
    def digest(self) -> str:
        """
        >>> PublicFile("a.npz", "https://.../a.npz", md5="c68d92d5...").digest
        'md5 c68d92d5...'
        """
        return f"sha256 {self.sha256}" if self.sha256 else f"md5 {self.md5}"

    def digest_of(self, content: bytes) -> str:
        """The same of some content, which is right where the two agree."""
        kind = "sha256" if self.sha256 else "md5"
        return f"{kind} {hashlib.new(kind, content, usedforsecurity=False).hexdigest()}"


@dataclass(frozen=True)
class DataSet:
    """Data known by name: what it is, on what terms, and its files, by split or by part. Embedded data has none."""

    about: str
    licence: str
    files: Mapping[str, PublicFile] = field(default_factory=dict)

    def folder(self) -> Path:
        """Where its files belong."""
        return data_folder() / Path(next(iter(self.files.values())).path).parent if self.files else data_folder()

    def here(self) -> bool:
        """Whether all of it is on this machine."""
        return all(_kept(data_folder() / file.path) or _kept_of_old(file.path) for file in self.files.values())


def data_folder() -> Path:
    """Where public data is kept: `$PORISM_DATA`, or `$XDG_CACHE_HOME/porism`, or `~/.cache/porism`."""
    return cache_folder()


def fetch(file: PublicFile, folder: Path | None = None) -> Path:
    """The file on this machine, fetched if it is not there yet. What comes back has the right digest."""
    folder = folder or data_folder()
    path = folder / file.path
    kept = _kept(path) or (_kept_of_old(file.path) if folder == data_folder() else None)
    return _checked(kept, file) if kept else _download(file, path)


def read_content(path: Path, suffix: str | None = None) -> bytes:
    """All bytes of a file, decompressed where its name (or `suffix`, for a file by another name) ends in .gz or .xz."""
    with readable(path), open_content(path, suffix) as file:
        content = io.BytesIO()
        while block := file.read(BLOCK):
            size = content.tell() + len(block)
            check_unpacked(path, size)
            check_fits(path, size, "its content", taken=content.tell())
            content.write(block)
        return content.getvalue()


def check_unpacked(path: Path, size: int) -> None:
    """Refuses a compressed file once `size` bytes came out of it that no data packs into so few."""
    stored = path.stat().st_size if path.suffix in COMPRESSED else 0
    if stored and size > max(LEAST_BOMB, MOST_EXPANSION * stored):
        raise DataError(
            f"{path}: {stored:,} bytes that unpack to more than {MOST_EXPANSION} times as many, which no data does. "
            "If it is meant so, unpack it first and give the plain file."
        )


def open_content(path: Path, suffix: str | None = None) -> IO[bytes]:
    """The same, to be read piece by piece, each under `readable`. In a compressed file only reading on is fast."""
    with readable(path):
        match path.suffix if suffix is None else suffix:
            case ".gz":
                return cast(IO[bytes], _GzipFile(path))
            case ".xz":
                return cast(IO[bytes], lzma.open(path))
            case _:
                return path.open("rb")


class _GzipFile(gzip.GzipFile):
    """A compressed file, refused where too many zero bytes follow its end."""

    def __init__(self, path: Path) -> None:
        self._stored = _Padded(path.open("rb", buffering=0))
        super().__init__(fileobj=self._stored, mode="rb")

    def close(self) -> None:
        try:
            super().close()
        finally:
            self._stored.close()


class _Padded(io.BufferedReader):
    """Bytes of a compressed file. Python skips the zeros after its end one by one, which in 4 GB takes a quarter of an
    hour."""

    _zeros = 0

    def read(self, size: int | None = -1) -> bytes:
        found = super().read(size)
        self._zeros = self._zeros + 1 if found == b"\0" else 0
        if self._zeros > MOST_PADDING:
            raise gzip.BadGzipFile(f"more than {MOST_PADDING:,} zero bytes follow its end")
        return found


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Says in one line what goes wrong while a file is read, and refuses a pipe, for which it would wait."""
    try:
        refuse_stream(path)
        yield
    except FileNotFoundError:
        raise DataError(f"{path}: no such file. Check the path.") from None
    except (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error) as error:
        raise DataError(
            f"{path}: not a whole {path.suffix} file ({error}). Copy or compress it again, or give the plain file."
        ) from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error}). Check its permissions.") from None


def _kept(path: Path) -> Path | None:
    """The file at its path, plain or compressed, or None."""
    return next((kept for end in ("", *COMPRESSED) if (kept := path.with_name(path.name + end)).is_file()), None)


def _kept_of_old(path: str) -> Path | None:
    """The same where 0.1 kept it, whatever `$XDG_CACHE_HOME` says."""
    return next((kept for end in ("", *COMPRESSED) if (kept := cached(path + end)).is_file()), None)


def _checked(kept: Path, file: PublicFile) -> Path:
    actual = file.digest_of(read_content(kept))
    if actual != file.digest:
        raise DataError(
            f"{kept}: its content has {actual}, expected {_value(file)}. Delete it to have {file.url} fetched."
        )
    return kept


def _value(file: PublicFile) -> str:
    return file.sha256 or file.md5


def _download(file: PublicFile, path: Path) -> Path:
    """Into a temporary name beside the path, then renamed: a half-fetched file is never taken for a whole one."""
    packed = Path(file.url).suffix if Path(file.url).suffix in COMPRESSED and path.suffix not in COMPRESSED else ""
    path = path.with_name(path.name + packed)
    inside = " of what is in it" if packed else ""
    by_hand = f"Or get it by hand from {file.url} and put it at {path} ({file.digest}{inside})"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=path.name + ".", suffix=".part")
    except OSError as error:
        raise DataError(
            f"{path.parent}: cannot be written ({error.strerror or error}). Set PORISM_DATA to a folder of yours."
        ) from None
    part = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as target:
            _copy(file.url, target)
        actual = file.digest_of(read_content(part, packed))
        if actual != file.digest:
            raise DataError(
                f"{file.url}: what came has {actual}, expected {_value(file)}; not kept. Try again. {by_hand}."
            )
        part.replace(path)
    except (OSError, http.client.HTTPException) as error:
        if isinstance(error, urllib.error.HTTPError):
            error.close()  # it holds the connection
        reason = getattr(error, "reason", None) or error
        raise DataError(f"{file.url}: could not be fetched ({reason}). Try again with a network. {by_hand}.") from None
    finally:
        part.unlink(missing_ok=True)
    return path


def _copy(url: str, target: IO[bytes]) -> None:
    with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as response:
        size = response.headers.get("Content-Length")
        if size is None or not sys.stderr.isatty():
            shutil.copyfileobj(response, target)
            return
        name = url.rpartition("/")[2]
        with wrap_file(response, int(size), description=name, console=Console(stderr=True), transient=True) as source:
            shutil.copyfileobj(source, target)
