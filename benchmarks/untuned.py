"""Do default recipes hold on data that nobody tuned them for: are they at least as good as plain baselines?

    python benchmarks/untuned.py                                three sets of data a task, of untuned_sets/
    python benchmarks/untuned.py speech graphs                  those of two tasks; rows of the others are kept
    python benchmarks/untuned.py language:book.txt images:pictures/ graphs:cora --out own.json
    python benchmarks/untuned.py sentiment:reviews.csv --seconds 60 --seeds 3
    python benchmarks/untuned.py images:pictures/ --tune 5      the same after a search on valid

Each argument is a task, for its three sets, or a task and its data: a file, a folder or a known name (porism data
list). The task's default recipe is trained as it comes, or for at most --seconds (words, which has no clock, for its
epochs). Baselines are those of every report: fitted on train, chosen on valid. Test is evaluated once a seed, at the
end. Nothing is chosen here: where the baseline wins, that is what the table says.
"""

import json
import math
import statistics
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.table import Table

import porism
from porism.errors import PorismError, RecipeError
from porism.report.baselines import against_baselines
from porism.report.comparison import entries_of, group_runs
from porism.runs.record import read_run
from porism.tasks import find
from porism.training.device import choose_device, hardware, versions
from sources import checksums, recipe_settings
from untuned_sets.every import SETS

RESULT = Path(__file__).parent / "results" / "untuned.json"


@dataclass(frozen=True)
class Row:
    """A default recipe on one set of data, beside the best baseline there."""

    task: str
    data: str
    about: str
    recipe: str
    metric: str
    lower_is_better: bool
    values: tuple[float, ...]
    """On test, one a seed."""
    baseline: str
    baseline_value: float | None
    epochs: tuple[int, ...]
    """That were trained, one a seed."""
    most_epochs: int
    """Of the recipe: fewer where --seconds were over, or valid no longer improved."""
    seconds: float
    report: str
    """What the report says of the first seed."""

    @property
    def value(self) -> float:
        return statistics.fmean(self.values) if self.values else math.nan

    @property
    def winner(self) -> str:
        """
        >>> row.winner                     # accuracy 0.95 against 0.93
        'porism'
        """
        if not self.values:
            return "not measured"
        if self.baseline_value is None:
            return "no baseline"
        if self.value == self.baseline_value:
            return "tie"
        return "porism" if (self.value < self.baseline_value) == self.lower_is_better else "baseline"


@dataclass(frozen=True)
class Source:
    """The data of a task: where it is, what to call it, and the fields that it decides."""

    task: str
    path: str
    name: str
    about: str = ""
    fields: dict[str, Any] = field(default_factory=dict)


def measured(source: Source, folder: Path, seeds: int, fields: dict[str, Any], **more: Any) -> Row:
    """The default recipe of a task on one set of data, trained from each seed."""
    task = source.task
    kind = find(task)
    recipe = kind.default_recipe
    given = {key: value for key, value in fields.items() if not (key == "max_seconds" and task == "words")}
    given |= source.fields
    runs = []
    for seed in range(1, seeds + 1):
        out = folder / f"seed-{seed}"
        try:
            runs.append(
                porism.train(task, recipe, data=source.path, out=out, seed=seed, progress=False, **given, **more)
            )
        except PorismError as error:
            # It diverged, or the data cannot be read: the others are measured all the same.
            return Row(task, source.name, source.about, recipe, "", False, (), "", None, (), 0, 0.0, f"{error}")
    group = group_runs(entries_of([read_run(runs[0].path)]))[0]
    found = json.loads((runs[0].path / "metrics.json").read_text())
    scores = {
        name: splits[group.split][group.metric]
        for name, splits in found["baselines"].items()
        if group.metric in splits.get(group.split, {})
    }
    name = (min if group.lower_is_better else max)(scores, key=scores.__getitem__) if scores else ""
    return Row(
        task,
        source.name,
        source.about,
        recipe,
        group.metric,
        bool(group.lower_is_better),
        tuple(run.metrics[group.split][group.metric] for run in runs),
        name,
        scores.get(name),
        tuple(int(run.history[-1]["epoch"]) for run in runs),
        runs[0].recipe.epochs,
        float(found["seconds"]),
        " ".join(against_baselines(group)),
    )


def table(rows: list[Row]) -> Table:
    """One row a set of data."""
    made = Table(
        "task", "data", "default recipe", "epochs", "test", "best baseline", "test ", "better", "the report says"
    )
    for row in rows:
        value = f"{row.metric} {row.value:.4g}" if row.values else "none"
        baseline = "" if row.baseline_value is None else f"{row.baseline_value:.4g}"
        made.add_row(
            *(row.task, row.data, row.recipe, f"{min(row.epochs, default=0)} of {row.most_epochs}", value),
            *(row.baseline, baseline, row.winner, row.report),
        )
    return made


def sources_of(text: str, folder: Path) -> list[Source]:
    """What an argument stands for; the sets of a task are written to a folder.

    >>> sources_of("images:pictures/", Path())
    [Source(task='images', path='pictures/', name='pictures', about='', fields={})]
    """
    task, colon, data = text.partition(":")
    if colon and data:
        return [Source(find(task).name, data, Path(data).name)]
    found = [one for one in SETS if one.task == text]
    if not found:
        tasks = ", ".join(dict.fromkeys(one.task for one in SETS))
        raise RecipeError(f"{text}: expected one of {tasks}, or TASK:DATA, such as images:pictures/.")
    return [Source(one.task, str(one.made(folder)), one.name, one.about, one.fields) for one in found]


def main(
    data: Annotated[tyro.conf.Positional[list[str]], tyro.conf.arg(metavar="TASK|TASK:DATA")],
    /,
    seconds: float | None = None,
    epochs: int | None = None,
    seeds: int = 1,
    tune: float | None = None,
    threads: int | None = None,
    out: Path = RESULT,
) -> int:
    """Measure, print the table, write the rows; 0 whoever wins."""
    bounds: dict[str, Any] = {"max_seconds": seconds, "epochs": epochs}
    fields = {name: value for name, value in bounds.items() if value is not None}
    bounds |= {"seeds": seeds, "tune": tune, "threads": threads}
    about = {"bounds": bounds, "hardware": hardware(choose_device("auto")), "versions": versions()}
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="porism-untuned-") as folder:
        wanted = data or list(dict.fromkeys(one.task for one in SETS))
        sources = [source for text in wanted for source in sources_of(text, Path(folder) / "data")]
        for number, source in enumerate(sources):
            rows.append(measured(source, Path(folder) / str(number), seeds, fields, tune=tune, threads=threads))
            row = rows[-1]
            print(
                f"{row.task} {row.data}: {row.metric} {row.value:.4g}, {row.baseline} {row.baseline_value}", flush=True
            )
            write(rows, about, out)
    Console(width=180).print(table(rows))
    return 0


def write(rows: list[Row], about: dict[str, Any], out: Path) -> None:
    """Put the rows into a file in the place of those of the same task and data; others stay."""
    found = [
        {**asdict(row), "value": row.value, "winner": row.winner, **about}
        | {"recipes": recipe_settings(row.task, [row.recipe])}
        | {"sources": checksums((f"tasks/{row.task}/baselines.py",), "cpu")}
        for row in rows
    ]
    new = {(row["task"], row["data"]): row for row in found}
    kept = json.loads(out.read_text())["rows"] if out.exists() else []
    merged = {(row["task"], row["data"]): row for row in kept} | new
    order = [(one.task, one.name) for one in SETS]
    names = sorted(merged, key=lambda name: (order.index(name) if name in order else len(order), name))
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps({"rows": [merged[name] for name in names]}, indent=1))


if __name__ == "__main__":
    raise SystemExit(tyro.cli(main))
