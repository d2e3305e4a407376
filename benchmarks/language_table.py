"""How do the published settings and our best Elman net come out on Penn Treebank, beside what was published?

    python benchmarks/language_table.py --data ptb/ --device cuda           train all of them, then write the table
    python benchmarks/language_table.py --runs ptb-table/                   the table of runs that are there
    python benchmarks/language_table.py --recipes elman-best attention-ptb window-ptb taylor-ptb hybrid-ptb \
        --data ptb/ --device cuda --runs runs/attention --out benchmarks/results/language_attention.json

Peer: the published table of a sigmoid Elman net, the same settings row by row; for attending models our best Elman net.
No times: runs may have been trained several at once. How long training takes is what language_training.py measures.
"""

from pathlib import Path
from typing import Any

import tyro

from porism.tasks.language.recipes import TABLE
from trained import check_seeds, keep, table

MEASURES = ("tasks/language/model/base.py", "tasks/language/model/recurrent.py", "tasks/language/model/transformer.py")
RECIPES = (*TABLE, "elman-best")


def row(metrics: dict[str, Any]) -> dict[str, Any]:
    """What the table keeps of a run."""
    splits = {split: found["perplexity"] for split, found in metrics["metrics"].items()}
    published = {split: found["perplexity"] for split, found in metrics["published"].items()}
    cost = {kind: metrics["cost"][kind]["value"] for kind in ("flops", "backward") if kind in metrics["cost"]}
    return {**cost, "perplexity": splits, "published": published}


def main(
    recipes: tuple[str, ...] = RECIPES,
    data: str = "ptb",
    device: str = "auto",
    seeds: tuple[int, ...] = (1, 2, 3, 4, 5),
    workers: int = 1,
    runs: Path = Path("runs/language-table"),
    out: Path = Path("benchmarks/results/language_table.json"),
) -> None:
    """Train what is not there yet, then write the report beside the runs and the table as JSON.

    recipes: some of them only, or others.
    data: Penn Treebank.
    workers: how many trainings at a time.
    runs: the folder of the comparison, one run for each recipe and seed; the same command goes on.
    """
    check_seeds(seeds)
    keep(table("language", recipes, data, device, seeds, runs, row, MEASURES, workers), out, runs)


if __name__ == "__main__":
    tyro.cli(main)
