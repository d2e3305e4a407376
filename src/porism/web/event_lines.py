"""New lines of a run's events, from a byte offset on: what a page has not seen yet."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from porism.runs.old_fields import convert_epochs

MOST_BYTES = 1 << 20
"""Read at a time."""


class NewLine(NamedTuple):
    """An event, and the offset of the byte after it."""

    offset: int
    event: dict[str, Any]


def new_lines(path: Path, offset: int, every: int = 1) -> Iterator[NewLine]:
    """The events after an offset. A line without an end waits; where the file was replaced, all its lines are new.

    every: epochs between two validations, as runs of 0.1 count them.
    """
    try:
        with path.open("rb") as file:
            if file.seek(0, 2) < offset:
                offset = 0
            while True:
                file.seek(offset)
                piece = file.read(MOST_BYTES)
                end = piece.rfind(b"\n") + 1
                if not end:
                    return
                for line in piece[:end].splitlines(keepends=True):
                    offset += len(line)
                    if (event := _event(line)) is not None:
                        yield NewLine(offset, convert_epochs(event, every))
    except FileNotFoundError:
        return


def _event(line: bytes) -> dict[str, Any] | None:
    """An event without its checksum; None for what is none. Damage is reported where the run is read as a whole."""
    try:
        event = json.loads(line, parse_constant=lambda _: None)  # a browser reads no NaN
    except (ValueError, RecursionError):
        return None
    if not isinstance(event, dict):
        return None
    event.pop("sha256", None)
    return event
