"""Unigram and Kneser-Ney: the equations by loops over counts, probabilities that sum to 1, and what the text gives."""

import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from porism import tasks
from porism.tasks.language.baselines import (
    PLAIN_DISCOUNT,
    baseline_cross_entropies,
    count_grams,
    word_probabilities,
)
from porism.tasks.language.data import load_corpus

V = 4
TEXT = (0, 1, 2, 0, 1, 0, 3, 3, 0, 1, 2, 0, 2, 1, 1, 0, 3, 2)
Gram = tuple[int, ...]


def counts_of(k: int, order: int) -> dict[Gram, int]:
    """c(h w) at level k of a model of an order: occurrences at the top, distinct words before it below."""
    if k == order:
        return dict(Counter(TEXT[i : i + k] for i in range(len(TEXT) - k + 1)))
    longer = {TEXT[i : i + k + 1] for i in range(len(TEXT) - k)}
    return dict(Counter(gram[1:] for gram in longer))


def by_hand(context: Gram, word: int, k: int, order: int) -> float:
    if k == 0:
        return 1 / V
    counts = counts_of(k, order)
    h = context[len(context) - k + 1 :]
    n1, n2 = (sum(c == times for c in counts.values()) for times in (1, 2))
    d = n1 / (n1 + 2 * n2) if n1 and n2 else PLAIN_DISCOUNT
    after = {gram[-1]: c for gram, c in counts.items() if gram[:-1] == h}
    lower = by_hand(context, word, k - 1, order)
    if not after:
        return lower
    total = sum(after.values())
    return max(after.get(word, 0) - d, 0) / total + d * len(after) / total * lower


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize("context", [(0, 1, 2), (3, 3, 0), (2, 2, 2), (1, 3, 1)])
def test_probabilities_are_those_of_the_equations_and_sum_to_one(order: int, context: Gram) -> None:
    tables = list(count_grams(torch.tensor(TEXT), order, V))
    found = [dict(word_probabilities(tables, torch.tensor([*context, word]), V))[order][-1] for word in range(V)]
    assert sum(found) == pytest.approx(1, abs=1e-12)
    assert found == pytest.approx([by_hand(context, word, order, order) for word in range(V)], abs=1e-12)


def test_the_cross_entropy_is_the_mean_from_the_second_word_on() -> None:
    stream = (1, 2, 0, 3)
    found = baseline_cross_entropies(torch.tensor(TEXT), {"test": torch.tensor(stream)}, V)
    assert list(found) == ["unigram", "Kneser-Ney 2", "Kneser-Ney 3", "Kneser-Ney 4", "Kneser-Ney 5"]
    bigram = [by_hand(stream[:i], stream[i], 2, 2) for i in (1, 2, 3)]
    assert found["Kneser-Ney 2"]["test"] == pytest.approx(-np.log(bigram).mean(), abs=1e-12)


def test_the_numbers_of_the_readme_are_those_of_the_manual() -> None:
    corpus = load_corpus(None)
    streams = {"test": corpus.streams["test"]}
    found = baseline_cross_entropies(corpus.streams["train"], streams, len(corpus.vocabulary))
    unigram, *orders = (f"{math.exp(nats['test']):.1f}" for nats in found.values())
    text = " ".join((Path(tasks.__file__).parent / "language" / "README.md").read_text(encoding="utf-8").split())
    assert f"test perplexity: unigram {unigram}, Kneser-Ney {', '.join(orders[:-1])} and {orders[-1]}." in text


def test_a_word_that_training_never_showed_has_a_probability() -> None:
    found = baseline_cross_entropies(torch.tensor([0, 1, 0, 1]), {"test": torch.tensor([0, 2, 2])}, 3)
    assert all(math.isfinite(splits["test"]) for splits in found.values())
