"""How many words a second does skip-gram train on on a GPU, and are the vectors as good?

    python benchmarks/words_gpu.py --data wikitext-2/train.txt.xz --judgements word-similarity

Peer: what `words.py` measured of gensim on a CPU, in results/words.json: the quality that must not be lost. Settings
are those of `words.py`. The best time of an epoch counts, with frequent words dropped on the way; quality is the mean
over seeds. Leaves with 1 below ten million words a second, or where quality is lower than the peer's by more than 0.01.
"""

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import tyro

from porism.tasks.blocks.texts import read_lines
from porism.tasks.language.data.tokenizer import Whitespace
from porism.tasks.words.data.evaluation_sets import SIMILARITIES, similarity
from porism.tasks.words.model.trainer import Trainer
from porism.training.device import hardware, versions
from words import MOST_LOSS, NEGATIVES, OUR_RATE, SAMPLE, WINDOW, Corpus, numbered

RESULTS = Path(__file__).parent / "results"
LEAST_SPEED = 10_000_000


def trained(corpus: Corpus, width: int, epochs: int, seed: int) -> tuple[float, Trainer]:
    """Seconds of the fastest epoch, and the trainer."""
    tokens = corpus.tokens.cuda()
    total = epochs * int((tokens >= 0).sum())
    options = {"window": WINDOW, "negatives": NEGATIVES, "sample": SAMPLE, "rate": OUR_RATE}
    trainer = Trainer.fresh(corpus.frequencies, width, total, seed=seed, device="cuda", **options)
    times = []
    for _ in range(epochs):
        torch.cuda.synchronize()
        start = time.perf_counter()
        trainer.train(tokens)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return min(times), trainer


def row(corpus: Corpus, files: list[Path], width: int, epochs: int, seeds: int) -> dict[str, Any]:
    """Speed and quality at one width."""
    runs = [trained(corpus, width, epochs, seed + 1) for seed in range(seeds)]
    words = list(corpus.vocabulary)
    quality = {
        file.stem: round(statistics.mean(similarity(file, words, run.vectors.cpu()).correlation for _, run in runs), 4)
        for file in files
    }
    return {
        "width": width,
        "words_per_second": round(corpus.length / min(seconds for seconds, _ in runs)),
        "quality": quality,
    }


def failures(rows: list[dict[str, Any]], peer: dict[str, Any]) -> list[str]:
    """What is not as the documents say. The peer was judged at the first of the widths."""
    found = [
        f"width {row['width']}: {row['words_per_second']:,} words a second, expected {LEAST_SPEED:,}"
        for row in rows
        if row["words_per_second"] < LEAST_SPEED
    ]
    found += [
        f"{name}: {correlation}, the peer {peer[name]['peer']}"
        for name, correlation in rows[0]["quality"].items()
        if correlation < peer[name]["peer"] - MOST_LOSS
    ]
    return found


def main(
    data: Path,
    judgements: Path,
    widths: tuple[int, ...] = (100, 300),
    epochs: int = 5,
    seeds: int = 5,
    peer: Path = RESULTS / "words.json",
    out: Path = RESULTS / "words_gpu.json",
) -> None:
    """Train, judge, print and keep.

    data: a text file, plain or compressed.
    judgements: a folder with wordsim353.tsv and simlex999.txt.
    """
    with tempfile.TemporaryDirectory() as folder:
        corpus = numbered(list(Whitespace().stream(read_lines(data))), Path(folder) / "text.txt")
    # Compiled before the clock starts.
    for width in widths:
        trained(corpus, width, epochs=1, seed=0)
    rows = []
    for width in widths:
        rows.append(row(corpus, [judgements / name for name in SIMILARITIES], width, epochs, seeds))
        print(rows[-1], flush=True)
    machine = {"hardware": hardware(torch.device("cuda")), "versions": versions()}
    sizes = {"words": corpus.length, "vocabulary": len(corpus.vocabulary), "epochs": epochs, "seeds": seeds}
    out.write_text(json.dumps({**machine, "sizes": sizes, "rows": rows}, indent=1) + "\n")
    if wrong := failures(rows, json.loads(peer.read_text())["quality"]):
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    tyro.cli(main)
