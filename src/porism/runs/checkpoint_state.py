"""The state of a checkpoint, state.json: read and checked without its tensors, and so without torch."""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from porism.errors import RunError, shown
from porism.files import read_bytes, sha256_of_json, temporary

STATE = "state.json"
FILE = re.compile(r"\w[\w.-]*\.(safetensors|json)")
"""A file beside it: a checkpoint never leads out of its folder."""


class StateFile(msgspec.Struct):
    """What state.json says: the state, the checksum of each other file, and its own."""

    state: dict[str, Any]
    files: dict[str, str]
    sha256: str


def states(folder: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The states of the checkpoints under the three names, newest first, where they can be read and are unaltered."""
    for path in candidates(folder):
        with suppress(RunError):
            yield path, read_state(path / STATE).state


def read_state(path: Path) -> StateFile:
    """The content of a state.json, its checksum compared."""
    try:
        sealed = msgspec.convert(json.loads(read_bytes(path)), StateFile)
    except (ValueError, RecursionError) as error:
        raise RunError(f"{path} is damaged: it is not the JSON that was written.") from error
    if sha256_of_json({"state": sealed.state, "files": sealed.files}) != sealed.sha256:
        raise RunError(f"{path} is damaged: its content was altered.")
    if elsewhere := [name for name in sealed.files if not FILE.fullmatch(name)]:
        raise RunError(f"{path} names {shown(elsewhere[0])}, which is no file of a checkpoint.")
    return sealed


def candidates(folder: Path) -> tuple[Path, Path, Path]:
    """The three names of a checkpoint, newest first."""
    return temporary(folder), folder, previous_of(folder)


def previous_of(folder: Path) -> Path:
    """The name under which the checkpoint before is kept."""
    return folder.with_name(f"{folder.name}.previous")
