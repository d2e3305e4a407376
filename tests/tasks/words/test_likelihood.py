"""The cross-entropy is that of the distribution that a model stands for."""

import math

import pytest
import torch

from porism.layers.skipgram import SkipGram
from porism.tasks.words import metric as likelihood
from porism.tasks.words.metric import cross_entropy, pair_losses

V, D = 7, 3
FREQUENCIES = torch.tensor([50.0, 20, 10, 9, 5, 3, 1])
PAIRS = torch.tensor([[0, 1], [6, 0], [2, 2], [1, 5], [0, 6]])


def model(estimator: str) -> SkipGram:
    torch.manual_seed(3)
    made = SkipGram(V, D, estimator, 2, FREQUENCIES)
    torch.nn.init.normal_(made.weight)
    torch.nn.init.normal_(made.context_weight)
    return made


@pytest.mark.parametrize("at_once", [1, 2**24])
def test_a_softmax_says_what_it_says(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    monkeypatch.setattr(likelihood, "SCORES_AT_ONCE", at_once)
    made = model("full")
    p = torch.softmax(made.weight @ made.context_weight.mT, 1).detach()
    expected = -sum(math.log(float(p[i, j])) for i, j in PAIRS.tolist()) / len(PAIRS)
    assert cross_entropy(made, PAIRS) == pytest.approx(expected, rel=1e-6)


def test_every_pair_has_its_own_loss_in_its_place_however_often_its_word_occurs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, pairs = model("negative"), torch.randint(V, (63, 2), generator=torch.Generator().manual_seed(1))
    q = made.noise.probabilities.double()
    p = torch.softmax(made.weight.double() @ made.context_weight.double().mT + q.log(), 1).detach()
    expected = -p[pairs[:, 0], pairs[:, 1]].log()
    for at_once in (1, 3 * V, 2**24):
        monkeypatch.setattr(likelihood, "SCORES_AT_ONCE", at_once)
        torch.testing.assert_close(pair_losses(made, pairs), expected, rtol=1e-5, atol=1e-6)


def test_at_its_optimum_negative_sampling_says_the_truth() -> None:
    torch.manual_seed(4)
    truth = torch.softmax(2 * torch.randn(V, V, dtype=torch.float64), 1)
    made = SkipGram(V, V, "negative", 5, FREQUENCIES)
    # s_ij = log(p(j | i) / q_j) - log m
    scores = (truth / made.noise.probabilities).log() - math.log(5)
    with torch.no_grad():
        made.weight.copy_(torch.eye(V))
        made.context_weight.copy_(scores.mT)
    expected = -sum(math.log(float(truth[i, j])) for i, j in PAIRS.tolist()) / len(PAIRS)
    assert cross_entropy(made, PAIRS) == pytest.approx(expected, rel=1e-6)


def test_vectors_of_zeros_predict_uniformly() -> None:
    made = SkipGram(V, D, "full")
    assert cross_entropy(made, PAIRS) == pytest.approx(math.log(V), rel=1e-6)
    assert math.isnan(cross_entropy(made, PAIRS[:0]))
