"""How many words a second does skip-gram train on, how much of it goes when runs must repeat, and how good is it?

    python benchmarks/words.py --data wikitext-2/train.txt.xz                                 speed
    python benchmarks/words.py --data wikitext-2/train.txt.xz --judgements word-similarity --resume    and quality
    python benchmarks/words.py --words 300000                         a quick look at the Python manual

Peer: gensim's Word2Vec, which reads the same text from a file in compiled code, without the interpreter's lock. All
start from the text in a file and a vocabulary that was counted before, as many threads each; beside it ours from words
that are numbered already, as from the second pass on. Window 5, 5 negatives, 0.001 for frequent words, at least 5 of
each word. They take turns; medians. Quality is what people's judgements of similarity and the cosines' have in common,
Spearman's rank correlation, after `epochs` through the text at the first of the widths, seed by seed, each at its own
learning rate and at the other's.
"""

import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro
from numpy.typing import NDArray
from torch import Tensor

from kept import Kept, machine, result_of
from porism.tasks.blocks.manual import manual
from porism.tasks.blocks.texts import EOS, read_lines
from porism.tasks.language.data.tokenizer import Whitespace
from porism.tasks.words.data.batches import Chunks
from porism.tasks.words.data.corpus import ReadingOptions, StreamedCorpus, TextSource
from porism.tasks.words.data.evaluation_sets import SIMILARITIES, similarity
from porism.tasks.words.model.trainer import END, Trainer
from porism.tasks.words.recipes import RECIPES
from turns import Step, in_turns, spread, times_faster

MEASURES = (
    "layers/skipgram",
    "tasks/words/model/trainer.py",
    "tasks/words/data/batches.py",
    "tasks/words/data/corpus.py",
)
WINDOW, NEGATIVES, SAMPLE, LEAST_COUNT = 5, 5, 1e-3, 5
PEER_RATE = 0.025
OUR_RATE = RECIPES["skipgram"].learning_rate
SPEEDS = ("gensim, from text", "porism, from text", "porism, deterministic, from text", "porism, from numbers")
QUALITIES = {f"{name}, rate {rate}": rate for name in ("gensim", "porism") for rate in (PEER_RATE, OUR_RATE)} | {
    f"porism, deterministic, rate {OUR_RATE}": OUR_RATE
}


@dataclass(frozen=True)
class Corpus:
    """Sentences of words as a file for the peer, and as numbers for ours."""

    file: Path
    length: int
    vocabulary: dict[str, int]
    frequencies: NDArray[np.int64]
    tokens: Tensor

    @property
    def streamed(self) -> StreamedCorpus:
        """The file as the task reads it, its words counted, nothing held out."""
        text = TextSource(str(self.file))
        reading = ReadingOptions(least_count=LEAST_COUNT)
        corpus = StreamedCorpus.counted(str(self.file), {"train": (text,), "valid": ()}, reading)
        assert corpus.words == self.length
        assert len(corpus.vocabulary.words) == len(self.vocabulary)
        corpus.word_table  # noqa: B018, made before the clock starts
        return corpus


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
    corpus: Corpus, width: int, epochs: int, threads: int, seed: int, rate: float, deterministic: bool, text: bool
) -> tuple[float, NDArray[np.float32]]:
    """Seconds of training, and the vectors. text: words are read from the file and looked up while the clock runs."""
    trainer = Trainer.fresh(
        corpus.frequencies,
        width,
        total=epochs * int((corpus.tokens >= 0).sum()),
        seed=seed,
        window=WINDOW,
        negatives=NEGATIVES,
        sample=SAMPLE,
        rate=rate,
        threads=threads,
        deterministic=deterministic,
    )
    source = corpus.streamed if text else None
    start = time.perf_counter()
    for _ in range(epochs):
        if source is None:
            trainer.train(corpus.tokens)
        else:
            for tokens, _position in Chunks(source):
                trainer.train(tokens)
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


def speeds(corpus: Corpus, width: int, threads: int, turns: int) -> dict[str, Any]:
    """Words a second of each way, in turns."""

    def run(way: str) -> Step:
        if way.startswith("gensim"):
            return lambda: peer(corpus, width, 1, threads, 1, PEER_RATE)[0]
        return lambda: ours(corpus, width, 1, threads, 1, OUR_RATE, "deterministic" in way, way.endswith("text"))[0]

    # The clock is in the step: what is prepared does not count.
    times = in_turns({way: run(way) for way in SPEEDS}, turns, clock=lambda step: float(step()))
    peers, own, same = (times[way] for way in SPEEDS[:3])
    return {
        "width": width,
        "words_per_second": {way: spread([corpus.length / taken for taken in found]) for way, found in times.items()},
        "times_faster": times_faster(own, peers),
        "times_faster_from_numbers": times_faster(times[SPEEDS[3]], peers),
        "same_bits_slower": times_faster(own, same),
    }


def quality(corpus: Corpus, files: list[Path], width: int, epochs: int, threads: int, seed: int) -> dict[str, Any]:
    """For each file of judgements the pairs that are known and the correlation of each way, from one seed."""
    found: dict[str, Any] = {file.stem: {} for file in files}
    for way, rate in QUALITIES.items():
        if way.startswith("gensim"):
            _, vectors = peer(corpus, width, epochs, threads, seed, rate)
        else:
            _, vectors = ours(corpus, width, epochs, threads, seed, rate, "deterministic" in way, text=False)
        for file in files:
            judged = similarity(file, list(corpus.vocabulary), torch.from_numpy(vectors))
            found[file.stem] |= {"pairs": judged.known, way: round(judged.correlation, 4)}
    return found


def main(
    data: Path | None = None,
    judgements: Path | None = None,
    widths: tuple[int, ...] = (100, 300),
    words: int | None = None,
    epochs: int = 5,
    turns: int = 5,
    seeds: tuple[int, ...] = (1, 2, 3, 4, 5),
    threads: int = 2,
    resume: bool = False,
    out: Path | None = None,
) -> None:
    """Train, compare, print and keep.

    data: a text file, plain or compressed; without it the Python manual.
    judgements: a folder with wordsim353.tsv and simlex999.txt: quality is measured, and not speed.
    words: take only so many from the beginning of the text.
    epochs: through the text for quality; speed is measured on one.
    seeds: of quality, a part each.
    resume: keep the parts that the result has, and measure the others.
    out: where to keep the result as JSON, instead of benchmarks/results.
    """
    torch.set_num_threads(threads)
    read = manual()["train"] if data is None else list(Whitespace().stream(read_lines(data)))
    with tempfile.TemporaryDirectory() as folder:
        corpus = numbered(read[:words], Path(folder) / "text.txt")
        # Compiled before the clock starts.
        little = numbered(read[:2000], Path(folder) / "little.txt")
        for deterministic, text in product((False, True), (False, True)):
            ours(little, 8, 1, threads, 0, OUR_RATE, deterministic, text)
        sizes = {"words": corpus.length, "vocabulary": len(corpus.vocabulary), "threads": threads, "epochs": epochs}
        kept = Kept(
            out or result_of("words"),
            machine(torch.device("cpu"), ["gensim", "numba"]),
            {**sizes, "turns": turns},
            resume,
            MEASURES,
        )
        if judgements is None:
            for width in widths:
                kept.part(f"speed, width {width}", partial(speeds, corpus, width, threads, turns))
        else:
            files = [judgements / name for name in SIMILARITIES]
            for seed in seeds:
                kept.part(f"quality, seed {seed}", partial(quality, corpus, files, widths[0], epochs, threads, seed))


if __name__ == "__main__":
    tyro.cli(main)
