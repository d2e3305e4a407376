"""events.jsonl: what happened in a run, one JSON object a line, each with a checksum of all lines up to it.

A line's `sha256` is made of that of the line before it and of the line's own content. So a line that was changed, taken
out or put in is noticed, and whoever has kept the newest of them notices lines that are missing at the end. Lines of
0.1 have none: the first line after them covers them as they stand.
"""

import json
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from porism.errors import RunError
from porism.files import cannot_write, read_bytes, sha256, sha256_of_json, without_nan

EVENTS = "events.jsonl"
ALTERED = "it is not what was written, or a line before it is missing"


@dataclass(frozen=True)
class EventLine:
    """One event, and the checksum of all lines up to it."""

    number: int
    event: Any
    sha256: str = ""


@dataclass(frozen=True)
class EventRecord:
    """The lines of a file."""

    path: Path
    lines: tuple[EventLine, ...]
    start: str
    """The checksum of what stands before the first line that has one."""
    size: int
    """Bytes of the lines that have an end. What a kill left after them is cut off before the next line is written."""

    @property
    def sha256(self) -> str:
        """The checksum of all lines that have an end."""
        return next((line.sha256 for line in reversed(self.lines) if line.sha256), self.start)

    def check_holds(self, recorded: object, witness: Path) -> None:
        """Refuse a file without the lines that were there when the witness was written. To have no file is fine."""
        known = {self.start, *(line.sha256 for line in self.lines)}
        if isinstance(recorded, str) and self.path.exists() and recorded not in known:
            raise damaged(f"{self.path}", f"lines are missing or altered that were there when {witness} was written")


class Events:
    """The events of a run, open for adding to them."""

    def __init__(self, path: Path, sealed: bool) -> None:
        self.path, self.sealed = path, sealed
        self._end: tuple[str, int] | None = None

    def read(self) -> EventRecord:
        """All lines, each checked."""
        return read_events(self.path, self.sealed)

    def append(self, event: str, **facts: Any) -> None:
        """Add one line, on the disk before this returns: a checkpoint that knows of it may follow."""
        # To JSON and back, so that the checksum is of what a reader will find.
        content = json.loads(json.dumps(without_nan({"event": event, "time": time.time(), **facts}), allow_nan=False))
        before, size = self._known_end()
        after = sha256_of_json([before, content])
        line = json.dumps({**content, "sha256": after}).encode() + b"\n"
        self._end = None
        try:
            with self.path.open("ab") as file:
                file.truncate(size)
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise cannot_write(self.path, error, len(line)) from error
        self._end = after, size + len(line)

    @property
    def sha256(self) -> str:
        """The checksum of all lines."""
        return self._known_end()[0]

    def _known_end(self) -> tuple[str, int]:
        """Checksum and size of the file, which is read again only where somebody else has written into it."""
        size = self.path.stat().st_size if self.path.exists() else 0
        if self._end is None or self._end[1] != size:
            record = self.read()
            self._end = record.sha256, record.size
        return self._end


def read_events(path: Path, sealed: bool) -> EventRecord:
    """The lines of a file, each checked.

    sealed: every line has a checksum. Otherwise the first ones may be of 0.1, and have none.
    """
    content = read_bytes(path) if path.is_file() else b""
    *pieces, torn = content.split(b"\n")
    lines: list[EventLine] = []
    start = newest = sha256(b"")
    size = position = 0
    for number, piece in enumerate(pieces, 1):
        position, before = position + len(piece) + 1, position
        if not piece.strip():
            continue
        place = f"{path}, line {number}"
        try:
            event = json.loads(piece.decode())
        except (ValueError, RecursionError) as error:
            if not sealed and not b"".join([*pieces[number:], torn]).strip():
                break
            raise damaged(place, f"not JSON: {error}") from None
        if isinstance(event, dict) and "sha256" in event and not sealed:
            start = newest = sha256(content[:before])
            sealed = True
        if sealed:
            newest = _checked(event, newest, place)
        lines.append(EventLine(number, event, newest if sealed else ""))
        size = position
    if not sealed:
        start = sha256(content[:size])
        # 0.1 took a last line that lacks only its end.
        with suppress(ValueError, RecursionError):
            lines.append(EventLine(len(pieces) + 1, json.loads(torn.decode())))
    return EventRecord(path, tuple(lines), start, size)


def _checked(event: Any, before: str, place: str) -> str:
    """The checksum of the lines up to an event, which is left without its own."""
    recorded = event.pop("sha256", None) if isinstance(event, dict) else None
    if recorded != (found := sha256_of_json([before, event])):
        raise damaged(place, ALTERED)
    return found


def damaged(place: str, why: str) -> RunError:
    """What to tell of a file whose content cannot be trusted."""
    return RunError(
        f"{place}: {why}. Mend it, or leave this run out of the report, or delete {EVENTS}: the run then goes on, and "
        "its curve begins anew."
    )
