"""porism runs: what was trained, and what came of it."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, arg

from porism.cli.options import Json, optional
from porism.errors import RunError

if TYPE_CHECKING:
    from porism.runs.record import RunRecord

Sort = Literal["age", "path", "recipe", "seed", "status", "metric"]


@dataclass(kw_only=True)
class RunsCommand:
    """List the runs in a folder and in the folders within it.

    $ porism runs
    $ porism runs runs/four --sort metric
    $ porism runs --task language --json
    """

    folder: Annotated[Positional[Path | None], optional("FOLDER", Path)] = None
    """Where to search. Left out: runs/."""
    task: Annotated[str | None, optional("TASK", str)] = None
    """Only runs of this task."""
    sort: Annotated[Sort, arg(metavar="age|path|recipe|seed|status|metric")] = "age"
    """What they are sorted by: the newest first, the best first, or by name."""
    json: Json = False
    """Print the result as one JSON line on standard output, all else on standard error."""

    def run(self) -> int:
        from porism.cli.output import console_for, print_json, tell
        from porism.errors import nearest
        from porism.tasks import TASKS

        if self.task is not None and self.task not in TASKS:
            raise RunError(f"there is no task {self.task!r}. {nearest(self.task, list(TASKS))}")
        folder = self.folder or Path("runs")
        if self.folder is not None and not folder.is_dir():
            raise RunError(f"{folder} is no folder. Give one that holds runs, or leave it out for runs/.")
        rows = [row for row in _rows(folder) if self.task in (None, row["task"])]
        rows.sort(key=lambda row: _key(row, self.sort))
        console = console_for(self.json)
        if rows:
            console.print(_table(rows))
        else:
            of_task = f" of {self.task}" if self.task else ""
            tell(console, f"no runs{of_task} in {folder}. Train one: porism train {self.task or 'language'}")
        if self.json:
            print_json({"runs": rows})
        return 0


def run_folders(folder: Path) -> Iterator[Path]:
    """The runs in a folder, at most three folders deep."""
    for depth in ("", "*/", "*/*/", "*/*/*/"):
        yield from sorted(path.parent for path in folder.glob(f"{depth}recipe.toml") if path.is_file())


def _rows(folder: Path) -> list[dict[str, Any]]:
    from porism.runs.record import read_run

    rows = []
    for path in run_folders(folder):
        try:
            rows.append(_row(read_run(path)))
        except RunError as error:
            # One damaged run must not hide the others.
            rows.append({"run": str(path), "task": None, "recipe": None, "seed": None, "status": "damaged"})
            rows[-1] |= {"metric": None, "value": None, "split": None, "epochs": None, "age": None, "why": str(error)}
    return rows


def _row(record: "RunRecord") -> dict[str, Any]:
    from porism.runs.lock import is_locked

    facts, metrics = record.facts, record.metrics
    status = "finished" if record.finished else "running" if is_locked(record.path) else "stopped"
    status = "diverged" if record.diverged and status == "stopped" else status
    name = metrics.metric if metrics else next(iter(record.epochs[-1].valid), None) if record.epochs else None
    split = "test" if metrics and "test" in metrics.metrics else "valid"
    written = max(_modified(path) for path in record.path.iterdir() if not path.name.startswith("."))
    return {
        "run": str(record.path),
        "task": facts.task,
        "recipe": facts.recipe,
        "seed": facts.seed,
        "status": status,
        "metric": name,
        "value": record.score(split, name) if name else None,
        "split": split if name else None,
        "lower_is_better": metrics.lower_is_better if metrics else None,
        "epochs": record.epoch,
        "age": round(max(0.0, time.time() - written), 1),
    }


def _modified(path: Path) -> float:
    """When a file was written; 0 for one that a training has renamed since it was listed."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _key(row: dict[str, Any], by: Sort) -> tuple[Any, ...]:
    """Runs without what they are sorted by come last."""
    if by == "metric":
        value = row["value"]
        rising = value if value is None or row.get("lower_is_better") else -value
        return value is None, str(row["task"]), str(row["metric"]), rising or 0.0, row["run"]
    value = row["run"] if by == "path" else row[by]
    return value is None, 0 if value is None else value, row["run"]


def _table(rows: list[dict[str, Any]]) -> Any:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    shown = Table(box=SIMPLE_HEAD)
    for title in ("run", "task", "recipe", "seed", "status", "epochs", "metric", "age"):
        shown.add_column(title, overflow="fold", justify="right" if title in ("seed", "epochs", "age") else "left")
    for row in rows:
        metric = "" if row["value"] is None else f"{row['split']} {row['metric'].replace('_', ' ')} {row['value']:.4g}"
        cells = [row["run"], row["task"], row["recipe"], row["seed"], row["status"], row["epochs"], metric]
        shown.add_row(*(Text("" if cell is None else str(cell)) for cell in cells), _age(row["age"]))
    return shown


def _age(seconds: float | None) -> str:
    """
    >>> _age(90), _age(7200), _age(200_000)
    ('1 min', '2 h', '2 days')
    """
    if seconds is None:
        return ""
    for size, unit in ((86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size:.0f} {unit}"
    return f"{seconds:.0f} s"
