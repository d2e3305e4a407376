"""How well do a net with pooling, recurrent scans over the grid and a residual net tell Fashion-MNIST's clothes apart?

    python benchmarks/images_table.py --data fashion-mnist --device cuda

Peer: each other, on the same images, each with settings chosen on validation images. No times: runs may have been
trained several at once.
"""

from pathlib import Path
from typing import Any

import tyro

from trained import check_seeds, keep, table

MEASURES = (
    "tasks/images/data/augment.py",
    "tasks/images/model/base.py",
    "tasks/images/model/downsampling.py",
    "tasks/images/model/residual.py",
    "tasks/images/model/stacked.py",
)
RECIPES = ("pooled-clothes", "grid-4-clothes", "convolutional-clothes")


def row(metrics: dict[str, Any]) -> dict[str, Any]:
    """What the table keeps of a run."""
    accuracy = {split: found["accuracy"] for split, found in metrics["metrics"].items()}
    return {"accuracy": accuracy}


def main(
    recipes: tuple[str, ...] = RECIPES,
    data: str = "fashion-mnist",
    device: str = "auto",
    seeds: tuple[int, ...] = (1, 2, 3, 4, 5),
    workers: int = 1,
    runs: Path = Path("runs/images-table"),
    out: Path = Path("benchmarks/results/images_table.json"),
) -> None:
    """Train what is not there yet, then write the report beside the runs and the table as JSON.

    data: Fashion-MNIST by its name, or the folder of its four idx files.
    workers: how many trainings at a time.
    runs: the folder of the comparison, one run for each recipe and seed; the same command goes on.
    """
    check_seeds(seeds)
    keep(table("images", recipes, data, device, seeds, runs, row, MEASURES, workers), out, runs)


if __name__ == "__main__":
    tyro.cli(main)
