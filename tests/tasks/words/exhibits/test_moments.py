"""What each estimator is off by, and how far it strays: exactly, over all samples."""

import math

import pytest
import torch
from torch import Tensor

from porism.errors import RecipeError
from porism.layers.skipgram import SkipGram, naive
from porism.layers.skipgram.estimators import ESTIMATORS
from porism.layers.skipgram.noise import Noise
from porism.tasks.words.exhibits.estimators import enumerated, first_order_bias, measured
from porism.testing.gradients import relative_error

EXACT = 1e-12
V, D = 5, 3


def drawn(seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """v, U and a q that is far from p."""
    draw = torch.Generator().manual_seed(seed)
    v, U = (torch.randn(size, generator=draw, dtype=torch.float64) for size in ((D,), (V, D)))
    return v, U, Noise.of_frequencies(torch.tensor([50, 20, 20, 5, 1])).probabilities


UNIFORM = Noise.uniform(V).probabilities


@pytest.mark.parametrize("m", [1, 2, 7])
@pytest.mark.parametrize(
    ("estimator", "q"),
    [("uniform", UNIFORM), ("importance", UNIFORM), ("importance", drawn()[2])],
    ids=["uniform", "uniform with u_j kept", "importance"],
)
def test_estimators_that_know_the_normaliser_are_unbiased(estimator: str, q: Tensor, m: int) -> None:
    v, U, _ = drawn()
    for j in range(V):
        assert enumerated(estimator, v, U, j, q, m).bias.norm() < EXACT


@pytest.mark.parametrize("estimator", ["self-normalised", "sampled-softmax", "nce", "negative"])
def test_the_others_are_biased(estimator: str) -> None:
    v, U, q = drawn()
    assert enumerated(estimator, v, U, 1, q, 7).bias.norm() > 1e-3


@pytest.mark.parametrize("estimator", ["self-normalised", "sampled-softmax"])
def test_a_bias_like_one_over_m_halves_when_m_doubles(estimator: str) -> None:
    v, U, q = drawn()
    once, twice = (enumerated(estimator, v[:2], U[:3, :2], 1, q[:3] / q[:3].sum(), m).bias.norm() for m in (50, 100))
    assert float(once / twice) == pytest.approx(2, rel=0.05)


@pytest.mark.parametrize("estimator", ["nce", "negative"])
def test_telling_apart_does_not_become_the_softmax_with_more_samples(estimator: str) -> None:
    v, U, q = drawn()
    few, many = (enumerated(estimator, v[:2], U[:3, :2], 1, q[:3] / q[:3].sum(), m).bias.norm() for m in (10, 100))
    assert many > few / 2


@pytest.mark.parametrize("seed", range(3))
def test_the_bias_of_self_normalising_is_that_of_the_formula(seed: int) -> None:
    v, U, _ = drawn(seed)
    v, U, q = v, U[:3], torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    found = enumerated("self-normalised", v, U, 1, q, 100).bias
    expected = first_order_bias(v, U, q, 100)
    assert (found - expected).norm() < 0.05 * expected.norm()


@pytest.mark.parametrize("estimator", ["uniform", "importance"])
def test_the_variance_of_a_mean_of_draws_falls_with_their_number(estimator: str) -> None:
    v, U, _ = drawn()
    one, six = (enumerated(estimator, v, U, 1, UNIFORM, m).variance for m in (1, 6))
    assert one / six == pytest.approx(6, rel=1e-9)


def test_keeping_the_context_takes_its_share_out_of_the_second_moment() -> None:
    """At V = 10^4 and p as frequencies have it, unit vectors: V sum (y - p)^2 falls to V sum p^2, for one draw."""
    words = 10_000
    ranks = torch.arange(1, words + 1, dtype=torch.float64)
    # A plane is enough: u_k . v = -log k at length 1 for u_k, so that p_k is 1 / k over the sum.
    length = math.log(words)
    cosine = -ranks.log() / length
    U, v = torch.stack([cosine, (1 - cosine**2).sqrt()], 1), torch.tensor([length, 0.0], dtype=torch.float64)
    p, q, j = 1 / ranks / (1 / ranks).sum(), Noise.uniform(words).probabilities, 5000
    whole = enumerated("uniform", v, U, j, q, 1)
    kept = enumerated("importance", v, U, j, q, 1)
    y = torch.zeros(words, dtype=torch.float64)
    y[j] = 1
    assert whole.second_moment == pytest.approx(float(words * ((y - p) ** 2).sum()), rel=1e-9)
    # What is left to chance is mu alone.
    mu = p @ U
    of_mu = kept.variance + float(mu @ mu)
    assert of_mu == pytest.approx(float(words * (p**2).sum()), rel=1e-9)
    assert whole.second_moment > 10_000
    assert round(of_mu) == 172


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_what_is_measured_is_what_is_enumerated(estimator: str) -> None:
    v, U, _ = drawn()
    noise = Noise.uniform(V) if estimator == "uniform" else Noise.of_frequencies(torch.tensor([50, 20, 20, 5, 1]))
    exact = enumerated(estimator, v, U, 2, noise.probabilities, 4)
    draws = 40_000
    found = measured(estimator, v, U, 2, noise, 4, draws, torch.Generator().manual_seed(0))
    assert (found.mean - exact.mean).norm() < 5 * math.sqrt(exact.variance / draws)
    assert found.variance == pytest.approx(exact.variance, rel=0.05)
    assert exact.second_moment == pytest.approx(exact.variance + float(exact.mean @ exact.mean))


def test_too_many_samples_to_go_through_are_refused() -> None:
    v, U, q = torch.zeros(2).double(), torch.zeros(1000, 2).double(), Noise.uniform(1000).probabilities
    with pytest.raises(
        RecipeError, match=r"there are 41917125250 ways to draw 4 of 1000 words, at most 1000000 are .*Use"
    ):
        enumerated("negative", v, U, 0, q, 4)


@pytest.mark.parametrize("m", [1, 2])
def test_negative_sampling_ends_at_its_optimum(m: int) -> None:
    """Every pair of a tiny joint distribution, as often as it occurs, with every sample, as often as it is drawn."""
    pairs = torch.tensor([[6, 1, 2], [1, 5, 3], [2, 2, 2]])
    noise_counts = torch.tensor([3, 2, 1])
    words, contexts = (index.repeat_interleave(pairs.flatten()) for index in torch.where(pairs > 0))
    drawn_words = torch.arange(3).repeat_interleave(noise_counts)
    samples = torch.cartesian_prod(*[drawn_words] * m).reshape(-1, m)
    batch = len(words) * len(samples)
    model = SkipGram(3, 3, "negative", m, dtype=torch.float64)
    torch.manual_seed(0)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter)
    optimiser = torch.optim.LBFGS(model.parameters(), max_iter=500, tolerance_grad=1e-10, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimiser.zero_grad()
        value: Tensor = model(
            words.repeat_interleave(len(samples)),
            contexts.repeat_interleave(len(samples)),
            samples.repeat(len(words), 1),
        )
        value.backward()
        return value

    assert batch == 24 * 6**m
    optimiser.step(loss)
    found = (model.weight @ model.context_weight.mT).detach()
    expected = naive.optimum(pairs / pairs.sum().double(), noise_counts / noise_counts.sum().double(), m)
    assert relative_error(found, expected) < 1e-4
