"""How many words a second does skip-gram train on on a GPU, and are the vectors as good as gensim's?

    python benchmarks/words_gpu.py --data wikitext-2/train.txt.xz --judgements word-similarity

Peer: gensim on a CPU, whose quality `words.py` measured at the same settings; no package trains word2vec on a GPU.
Words are numbered and on the GPU when the clock starts, frequent words are dropped while it runs; widths take turns
seed by seed, the median over epochs and seeds. Quality seed by seed, by Spearman's rank correlation.
"""

import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import torch
import tyro

from kept import Kept, machine
from porism.tasks.blocks.texts import read_lines
from porism.tasks.language.data.tokenizer import Whitespace
from porism.tasks.words.data.evaluation_sets import SIMILARITIES, similarity
from porism.tasks.words.model.trainer import Trainer
from turns import milliseconds
from words import NEGATIVES, OUR_RATE, SAMPLE, WINDOW, Corpus, numbered

MEASURES = ("layers/skipgram", "tasks/words/model/trainer.py")
RESULT = Path(__file__).parent / "results" / "words_gpu.json"


def trained(corpus: Corpus, width: int, epochs: int, seed: int) -> tuple[list[float], Trainer]:
    """Seconds of every epoch, and the trainer."""
    tokens = corpus.tokens.cuda()
    total = epochs * int((tokens >= 0).sum())
    options = {"window": WINDOW, "negatives": NEGATIVES, "sample": SAMPLE, "rate": OUR_RATE}
    trainer = Trainer.fresh(corpus.frequencies, width, total, seed=seed, device="cuda", **options)
    torch.cuda.synchronize()
    return [1e-3 * milliseconds(lambda: trainer.train(tokens)) for _ in range(epochs)], trainer


def measured(corpus: Corpus, files: list[Path], widths: tuple[int, ...], epochs: int, seed: int) -> dict[str, Any]:
    """Speed and quality of all widths, from one seed; the first epoch warms up."""
    words = list(corpus.vocabulary)
    row: dict[str, Any] = {}
    for width in widths if seed % 2 else reversed(widths):
        seconds, trainer = trained(corpus, width, epochs, seed)
        vectors = trainer.vectors.cpu()
        row[f"width {width}"] = {
            "words_per_second": [round(corpus.length / taken) for taken in seconds[1:]],
            "quality": {file.stem: round(similarity(file, words, vectors).correlation, 4) for file in files},
        }
    return row


def main(
    data: Path,
    judgements: Path,
    widths: tuple[int, ...] = (100, 300),
    epochs: int = 5,
    seeds: tuple[int, ...] = (1, 2, 3, 4, 5),
    resume: bool = False,
    out: Path = RESULT,
) -> None:
    """Train, judge, print and keep.

    data: a text file, plain or compressed.
    judgements: a folder with wordsim353.tsv and simlex999.txt.
    resume: keep the parts that the result has, and measure the others.
    """
    if not torch.cuda.is_available():
        sys.exit("This benchmark needs a GPU.")
    with tempfile.TemporaryDirectory() as folder:
        corpus = numbered(list(Whitespace().stream(read_lines(data))), Path(folder) / "text.txt")
    # Compiled before the clock starts.
    for width in widths:
        trained(corpus, width, epochs=1, seed=0)
    settings = {"words": corpus.length, "vocabulary": len(corpus.vocabulary), "epochs": epochs, "widths": widths}
    kept = Kept(out, machine(torch.device("cuda"), ["triton"]), settings, resume, MEASURES)
    files = [judgements / name for name in SIMILARITIES]
    for seed in seeds:
        kept.part(f"seed {seed}", partial(measured, corpus, files, widths, epochs, seed))


if __name__ == "__main__":
    tyro.cli(main)
