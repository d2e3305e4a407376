"""What a comparison was: comparison.json in its folder, from which the page of all its runs can be written again."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from porism.errors import RunError
from porism.files import read_bytes, write_atomically

COMPARISON = "comparison.json"


class ComparisonRecord(msgspec.Struct, frozen=True):
    """The runs of a comparison in the order of its page."""

    task: str
    runs: tuple[str, ...]
    """Their folders: seen from that of the comparison, or as a whole path where they lie elsewhere."""
    experiment: str | None = None
    """The name of the experiment that they answer, if any."""
    command: str | None = None
    """What repeats it on the command line."""

    @classmethod
    def of(
        cls, folder: Path, task: str, runs: Sequence[Path], experiment: str | None = None, command: str | None = None
    ) -> "ComparisonRecord":
        """
        >>> ComparisonRecord.of(Path("runs/both"), "language", [Path("runs/both/elman")]).runs
        ('elman',)
        """
        top = folder.absolute()
        names = [run.absolute() for run in runs]
        names = [run.relative_to(top) if run.is_relative_to(top) else run for run in names]
        return cls(task, tuple(map(os.fspath, names)), experiment, command)

    def write(self, folder: Path) -> None:
        write_atomically(folder / COMPARISON, json.dumps(msgspec.to_builtins(self), indent=1).encode())


def read_comparison(folder: Path) -> ComparisonRecord | None:
    """The record of the comparison in a folder; None where it has none: it was stopped, or is of an earlier version."""
    path = folder / COMPARISON
    if not path.is_file():
        return None
    try:
        return msgspec.json.decode(read_bytes(path), type=ComparisonRecord)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RunError(
            f"{path} is damaged: {error}. Remove it: the runs beside it are reported in the order they began."
        ) from error
