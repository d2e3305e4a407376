"""Recipes trained side by side by `porism compare`, over seeds, and what a table keeps of them."""

import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kept import RULES
from porism.report.page import write_report
from porism.runs.record import read_run
from sources import checksums, recipe_settings

USED = "trained-with.json"
KEPT = ("recipe", "seed", "device", "parameters", "epochs", "best_epoch")


def table(
    task: str,
    recipes: Sequence[str],
    data: str,
    device: str,
    seeds: Sequence[int],
    runs: Path,
    row: Callable[[dict[str, Any]], dict[str, Any]],
    measures: Sequence[str],
    workers: int = 1,
) -> dict[str, Any]:
    """Trains what is not in the folder `runs` yet, writes the report there, and gives the machine and a row a run.

    Each recipe with the epochs that it comes with, since their settings were chosen for these. What was trained stays
    when the command is stopped: the same command goes on.

    row: what to keep beside KEPT, from what metrics.json says.
    measures: files and folders of the package whose code the numbers are of.
    workers: how many trainings at a time. They change each other's times, so no table has any.
    """
    folders = [runs / f"{recipe}-seed-{seed}" for seed in seeds for recipe in recipes]
    used = runs / USED
    if not all((folder / "metrics.json").exists() for folder in folders):
        check_same({"sources": checksums(measures, device), "recipes": recipe_settings(task, recipes)}, used, folders)
        command = [sys.executable, "-m", "porism", "compare", task, *recipes, "--data", data, "--device", device]
        # Two at least: runs of one seed alone are called by their recipe.
        command += ["--seeds", ",".join(map(str, seeds)), "--budget", "own", "--no-baselines"]
        command += ["--workers", str(workers)]
        subprocess.run([*command, "--out", str(runs), "--resume"], check=True)
    write_report(folders, runs / "report.html")
    machine = read_run(folders[0]).metrics
    assert machine is not None
    found = [json.loads((folder / "metrics.json").read_text()) for folder in folders]
    rows = [{**{key: metrics[key] for key in KEPT}, **row(metrics)} for metrics in found]
    about = json.loads(used.read_text()) if used.exists() else {}
    return {"rules": RULES, "hardware": machine.hardware, "versions": machine.versions, **about, "rows": rows}


def check_same(now: dict[str, Any], used: Path, folders: Sequence[Path]) -> None:
    """Keep with which code and settings runs are trained, beside them; those of other ones are not mixed."""
    before = json.loads(used.read_text()) if used.exists() else now
    # Another time it may be other recipes, which are added to those that are there.
    recipes = {**before["recipes"], **now["recipes"]}
    if before["sources"] != now["sources"] or recipes | before["recipes"] != recipes:
        sys.exit(f"{used.parent} has runs of other code or settings. Give another --runs.")
    if not used.exists() and any(folder.exists() for folder in folders):
        sys.exit(
            f"{used.parent} has runs of which it is not on record with what they were trained. Give another --runs."
        )
    used.parent.mkdir(parents=True, exist_ok=True)
    used.write_text(json.dumps({**now, "recipes": recipes}, indent=1) + "\n")


def keep(result: dict[str, Any], out: Path, runs: Path) -> None:
    """Writes a table as JSON and says where everything lies."""
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(result, indent=1) + "\n")
    print(f"{out}\n{runs / 'report.html'}")


def check_seeds(seeds: Sequence[int]) -> None:
    if len(set(seeds)) < 2:
        sys.exit("Give two seeds at least: one tells nothing of how far runs differ. For instance --seeds 1 2 3 4 5.")


def by_recipe(rows: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The runs of each recipe, in order."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["recipe"], []).append(row)
    return found


def mean_and_deviation(values: Sequence[float], digits: int) -> str:
    """
    >>> mean_and_deviation([98.0, 99.0], 1)
    '98.5 ± 0.7'
    """
    mean = f"{statistics.mean(values):.{digits}f}"
    return f"{mean} ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else f"{mean}, one seed"
