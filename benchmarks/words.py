"""How many words a second does skip-gram train on, how much of it goes when runs must repeat, and how good is it?

    python benchmarks/words.py --data wikitext-2/train.txt.xz --judgements word-similarity
    python benchmarks/words.py --words 300000 --epochs 1              a quick look at the Python manual

Peer: gensim's Word2Vec, which reads the same text from a file in compiled code, without the interpreter's lock. Both
with window 5, 5 negatives, 0.001 for frequent words, at least 5 of each word; they take turns, and the best of a way's
times counts. Quality is what people's judgements of similarity and the cosines' have in common, Spearman's rank
correlation, after `epochs` through the text at the first of the widths, the mean over as many seeds as there are turns.
Each has the learning rate it comes with, the peer's vectors are judged at ours too.
Leaves with 1 where ours is not twice as fast as the peer, where repeating costs more than half of the speed, or where
quality is lower than the peer's by more than 0.01.
"""

import json
import statistics
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro
from numpy.typing import NDArray
from torch import Tensor

from porism.tasks.blocks.manual import manual
from porism.tasks.blocks.texts import EOS, read_lines
from porism.tasks.language.data.tokenizer import Whitespace
from porism.tasks.words.data.evaluation_sets import SIMILARITIES, similarity
from porism.tasks.words.model.trainer import END, Trainer
from porism.tasks.words.recipes import RECIPES
from porism.training.device import hardware, versions

RESULT = Path(__file__).parent / "results" / "words.json"
WINDOW, NEGATIVES, SAMPLE, LEAST_COUNT = 5, 5, 1e-3, 5
WAYS = ("peer", "ours", "ours, deterministic")
OTHER_RATE = "peer, our rate"
"""A way whose quality alone is measured: speed does not depend on the rate."""
PEER_RATE = 0.025
OUR_RATE = RECIPES["skipgram"].learning_rate
LEAST_SPEED_UP = 2.0
MOST_SLOW_DOWN = 2.0
MOST_LOSS = 0.01
"""In correlation."""


@dataclass(frozen=True)
class Corpus:
    """Sentences of words as a file for the peer, and as numbers for ours."""

    file: Path
    length: int
    vocabulary: dict[str, int]
    frequencies: NDArray[np.int64]
    tokens: Tensor


def numbered(words: list[str], file: Path) -> Corpus:
    """A corpus of words with EOS between sentences; writes the file."""
    words = [word if word == EOS else word.lower() for word in words]
    file.write_text(" ".join("\n" if word == EOS else word for word in words), encoding="utf-8")
    counts = Counter(word for word in words if word != EOS)
    common = [word for word, count in counts.most_common() if count >= LEAST_COUNT]
    vocabulary = {word: number for number, word in enumerate(common)}
    tokens = [END if word == EOS else vocabulary[word] for word in words if word == EOS or word in vocabulary]
    frequencies = np.array([counts[word] for word in common])
    return Corpus(file, sum(counts.values()), vocabulary, frequencies, torch.tensor(tokens, dtype=torch.int32))


def ours(
    corpus: Corpus, width: int, epochs: int, threads: int, seed: int, deterministic: bool
) -> tuple[float, NDArray[np.float32]]:
    """Seconds of training, and the vectors."""
    trainer = Trainer.fresh(
        corpus.frequencies,
        width,
        total=epochs * int((corpus.tokens >= 0).sum()),
        seed=seed,
        window=WINDOW,
        negatives=NEGATIVES,
        sample=SAMPLE,
        rate=OUR_RATE,
        threads=threads,
        deterministic=deterministic,
    )
    start = time.perf_counter()
    for _ in range(epochs):
        trainer.train(corpus.tokens)
    return time.perf_counter() - start, trainer.vectors.numpy()


def peer(
    corpus: Corpus, width: int, epochs: int, threads: int, seed: int, rate: float
) -> tuple[float, NDArray[np.float32]]:
    """The same of gensim, the counting of words left out."""
    from gensim.models import Word2Vec

    model = Word2Vec(
        sg=1,
        hs=0,
        vector_size=width,
        window=WINDOW,
        negative=NEGATIVES,
        sample=SAMPLE,
        min_count=LEAST_COUNT,
        workers=threads,
        seed=seed,
        alpha=rate,
    )
    model.build_vocab(corpus_file=str(corpus.file))
    start = time.perf_counter()
    model.train(
        corpus_file=str(corpus.file),
        total_words=model.corpus_total_words,
        total_examples=model.corpus_count,
        epochs=epochs,
    )
    seconds = time.perf_counter() - start
    order = [model.wv.key_to_index[word] for word in corpus.vocabulary]
    vectors: NDArray[np.float32] = model.wv.vectors[order]
    return seconds, vectors


def trained(
    way: str, corpus: Corpus, width: int, epochs: int, threads: int, seed: int
) -> tuple[float, NDArray[np.float32]]:
    if way in ("peer", OTHER_RATE):
        return peer(corpus, width, epochs, threads, seed, PEER_RATE if way == "peer" else OUR_RATE)
    return ours(corpus, width, epochs, threads, seed, deterministic=way != "ours")


def speeds(corpus: Corpus, width: int, threads: int, turns: int) -> dict[str, Any]:
    """Words a second of each way, those in turn that the other ways have had."""
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    for turn in range(turns):
        for way in WAYS:
            seconds[way].append(trained(way, corpus, width, 1, threads, turn)[0])
    rates = {way: round(corpus.length / min(times)) for way, times in seconds.items()}
    return {
        "width": width,
        "words_per_second": rates,
        "speed_up": round(rates["ours"] / rates["peer"], 2),
        "slow_down": round(rates["ours"] / rates["ours, deterministic"], 2),
    }


def quality(corpus: Corpus, files: list[Path], width: int, epochs: int, threads: int, turns: int) -> dict[str, Any]:
    """For each file of judgements the correlation of each way, the mean over seeds."""
    found: dict[str, dict[str, list[float]]] = {file.stem: {way: [] for way in (*WAYS, OTHER_RATE)} for file in files}
    pairs: dict[str, int] = {}
    for seed in range(turns):
        for way in (*WAYS, OTHER_RATE):
            _, vectors = trained(way, corpus, width, epochs, threads, seed + 1)
            for file in files:
                judged = similarity(file, list(corpus.vocabulary), torch.from_numpy(vectors))
                found[file.stem][way].append(judged.correlation)
                pairs[file.stem] = judged.known
    return {
        name: {"pairs": pairs[name], **{way: round(statistics.mean(values), 4) for way, values in ways.items()}}
        for name, ways in found.items()
    }


def failures(rows: list[dict[str, Any]], qualities: dict[str, Any]) -> list[str]:
    """What is not as the documents say."""
    found = []
    for row in rows:
        if row["speed_up"] < LEAST_SPEED_UP:
            found.append(f"width {row['width']}: {row['speed_up']} times the peer, expected {LEAST_SPEED_UP}")
        if row["slow_down"] > MOST_SLOW_DOWN:
            found.append(f"width {row['width']}: the same bits take {row['slow_down']} times as long")
    for name, ways in qualities.items():
        found += [
            f"{name}: {way} has {ways[way]}, the peer {ways['peer']}"
            for way in WAYS[1:]
            if ways[way] < ways["peer"] - MOST_LOSS
        ]
    return found


def main(
    data: Path | None = None,
    judgements: Path | None = None,
    widths: tuple[int, ...] = (100, 300),
    words: int | None = None,
    epochs: int = 5,
    turns: int = 3,
    threads: int = 2,
    out: Path = RESULT,
) -> None:
    """Train, compare, print and keep.

    data: a text file, plain or compressed; without it the Python manual.
    judgements: a folder with wordsim353.tsv and simlex999.txt; without it quality is left out.
    words: take only so many from the beginning of the text.
    epochs: through the text for quality; speed is measured on one.
    out: where to keep the result as JSON.
    """
    torch.set_num_threads(threads)
    read = manual()["train"] if data is None else list(Whitespace().stream(read_lines(data)))
    files = [judgements / name for name in SIMILARITIES] if judgements else []
    with tempfile.TemporaryDirectory() as folder:
        corpus = numbered(read[:words], Path(folder) / "text.txt")
        print(f"{corpus.length} words, {len(corpus.vocabulary)} different", flush=True)
        # Compiled before the clock starts.
        for deterministic in (False, True):
            ours(numbered(read[:2000], Path(folder) / "little.txt"), 8, 1, threads, 0, deterministic)
        rows = []
        for width in widths:
            rows.append(speeds(corpus, width, threads, turns))
            print(rows[-1], flush=True)
        qualities = quality(corpus, files, widths[0], epochs, threads, turns) if files else {}
        print(qualities, flush=True)
    machine = {"hardware": hardware(torch.device("cpu")), "versions": {**versions(), "gensim": version("gensim")}}
    sizes = {"words": corpus.length, "vocabulary": len(corpus.vocabulary), "threads": threads, "epochs": epochs}
    out.write_text(json.dumps({**machine, "sizes": sizes, "speed": rows, "quality": qualities}, indent=1) + "\n")
    if wrong := failures(rows, qualities):
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    tyro.cli(main)
