"""The held-out loss is that of negative sampling, the same for the same seed, however pairs are cut into blocks."""

import math

import pytest
import torch

from porism.layers.skipgram import naive
from porism.layers.skipgram.noise import Noise
from porism.tasks.words import metric
from porism.tasks.words.metric import measure

V, D = 7, 5


def drawn(pairs: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, Noise]:
    draw = torch.Generator().manual_seed(0)
    words, contexts = torch.randn(2, V, D, generator=draw, dtype=torch.float64)
    noise = Noise.of_frequencies(torch.arange(1, V + 1))
    return words, contexts, torch.randint(V, (pairs, 2), generator=draw), noise


@pytest.mark.parametrize("pairs", [1, 2, 63])
@pytest.mark.parametrize("negatives", [1, 5])
def test_the_loss_is_that_of_the_oracle_on_the_same_negatives(pairs: int, negatives: int) -> None:
    words, contexts, chosen, noise = drawn(pairs)
    samples = noise.draw((pairs, negatives), torch.Generator().manual_seed(3))
    i, j = chosen.T
    expected = naive.sampled_loss("negative", words[i], contexts, j, samples, noise.probabilities) / pairs
    assert measure(words, contexts, chosen, noise, negatives, seed=3)["loss"] == pytest.approx(
        float(expected), rel=1e-12
    )


def test_the_seed_alone_decides_on_the_negatives() -> None:
    words, contexts, chosen, noise = drawn(63)
    first = measure(words, contexts, chosen, noise, 5)
    torch.rand(1)
    assert measure(words, contexts, chosen, noise, 5) == first
    assert measure(words, contexts, chosen, noise, 5, seed=1) != first


def test_many_pairs_come_to_the_mean_that_is_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    """With every pair once, and negatives gone through as often as they are drawn."""
    monkeypatch.setattr(metric, "BLOCK", 1000)
    words, contexts, _, noise = drawn(1)
    every = torch.cartesian_prod(torch.arange(V), torch.arange(V)).repeat(500, 1)
    scores = words @ contexts.mT
    expected = (
        torch.nn.functional.softplus(-scores).mean()
        + (5 * torch.nn.functional.softplus(scores) @ noise.probabilities).mean()
    )
    assert measure(words, contexts, every, noise, 5)["loss"] == pytest.approx(float(expected), rel=0.01)


def test_vectors_that_know_nothing_and_no_pairs_at_all() -> None:
    zeros, noise = torch.zeros(V, D), Noise.uniform(V)
    found = measure(zeros, zeros, torch.zeros(63, 2, dtype=torch.int64), noise, 5)
    assert found["loss"] == pytest.approx(6 * math.log(2))
    assert math.isnan(measure(zeros, zeros, torch.zeros(0, 2, dtype=torch.int64), noise, 5)["loss"])
