"""Files that appear whole or not at all, checksums by which a reader knows what was written, and the cache folder."""

import errno
import hashlib
import json
import math
import os
import re
import shutil
import warnings
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from porism.errors import DataError, DiskError, RunError, advise, one_line, option, resuming

FULL = {getattr(errno, name) for name in ("ENOSPC", "EDQUOT", "EFBIG") if hasattr(errno, name)}
"""What a system says when a disk, a quota or a file is full; not every system knows all three."""
REFUSED = FULL | {
    getattr(errno, name)
    for name in ("EACCES", "EPERM", "EROFS", "EIO", "ESTALE", "EMFILE", "ENFILE")
    if hasattr(errno, name)
}
"""What a system says of a file that a program asks for rightly: full, forbidden, read-only, broken, gone, too many."""
LITTER = (".DS_Store", "Thumbs.db", "desktop.ini")
"""What file managers leave in a folder that somebody looked at."""


def write_synced(path: Path, *pieces: bytes | memoryview) -> None:
    """Write a new file, piece after piece, and wait until it is on the disk."""
    with path.open("xb") as file:
        file.writelines(pieces)
        file.flush()
        os.fsync(file.fileno())


def copy_synced(source: Path, target: Path) -> None:
    """Copy a file of any size to a new one and wait until it is on the disk."""
    with source.open("rb") as read, target.open("xb") as written:
        shutil.copyfileobj(read, written)
        written.flush()
        os.fsync(written.fileno())


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file under a temporary name and rename it, so that it is the old one or the whole new one."""
    writing = own_temporary(path)
    try:
        writing.unlink(missing_ok=True)
        write_synced(writing, content)
        writing.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        refusal = cannot_write(path, error, len(content))
        with suppress(OSError):
            writing.unlink(missing_ok=True)
        raise refusal from error


def temporary(path: Path) -> Path:
    """The name under which a file or folder is written before it gets its own."""
    return path.with_name(f".{path.name}.writing")


def own_temporary(path: Path) -> Path:
    """The same for this process alone, where several may write the file at a time.

    >>> own_temporary(Path("runs/metrics.json")).match(".metrics.json.*.writing")
    True
    """
    return path.with_name(f".{path.name}.{os.getpid()}.writing")


def is_temporary(name: str, of: str) -> bool:
    """Is this the name under which a file or folder is written before it gets its own, by any process?

    >>> [is_temporary(name, "a.json") for name in (".a.json.writing", ".a.json.17.writing", "a.json", ".a.json.x")]
    [True, True, False, False]
    """
    return re.fullmatch(rf"\.{re.escape(of)}(\.\d+)?\.writing", name) is not None


def cache_folder() -> Path:
    """Where public data and what was measured of a device are kept.

    `$PORISM_DATA`, or `$XDG_CACHE_HOME/porism`, or `~/.cache/porism`.
    """
    if chosen := os.environ.get("PORISM_DATA"):
        return Path(chosen).expanduser()
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared).expanduser() if shared else Path.home() / ".cache") / "porism"


def cached(path: str | Path) -> Path:
    """The place of a file or folder in the cache folder, or where 0.1 kept data if it lies there and not here."""
    place = cache_folder() / path
    before = Path.home() / ".cache" / "porism" / path
    # A folder that was named for this is the only one that counts.
    moved = not os.environ.get("PORISM_DATA") and not place.exists() and before.exists()
    return before if moved else place


def write_kept(file: Path, content: Any, most: int) -> None:
    """Keep plain JSON in a file of the cache folder under its checksum, and of its folder's files the newest `most`."""
    body = json.dumps(content, separators=(",", ":"))
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, json.dumps({"sha256": sha256(body.encode()), "body": body}).encode())
    with suppress(FileNotFoundError):  # another process may do the same
        for old in sorted(file.parent.glob("*.json"), key=lambda path: path.stat().st_mtime)[:-most]:
            old.unlink()


def read_kept(file: Path) -> Any:
    """What `write_kept` wrote: None where there is no such file, a ValueError where it is damaged."""
    try:
        content = json.loads(file.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not isinstance(content, dict) or sha256(str(content.get("body")).encode()) != content.get("sha256"):
        raise ValueError("its checksum is another one")
    return json.loads(content["body"])


def warn_not_kept(what: str, folder: Path, error: Exception) -> None:
    """Warn whoever called the caller's caller that the cache folder cannot be written; only time is lost by it."""
    warnings.warn(
        f"{what} cannot be kept in {folder}: {error.__cause__ or error}. "
        "Let PORISM_DATA or XDG_CACHE_HOME name a folder that can be written.",
        stacklevel=4,
    )


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    if os.name != "posix":  # elsewhere a folder cannot be opened, and renames are synced by the file system
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def cannot_write(target: Path, error: OSError, size: int) -> DiskError:
    """What to tell the user when the disk refuses. Ask before cleaning up: what is free then is not what was free."""
    # Not by Path.exists, which raises where a folder may not be read.
    there = next(parent for parent in target.absolute().parents if os.path.exists(parent))  # noqa: PTH110
    if error.errno in FULL:
        return DiskError(
            f"the disk is full: {target} needs {size:,} bytes, {_room(there)}. What was saved before is intact.",
            advise("Make room, then go on with: {}", resuming(target.parent)),
        )
    if error.errno == errno.ENOENT and there != target.absolute().parent:
        return DiskError(
            f"{target} cannot be written: {target.parent} is gone.",
            advise("Bring it back, or if it was moved, go on there with: {}", resuming(Path("FOLDER"))),
        )
    return DiskError(
        f"{target} cannot be written: {error.strerror}.",
        advise("Choose another folder with {}, or make this one writable.", option("out")),
    )


def refused_by_system(error: OSError) -> DiskError | None:
    """An error of the system in our words, where a user can put it right and nobody closer to it has told it."""
    if error.errno in REFUSED:
        where = "a file" if error.filename is None else str(error.filename)
        return DiskError(
            f"{where} cannot be used: {error.strerror}. Let it be read and written, or make room; then give the same "
            "command again."
        )
    if isinstance(error, FileNotFoundError) and "temporary directory" in str(error):
        return DiskError(f"{one_line(error)}. Make room in one of them, or name another by TMPDIR.")
    return None


def _room(folder: Path) -> str:
    """What is free on a disk that is full, and whether it can hold no more files, however small."""
    free = f"{shutil.disk_usage(folder).free:,} are free"
    if hasattr(os, "statvfs") and (disk := os.statvfs(folder)).f_files and not disk.f_favail:
        return f"{free}, but all {disk.f_files:,} inodes of the disk are taken"
    return free


def read_bytes(path: Path) -> bytes:
    """What a file holds."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error.strerror}.") from error


def refuse_stream(path: Path) -> None:
    """Refuse a pipe or a device as data: it can be read once, a run is resumed later, and some have no end."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise DataError(
            f"{path}: a pipe or a device, expected a file or a folder. Write what it gives into a file, and give that."
        )


def sha256(*pieces: bytes | memoryview) -> str:
    """The checksum of a file, whose content these are one after another."""
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()


def sha256_of_file(path: Path) -> str:
    """The same of a file that is not held in memory."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def without_nan(content: Any) -> Any:
    """The same with null for numbers that JSON has none for: NaN and the infinities.

    >>> without_nan({"f1": float("nan"), "counts": (1, float("inf"))})
    {'f1': None, 'counts': [1, None]}
    """
    if isinstance(content, float):
        return content if math.isfinite(content) else None
    if isinstance(content, Mapping):
        return {key: without_nan(value) for key, value in content.items()}
    return [without_nan(value) for value in content] if isinstance(content, list | tuple) else content


def sha256_of_json(content: Any) -> str:
    """The checksum of what a JSON file says, however it is spaced and in whichever order its keys stand."""
    return sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode())
