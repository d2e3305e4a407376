"""The checkpoints of a run whose models can be tried: of which epoch each is, and which of its files are damaged."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from porism.errors import RunError
from porism.files import sha256_of_file
from porism.runs.checkpoint_state import STATE, previous_of, read_state
from porism.runs.record import RunRecord
from porism.runs.run import BEST
from porism.web.refusals import Refusal

PREVIOUS = previous_of(Path(BEST)).name
NAMES = (BEST, PREVIOUS)


@dataclass(frozen=True)
class RunCheckpoint:
    """One that is there. epoch: None where its state cannot be read; damaged: files that are not as written."""

    name: str
    epoch: int | None
    damaged: tuple[str, ...]


def run_checkpoints(record: RunRecord) -> dict[str, RunCheckpoint]:
    """The best checkpoint of a run and the one before it, those of the two that are there."""
    return {name: _read(record, name) for name in NAMES if (record.path / name).is_dir()}


def check_checkpoint(record: RunRecord, run: str, name: str) -> None:
    """Refuse a checkpoint that the run does not have, or that is damaged."""
    known = run_checkpoints(record)
    if name not in known:
        named = f"Choose from {', '.join(known)}." if known else "It has saved none yet."
        raise Refusal(404, "no_checkpoint", f"{run} has no checkpoint {name[:60]!r}.", named, field="checkpoint")
    if damaged := known[name].damaged:
        whole = [f"{other.name}, of epoch {other.epoch}" for other in known.values() if not other.damaged]
        hint = f"Whole is {whole[0]}." if whole else "Train the run again."
        raise Refusal(409, "damaged", f"{', '.join(damaged)} of {run} is damaged.", hint, field="checkpoint")


def _read(record: RunRecord, name: str) -> RunCheckpoint:
    folder = record.path / name
    try:
        sealed = read_state(folder / STATE)
    except RunError:
        return RunCheckpoint(name, None, (f"{name}/{STATE}",))
    damaged = tuple(f"{name}/{file}" for file, expected in sealed.files.items() if _sha256(folder / file) != expected)
    return RunCheckpoint(name, _epochs_at(record, sealed.state.get("epoch")), damaged)


def _epochs_at(record: RunRecord, validation: object) -> int | None:
    """The epochs that were done at a validation, counted as the recipe's `epochs_at` counts them."""
    if not isinstance(validation, int):
        return None
    done = validation * int(record.fields.get("check_val_every_n_epoch", 1))
    return min(done, int(record.fields.get("epochs", done)))


def _sha256(path: Path) -> str:
    try:
        found = path.stat()
        return _sha256_of_version(path, found.st_mtime_ns, found.st_size)
    except OSError:
        return ""


@lru_cache(maxsize=256)
def _sha256_of_version(path: Path, _modified: int, _bytes: int) -> str:
    """Kept by the version of the file: a page asks for its run again after every epoch."""
    return sha256_of_file(path)
