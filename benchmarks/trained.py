"""Recipes trained side by side by `porism compare`, and what a table keeps of them."""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from porism.report.page import write_report
from porism.runs.record import read_run

KEPT = ("recipe", "seed", "device", "parameters", "epochs", "best_epoch", "seconds")


def table(
    task: str,
    recipes: Sequence[str],
    data: str,
    device: str,
    runs: Path,
    row: Callable[[dict[str, Any]], dict[str, Any]],
) -> dict[str, Any]:
    """Trains what is not in the folder `runs` yet, writes the report there, and gives the machine and the rows.

    row: what to keep beside KEPT, from what metrics.json says.
    """
    if not all((runs / recipe / "metrics.json").exists() for recipe in recipes):
        command = [sys.executable, "-m", "porism", "compare", task, *recipes, "--data", data, "--device", device]
        subprocess.run([*command, "--out", str(runs), "--resume"], check=True)
    folders = [runs / recipe for recipe in recipes]
    write_report(folders, runs / "report.html")
    machine = read_run(folders[0]).metrics
    assert machine is not None
    found = [json.loads((folder / "metrics.json").read_text()) for folder in folders]
    rows = [{**{key: metrics[key] for key in KEPT}, **row(metrics)} for metrics in found]
    return {"hardware": machine.hardware, "versions": machine.versions, "rows": rows}


def keep(result: dict[str, Any], out: Path, runs: Path) -> None:
    """Writes a table as JSON and says where everything lies."""
    out.write_text(json.dumps(result, indent=1) + "\n")
    print(f"{out}\n{runs / 'report.html'}")
