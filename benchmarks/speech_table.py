"""How well are CMU's AN4 recordings written down, by an LSTM decoder, an attention decoder, and one with CTC beside it?

    python benchmarks/speech_table.py --data an4/ --device cuda

Peer: each other, on the same recordings and the same encoder, each with settings chosen on speakers held out of train.
"""

from pathlib import Path
from typing import Any

import tyro

from trained import check_seeds, keep, table

MEASURES = ("tasks/speech/model",)
RECIPES = ("an4-lstm", "an4-attention", "an4-best")
METRICS = ("cer", "wer")


def row(metrics: dict[str, Any]) -> dict[str, Any]:
    """What the table keeps of a run."""
    errors = {split: {name: found[name] for name in METRICS} for split, found in metrics["metrics"].items()}
    return {"errors": errors}


def main(
    data: str,
    recipes: tuple[str, ...] = RECIPES,
    device: str = "auto",
    seeds: tuple[int, ...] = (1, 2, 3, 4, 5),
    workers: int = 1,
    runs: Path = Path("runs/speech-table"),
    out: Path = Path("benchmarks/results/speech_table.json"),
) -> None:
    """Train what is not there yet, then write the report beside the runs and the table as JSON.

    data: the folder of AN4.
    workers: how many trainings at a time.
    runs: the folder of the comparison, one run for each recipe and seed; the same command goes on.
    """
    check_seeds(seeds)
    keep(table("speech", recipes, data, device, seeds, runs, row, MEASURES, workers), out, runs)


if __name__ == "__main__":
    tyro.cli(main)
