"""Uploads: raw bodies in a private temporary folder, counted while they are read, removed after the job that uses them.

What a file is, is decided by what decodes it in the worker; the media type only says how much of it may come.
"""

import secrets
import shutil
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from porism.web.refusals import Refusal

SOUND, PICTURE = 10_000_000, 4_000_000
MEDIA_TYPES = {
    **dict.fromkeys(("audio/wav", "audio/x-wav", "audio/wave", "audio/flac", "audio/ogg", "audio/mpeg"), SOUND),
    **dict.fromkeys(("audio/webm", "audio/mp4"), SOUND),
    **dict.fromkeys(("image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp"), PICTURE),
}
"""Media types that are taken, with the bytes that a file of each may have."""
ENDINGS = {
    "audio/wav": ".wav",
    "audio/x-wav": ".wav",
    "audio/wave": ".wav",
    "audio/flac": ".flac",
    "audio/ogg": ".ogg",
    "audio/mpeg": ".mp3",
    "audio/webm": ".webm",
    "audio/mp4": ".mp4",
    "image/png": ".png",
    "image/jpeg": ".jpg",
    "image/gif": ".gif",
    "image/webp": ".webp",
    "image/bmp": ".bmp",
}
KEPT_SECONDS = 600
MOST_KEPT = 32


@dataclass(frozen=True)
class Upload:
    """A file that came in. kind: sound or picture, as its sender says."""

    id: str
    path: Path
    kind: str
    bytes: int
    expires: float


class Uploads:
    """The files that came in, by the names they were given here."""

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._files: dict[str, Upload] = {}

    @property
    def folder(self) -> Path:
        """Made on first use, readable by this user alone."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="porism-uploads-"))
        return self._folder

    async def store(self, media_type: str, body: AsyncIterator[bytes]) -> Upload:
        """Write a body to a file of its own; refuse it as soon as it is too large."""
        self.remove_expired()
        if len(self._files) >= MOST_KEPT:
            raise Refusal(429, "uploads", f"{MOST_KEPT} files wait already.", "Try again in a minute.", headers=RETRY)
        most, name = MEDIA_TYPES[media_type], secrets.token_urlsafe(12)
        path, size = self.folder / f"{name}{ENDINGS[media_type]}", 0
        try:
            with path.open("xb") as file:
                async for piece in body:
                    size += len(piece)
                    if size > most:
                        kind = "a sound" if most == SOUND else "a picture"
                        raise Refusal(413, "too_large", f"{kind} has at most {most:,} bytes.", "Send a smaller one.")
                    file.write(piece)
            if size == 0:
                raise Refusal(422, "empty", "the file is empty.", "Send another one.")
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        kind = "sound" if most == SOUND else "picture"
        self._files[name] = Upload(name, path, kind, size, time.time() + KEPT_SECONDS)
        return self._files[name]

    def find(self, name: str) -> Upload:
        """A file by the name that its sender was given."""
        self.remove_expired()
        if name not in self._files:
            raise Refusal(404, "no_upload", "there is no such upload.", "Send the file again.", field="upload")
        return self._files[name]

    def remove(self, name: str) -> None:
        if (found := self._files.pop(name, None)) is not None:
            found.path.unlink(missing_ok=True)

    def remove_expired(self) -> None:
        for name in [name for name, upload in self._files.items() if upload.expires < time.time()]:
            self.remove(name)

    def close(self) -> None:
        """Remove all files and their folder."""
        self._files.clear()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None


RETRY = {"Retry-After": "60"}
