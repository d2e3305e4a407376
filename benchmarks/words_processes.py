"""What does it cost the vectors of words when several processes train them and merge what they learned?

    python benchmarks/words_processes.py --data wikitext-2/ --judgements word-similarity/
    python benchmarks/words_processes.py --data wikitext-2/ --judgements word-similarity/ --processes 1 2 --seeds 2

Peer: one process on the same text, from the same seeds, by the same recipe and the same number of threads a process.
No times: more processes than cores take turns. Processes merge after each chunk of `batch_size` words. Scored on test
by the cross-entropy of held-out neighbours, people's judgements of similarity and analogies, as every run of the task.
"""

import json
import os
import subprocess
import sys
import tempfile
from functools import partial
from itertools import product
from pathlib import Path

import torch
import tyro

from kept import Kept, machine, result_of
from sources import recipe_settings

MEASURES = (
    "layers/skipgram",
    "tasks/words/model/merging.py",
    "tasks/words/model/trainer.py",
    "tasks/words/data/batches.py",
)
RECIPE = "skipgram"
SCORES = ("cross_entropy", "wordsim353", "simlex999", "analogies")


def trained(data: Path, judgements: Path, processes: int, interval: int, seed: int) -> dict[str, float]:
    """What one run reaches on test."""
    together = ["torch.distributed.run", "--standalone", "--nproc-per-node", str(processes), "-m", "porism"]
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        command = [sys.executable, "-m", *(together if processes > 1 else ["porism"]), "train", "words", RECIPE]
        command += ["--data", str(data), "--batch-size", str(interval), "--seed", str(seed), "--threads", "1"]
        command += ["--device", "cpu", "--set", f"evaluation_data={judgements.resolve()}"]
        command += ["--no-baselines", "--quiet", "--out", str(run)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"})
        test = json.loads((run / "metrics.json").read_text())["metrics"]["test"]
    return {name: round(test[name], 5) for name in SCORES}


def main(
    data: Path,
    judgements: Path,
    processes: tuple[int, ...] = (1, 2, 4),
    intervals: tuple[int, ...] = (200_000, 50_000),
    seeds: tuple[int, ...] = (1, 2, 3, 4, 5),
    resume: bool = False,
    out: Path | None = None,
) -> None:
    """Train, print and keep.

    data: a folder of texts or a file.
    judgements: a folder with wordsim353.tsv, simlex999.txt and questions-words.txt.
    intervals: words between two merges, over all processes.
    resume: keep the parts that the result has, and measure the others.
    out: where to keep the result as JSON, instead of benchmarks/results.
    """
    torch.set_num_threads(1)
    settings = {"processes": processes, "intervals": intervals, "threads_a_process": 1}
    made_on, recipes = machine(torch.device("cpu")), recipe_settings("words", [RECIPE])
    kept = Kept(out or result_of("words_processes"), made_on, settings, resume, MEASURES, recipes)
    for seed, number, interval in product(seeds, processes, intervals):
        name = f"{number} {'process' if number == 1 else 'processes'}, {interval:,} words, seed {seed}"
        kept.part(name, partial(trained, data, judgements, number, interval, seed))


if __name__ == "__main__":
    tyro.cli(main)
