"""Do default recipes hold on data that nobody tuned them for: are they at least as good as plain baselines?

    python benchmarks/untuned.py language:book.txt images:pictures/ graphs:cora words:book.txt
    python benchmarks/untuned.py sentiment:reviews.csv --seconds 60 --seeds 3
    python benchmarks/untuned.py images:pictures/ --tune 5              the same after a search on valid

Each argument is a task and its data: a file, a folder or a known name (porism data list). The task's default recipe is
trained as it comes, or for at most --seconds (words, which has no clock, for its epochs). Baselines are those of every
report: fitted on train, chosen on valid. Test is evaluated once a seed, at the end. Nothing is chosen here: where the
baseline wins, that is what the table says.
"""

import json
import math
import statistics
import tempfile
from dataclasses import asdict, dataclass
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
from porism.training.device import hardware, versions

RESULT = Path(__file__).parent / "results" / "untuned.json"


@dataclass(frozen=True)
class Row:
    """A default recipe on one set of data, beside the best baseline there."""

    task: str
    data: str
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


def measured(task: str, data: str, folder: Path, seeds: int, fields: dict[str, Any], **more: Any) -> Row:
    """The default recipe of a task on one set of data, trained from each seed."""
    kind = find(task)
    recipe = kind.default_recipe
    given = {key: value for key, value in fields.items() if not (key == "max_seconds" and task == "words")}
    runs = []
    for seed in range(1, seeds + 1):
        out = folder / f"seed-{seed}"
        try:
            runs.append(porism.train(task, recipe, data=data, out=out, seed=seed, progress=False, **given, **more))
        except PorismError as error:
            # It diverged, or the data cannot be read: the others are measured all the same.
            return Row(task, data, recipe, "", False, (), "", None, (), 0, 0.0, f"{error}")
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
        data,
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
            *(row.task, Path(row.data).name, row.recipe, f"{min(row.epochs, default=0)} of {row.most_epochs}", value),
            *(row.baseline, baseline, row.winner, row.report),
        )
    return made


def parsed(text: str) -> tuple[str, str]:
    """
    >>> parsed("images:pictures/")
    ('images', 'pictures/')
    """
    task, colon, data = text.partition(":")
    if not colon or not data:
        raise RecipeError(f"{text}: expected TASK:DATA, such as images:pictures/.")
    return find(task).name, data


def main(
    data: Annotated[tyro.conf.Positional[list[str]], tyro.conf.arg(metavar="TASK:DATA")],
    /,
    seconds: float | None = None,
    epochs: int | None = None,
    seeds: int = 1,
    tune: float | None = None,
    threads: int | None = None,
    out: Path = RESULT,
) -> int:
    """Measure, print the table, write the rows; 0 whoever wins."""
    pairs = [parsed(text) for text in data]
    bounds: dict[str, Any] = {"max_seconds": seconds, "epochs": epochs}
    fields = {name: value for name, value in bounds.items() if value is not None}
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="porism-untuned-") as folder:
        for number, (task, source) in enumerate(pairs):
            rows.append(measured(task, source, Path(folder) / str(number), seeds, fields, tune=tune, threads=threads))
            print(f"{task} {source}: {rows[-1].value:.4g}, {rows[-1].baseline} {rows[-1].baseline_value}", flush=True)
    Console(width=180).print(table(rows))
    found = [{**asdict(row), "value": row.value, "winner": row.winner} for row in rows]
    out.parent.mkdir(parents=True, exist_ok=True)
    bounds |= {"seeds": seeds, "tune": tune}
    about = {"bounds": bounds, "hardware": hardware(porism_device()), "versions": versions()}
    out.write_text(json.dumps({"rows": found, **about}, indent=1))
    return 0


def porism_device() -> Any:
    """Where the recipes were trained."""
    from porism.training.device import choose_device

    return choose_device("auto")


if __name__ == "__main__":
    raise SystemExit(tyro.cli(main))
