"""How do the published settings and our best Elman net come out on Penn Treebank, beside what was published?

    python benchmarks/language_table.py --data ptb/ --device cuda           train all of them, then write the table
    python benchmarks/language_table.py --runs ptb-table/                   the table of runs that are there
    python benchmarks/language_table.py --recipes elman-best attention-ptb window-ptb taylor-ptb hybrid-ptb \
        --data ptb/ --device cuda --runs runs/attention --out benchmarks/results/language_attention.json

Peer: the published table of a sigmoid Elman net, the same settings row by row; for attending models our best Elman net.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import tyro

from porism.report import read_run, write_report
from porism.tasks.language.recipes import TABLE

RECIPES = (*TABLE, "elman-best")


def row(run: Path) -> dict[str, Any]:
    """What the table keeps of a run."""
    metrics = json.loads((run / "metrics.json").read_text())
    kept = ("recipe", "seed", "device", "parameters", "epochs", "best_epoch", "seconds", "tokens_per_second")
    splits = {split: found["perplexity"] for split, found in metrics["metrics"].items()}
    published = {split: found["perplexity"] for split, found in metrics["published"].items()}
    cost = {kind: metrics["cost"][kind]["value"] for kind in ("flops", "backward")}
    return {**{key: metrics[key] for key in kept}, **cost, "perplexity": splits, "published": published}


def main(
    recipes: tuple[str, ...] = RECIPES,
    data: str = "ptb",
    device: str = "auto",
    runs: Path = Path("runs/language-table"),
    out: Path = Path("benchmarks/results/language_table.json"),
) -> None:
    """Train what is not there yet, then write the report beside the runs and the table as JSON.

    recipes: some of them only, or others.
    data: Penn Treebank.
    runs: the folder of the comparison, one run in it for each recipe.
    """
    if not all((runs / recipe / "metrics.json").exists() for recipe in recipes):
        command = [sys.executable, "-m", "porism", "compare", "language", *recipes, "--data", data, "--device", device]
        subprocess.run([*command, "--out", str(runs), "--resume"], check=True)
    folders = [runs / recipe for recipe in recipes]
    write_report(folders, runs / "report.html")
    machine = read_run(folders[0]).metrics
    assert machine is not None
    rows = [row(folder) for folder in folders]
    out.write_text(
        json.dumps({"hardware": machine.hardware, "versions": machine.versions, "rows": rows}, indent=1) + "\n"
    )
    print(f"{out}\n{runs / 'report.html'}")


if __name__ == "__main__":
    tyro.cli(main)
