"""Word vectors by other means, to set ours beside: frequencies alone, counts with PPMI and SVD, and gensim's skip-gram.

Scored by p(j | i), the probability of a context j after a word i, on the same held-out pairs as our vectors:

    unigram         p(j), how often j is a context in train, whatever i is
    PPMI and SVD    p(j) exp(a s_ij) / Z, where s is the matrix of max(0, log p(i, j) / (p(i) p(j))) at rank D, as
                    U sqrt(S) times V sqrt(S) (Levy and Goldberg 2014), and a is chosen on valid
    gensim          q_j exp(v_i . u_j) / Z with its noise q, as of our own negative sampling

gensim trains with our fields and with the learning rate it comes with.
"""

from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from porism.layers.skipgram import SkipGram
from porism.tasks.words.data.batches import Chunks, draw_pairs, seeded_generator
from porism.tasks.words.data.corpus import StreamedCorpus
from porism.tasks.words.data.evaluation_sets import evaluate
from porism.tasks.words.metric import cross_entropy
from porism.tasks.words.recipes import WordsRecipe

MOST_WORDS = 1_200_000
"""Words of text that are counted, and that gensim trains on, epochs counted: more would take minutes."""
MOST_IN_MATRIX = 5_000
"""Words with a row in the matrix, the most frequent; the others have p(j) alone."""
SCALES = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0)
"""a is one of them."""
MOST_TRIED = 1_000
"""Pairs of valid that it is chosen on."""
POWER_ITERATIONS = 3
"""Of the randomized SVD."""
SEED = 0
UNIGRAM = "unigram"
LONGEST_SENTENCE = 10_000
"""gensim drops what is beyond."""

Numbers = NDArray[np.float64]
GensimVectors = tuple[NDArray[np.float32], NDArray[np.float32]]
"""Of words and of contexts, (V, D) each."""


class WordsData(NamedTuple):
    """What baselines are fitted on and scored by."""

    corpus: StreamedCorpus
    chunks: Chunks
    """The same, in tokens."""
    keep: Tensor
    """The probability to keep each word, of `sample`."""
    pairs: Mapping[str, Tensor]
    """Held-out pairs of valid and test, (P, 2) each."""

    def words_read(self) -> list[int]:
        return words_read(self.corpus)


def most_words(vocabulary: int) -> int:
    """Words of text that are read, and that gensim trains on: half as many of a large vocabulary, each taking twice as
    long, so that all baselines together take about ten seconds."""
    return MOST_WORDS if vocabulary <= MOST_IN_MATRIX else MOST_WORDS // 2


def words_read(corpus: StreamedCorpus) -> list[int]:
    """Words of the chunks that are read: the first ones, of no more than `most_words`, but at least one."""
    most = most_words(len(corpus.vocabulary))
    words = [corpus.chunk(number).words for number in range(len(corpus))]
    return [count for count, before in zip(words, np.cumsum(words), strict=True) if before <= most] or words[:1]


def baseline_metrics(
    data: WordsData, recipe: WordsRecipe, gensim: Future[GensimVectors] | None
) -> dict[str, dict[str, dict[str, float]]]:
    """The metrics of each baseline on valid and test: name, then split. gensim: what `begin_gensim` has begun."""
    counts = None if find_spec("sklearn") is None else count_pairs(data, recipe.window)
    contexts = count_contexts(data, recipe.window) if counts is None else _sum_of_rows(counts)
    models = {UNIGRAM: _model(contexts, torch.zeros(len(contexts), 1), torch.zeros(len(contexts), 1))}
    if counts is not None:
        models["PPMI and SVD"] = _chosen_on_valid(counts, contexts, data, recipe.vector_size)
    if gensim is not None:
        models["gensim"] = _gensim_model(data, recipe, *gensim.result())
    return {
        name: {split: _measured(name, model, data, split, recipe) for split in ("valid", "test")}
        for name, model in models.items()
    }


def baseline_notes(corpus: StreamedCorpus, recipe: WordsRecipe) -> list[str]:
    """What to know of them: which is left out, and which saw less text or fewer words than ours."""
    found, vocabulary, words = [], len(corpus.vocabulary), sum(words_read(corpus))
    if words < corpus.words:
        found.append(f"Baselines read the first {words} of {corpus.words} words.")
    if find_spec("sklearn") is None:
        found.append('Without PPMI and SVD: scikit-learn is not installed, pip install "porism[words]" brings it.')
    elif vocabulary > MOST_IN_MATRIX:
        found.append(f"PPMI and SVD has vectors of the {MOST_IN_MATRIX} most frequent of {vocabulary} words.")
    if find_spec("gensim") is None:
        return [
            *found,
            'Without gensim\'s skip-gram: gensim is not installed, pip install "porism[baselines]" brings it.',
        ]
    if (epochs := gensim_epochs(words, vocabulary, recipe)) < recipe.epochs:
        return [*found, f"gensim is trained for {epochs} of {recipe.epochs} epochs."]
    return found


def drawn_pairs(data: WordsData, window: int) -> Iterator[Tensor]:
    """Words and contexts (P, 2) of one chunk of text after the other, drawn as for training."""
    for number, _ in enumerate(data.words_read()):
        tokens, _ = data.chunks[number]
        yield draw_pairs(tokens, data.keep, window, seeded_generator(SEED, number))


def count_contexts(data: WordsData, window: int) -> Tensor:
    """How often each word is a context, (V,), without scipy."""
    size = len(data.corpus.vocabulary)
    parts = [torch.bincount(pairs[:, 1], minlength=size) for pairs in drawn_pairs(data, window)]
    return torch.stack(parts).sum(0).double()


def count_pairs(data: WordsData, window: int) -> Any:
    """How often each word has each context: sparse (V, V)."""
    from scipy.sparse import coo_matrix, csr_matrix  # type: ignore[import-untyped]

    size = len(data.corpus.vocabulary)
    total = csr_matrix((size, size), dtype=np.float64)
    for pairs in drawn_pairs(data, window):
        i, j = pairs.numpy().T
        total = total + coo_matrix((np.ones(len(i)), (i, j)), shape=(size, size)).tocsr()
    return total


def _sum_of_rows(counts: Any) -> Tensor:
    return torch.from_numpy(np.asarray(counts.sum(0), dtype=np.float64).ravel())


def positive_pmi(counts: Any) -> Any:
    """max(0, log p(i, j) / (p(i) p(j))) of counted pairs, sparse as these are.

    >>> positive_pmi(scipy.sparse.csr_matrix([[2.0, 0.0], [0.0, 2.0]])).toarray()      # log 2 on the diagonal
    array([[0.69314718, 0.        ],
           [0.        , 0.69314718]])
    """
    pairs = counts.tocoo()
    words, contexts = np.asarray(counts.sum(1)).ravel(), np.asarray(counts.sum(0)).ravel()
    pmi = np.log(pairs.data) + np.log(pairs.data.sum()) - np.log(words[pairs.row]) - np.log(contexts[pairs.col])
    found = pairs.copy()
    found.data = np.maximum(pmi, 0)
    return found.tocsr()


def begin_gensim(data: WordsData, recipe: WordsRecipe) -> Future[GensimVectors] | None:
    """Let gensim train in a thread, which needs the interpreter's lock for little of its time; None without gensim.

    Its skip-gram with negative sampling, by one worker, so that its bits are always the same.
    """
    if find_spec("gensim") is None:
        return None
    # Imported and read here: neither imports nor files are for two threads at a time.
    from gensim.models import Word2Vec

    frequencies = data.corpus.vocabulary.frequencies
    names = [str(number) for number in range(len(frequencies))]
    sentences, words = list(_sentences(data, names)), sum(data.words_read())

    def train() -> GensimVectors:
        model = Word2Vec(
            vector_size=recipe.vector_size,
            window=recipe.window,
            negative=recipe.negative,
            sample=recipe.sample,
            sg=1,
            min_count=1,
            workers=1,
            seed=SEED + 1,
        )
        model.build_vocab_from_freq(dict(zip(names, frequencies.tolist(), strict=True)))
        model.train(sentences, total_words=words, epochs=gensim_epochs(words, len(names), recipe))
        order = [model.wv.key_to_index[name] for name in names]
        return model.wv.vectors[order], model.syn1neg[order]

    threads = ThreadPoolExecutor(1)
    try:
        return threads.submit(train)
    finally:
        threads.shutdown(wait=False)


def _gensim_model(
    data: WordsData, recipe: WordsRecipe, words: NDArray[np.float32], contexts: NDArray[np.float32]
) -> SkipGram:
    frequencies = torch.from_numpy(data.corpus.vocabulary.frequencies)
    found = SkipGram(len(words), recipe.vector_size, "negative", recipe.negative, frequencies)
    with torch.no_grad():
        found.weight.copy_(torch.from_numpy(words))
        found.context_weight.copy_(torch.from_numpy(contexts))
    return found


def gensim_epochs(words: int, vocabulary: int, recipe: WordsRecipe) -> int:
    """As many as the recipe has, as long as they are no more than `most_words` of text."""
    return max(1, min(recipe.epochs, most_words(vocabulary) // words))


def _sentences(data: WordsData, names: list[str]) -> Iterator[list[str]]:
    """The training text as gensim reads it."""
    for number, _ in enumerate(data.words_read()):
        tokens = data.chunks[number][0].numpy()
        for sentence in np.split(tokens, np.flatnonzero(tokens < 0)):
            words = [names[token] for token in sentence.tolist() if token >= 0]
            for start in range(0, len(words), LONGEST_SENTENCE):
                yield words[start : start + LONGEST_SENTENCE]


def _chosen_on_valid(counts: Any, contexts: Tensor, data: WordsData, width: int) -> SkipGram:
    # The vocabulary is sorted by frequency.
    size = min(counts.shape[0], MOST_IN_MATRIX)
    left, right = _factors(positive_pmi(counts[:size, :size]), min(width, size))
    u, v = (torch.zeros(counts.shape[0], left.shape[1]) for _ in range(2))
    u[:size], v[:size] = torch.from_numpy(left).float(), torch.from_numpy(right).float()
    models = [_model(contexts, u, scale * v) for scale in SCALES]
    return min(models, key=lambda model: cross_entropy(model, data.pairs["valid"][:MOST_TRIED]))


def _factors(matrix: Any, rank: int) -> tuple[Numbers, Numbers]:
    """U sqrt(S) and V sqrt(S) of the largest singular values S."""
    from sklearn.utils.extmath import randomized_svd

    u, s, vt = randomized_svd(matrix, n_components=rank, n_iter=POWER_ITERATIONS, random_state=SEED)
    return u * np.sqrt(s), vt.T * np.sqrt(s)


def _model(contexts: Tensor, words: Tensor, others: Tensor) -> SkipGram:
    """p(j) exp(words_i . others_j) / Z as a skip-gram; a word that was no context counts as half a one."""
    model = SkipGram(len(contexts), words.shape[1], "negative", 1, contexts.clamp(min=0.5), ns_exponent=1.0)
    with torch.no_grad():
        model.weight.copy_(words)
        model.context_weight.copy_(others)
    return model


def _measured(name: str, model: SkipGram, data: WordsData, split: str, recipe: WordsRecipe) -> dict[str, float]:
    pairs = data.pairs[split]
    if name == UNIGRAM:
        # The same after every word, so it is computed once.
        pairs = torch.stack([torch.zeros_like(pairs[:, 0]), pairs[:, 1]], 1)
    metrics = {"cross_entropy": cross_entropy(model, pairs)}
    if split == "test" and recipe.evaluation_data is not None and name != UNIGRAM:
        vectors = model.weight.detach()
        metrics |= evaluate(Path(recipe.evaluation_data), data.corpus.vocabulary.words, vectors).metrics()
    return metrics
