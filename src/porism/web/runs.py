"""The runs of a folder, as the page lists them. A run is found by the name it was listed under, never by a path.

Folders and files that are links out of the runs folder are not followed: what lies there is listed as damaged.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from porism.errors import PorismError
from porism.runs.events import EVENTS
from porism.runs.lock import is_locked
from porism.runs.record import RunRecord, read_run
from porism.runs.results import METRICS
from porism.runs.run import RECIPE
from porism.web.refusals import Refusal

DEEPEST = 3
"""Folders between the runs folder and a run."""
MOST_LISTED = 2_000
WATCHED = (RECIPE, EVENTS, METRICS)
"""Files whose change means that a run has changed."""


@dataclass(frozen=True)
class ListedRun:
    """A run and what the list says of it. record: None where it is damaged."""

    path: Path
    row: dict[str, Any]
    record: RunRecord | None


class RunTable:
    """What was found in the runs folder, by name; a run is read again where its files have changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._read: dict[str, tuple[Any, ListedRun]] = {}

    def listed(self) -> dict[str, ListedRun]:
        """All runs, the newest first."""
        found: dict[str, tuple[Any, ListedRun]] = {}
        for path in self._paths():
            name = path.relative_to(self.folder).as_posix()
            signature = _signature(path)
            known = self._read.get(name)
            found[name] = known if known and known[0] == signature else (signature, self._entry(name, path))
        self._read = found
        runs = {name: listed for name, (_, listed) in found.items()}
        return dict(sorted(runs.items(), key=lambda item: -(item[1].row["updated"] or 0)))

    def find(self, name: str, field: str = "id") -> ListedRun:
        """A run that was listed."""
        runs = self.listed()
        if name not in runs:
            raise Refusal(404, "no_run", f"there is no run {name[:100]!r} in {self.folder.name}.", field=field)
        return runs[name]

    def whole(self, name: str, field: str = "id") -> tuple[Path, RunRecord]:
        """A run that can be read."""
        listed = self.find(name, field)
        if listed.record is None:
            raise Refusal(409, "damaged", listed.row["message"], field=field)
        return listed.path, listed.record

    def file(self, listed: ListedRun, name: str) -> Path | None:
        """A file of a run, where it is there and no link leads elsewhere."""
        path = listed.path / name
        return path if path.is_file() and self._is_inside(path) else None

    def _paths(self) -> Iterator[Path]:
        level, listed = [self.folder] if self.folder.is_dir() else [], 0
        for _ in range(DEEPEST + 1):
            below: list[Path] = []
            for folder in level:
                if (folder / RECIPE).is_file():
                    listed += 1
                    yield folder
                else:
                    below += _folders(folder)
                if listed >= MOST_LISTED:
                    return
            level = below

    def _entry(self, name: str, path: Path) -> ListedRun:
        try:
            self._refuse_links(path)
            record = read_run(path)
            return ListedRun(path, _row(name, record), record)
        except (PorismError, OSError) as error:
            # One damaged run must not hide the others.
            row = dict.fromkeys(("task", "recipe", "seed", "epoch", "epochs", "metric", "value", "split"))
            row |= {"lower_is_better": None, "updated": _updated(path), "message": str(error)}
            return ListedRun(path, {"id": name, **row, "state": "damaged"}, None)

    def _refuse_links(self, path: Path) -> None:
        """Refuse a run that is, or holds, a link to what lies outside of the runs folder."""
        for place in (path, *_entries(path), *(file for folder in _folders(path) for file in _entries(folder))):
            if not self._is_inside(place):
                raise PorismError(f"{place.name} is a link out of {self.folder.name}, and is not followed.")

    def _is_inside(self, path: Path) -> bool:
        return path.resolve().is_relative_to(self.folder.resolve())


def _folders(folder: Path) -> list[Path]:
    return [entry for entry in _entries(folder) if entry.is_dir()]


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _signature(path: Path) -> tuple[Any, ...]:
    """What changes with a run: sizes and times of its files, and whether it is trained now."""
    stats: list[Any] = []
    for name in WATCHED:
        try:
            found = (path / name).stat()
            stats.append((found.st_mtime_ns, found.st_size, found.st_ino))
        except OSError:
            stats.append(None)
    running = stats[-1] is None and is_locked(path)
    return (*stats, running)


def _updated(path: Path) -> float:
    times = [(path / name).stat().st_mtime for name in WATCHED if (path / name).exists()]
    return max(times, default=0.0)


def _row(name: str, record: RunRecord) -> dict[str, Any]:
    facts, metrics = record.facts, record.metrics
    state = "finished" if record.finished else "running" if is_locked(record.path) else "stopped"
    state = "diverged" if record.diverged and state == "stopped" else state
    metric = metric_of(record)
    split = "test" if metrics and "test" in metrics.metrics else "valid"
    return {
        "id": name,
        "task": facts.task,
        "recipe": facts.recipe,
        "seed": facts.seed,
        "state": state,
        "epoch": record.epoch,
        "epochs": record.fields.get("epochs"),
        "metric": metric,
        "value": record.score(split, metric) if metric else None,
        "split": split if metric else None,
        "lower_is_better": _lower_is_better(record, metric),
        "updated": _updated(record.path),
        "message": record.diverged or "",
    }


def _lower_is_better(record: RunRecord, metric: str | None) -> bool | None:
    """As its results say; before that by its name: of what epochs are judged by, accuracy alone is better higher."""
    if record.metrics is not None:
        return record.metrics.lower_is_better
    return None if metric is None else metric != "accuracy"


def metric_of(record: RunRecord) -> str | None:
    """What a run is judged by: as its results say, before that the first of an epoch on valid."""
    if record.metrics is not None:
        return record.metrics.metric
    return next(iter(record.epochs[-1].valid), None) if record.epochs else None
