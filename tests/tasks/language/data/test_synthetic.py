"""The synthetic language: its limits against brute force, and its streams against its limits."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from porism.tasks.language.data.synthetic import TOKENS, Chain, SyntheticText, draw_chain, synthetic
from porism.tasks.language.data.vocabulary import EOS, UNK


def entropy_of_walks(P: NDArray[np.float64], length: int) -> float:
    """Nats of a walk's last step given the others, from the probability of every walk there is."""
    states = range(len(P))
    start = np.linalg.matrix_power(P, 4096)[0]

    def nats(steps: int) -> float:
        probs = (
            float(start[walk[0]]) * math.prod(float(P[a, b]) for a, b in itertools.pairwise(walk))
            for walk in itertools.product(states, repeat=steps)
        )
        return -sum(prob * math.log(prob) for prob in probs if prob > 0)

    return nats(length) - nats(length - 1)


@pytest.mark.parametrize("states", [2, 3, 5])
def test_the_entropy_rate_is_that_of_all_walks(states: int) -> None:
    chain = Chain(tuple("abcde"[:states]), np.random.default_rng(states).dirichlet(np.ones(states), size=states))
    assert chain.entropy_rate() == pytest.approx(entropy_of_walks(chain.transitions, 4), abs=1e-12)


def test_known_chains() -> None:
    assert Chain(("a", "b"), np.full((2, 2), 0.5)).entropy_rate() == pytest.approx(math.log(2), abs=1e-15)
    assert Chain(("a", "b"), np.array([[0.0, 1.0], [1.0, 0.0]])).entropy_rate() == 0
    # After a the next is uncertain, after b it is certain: a is half as frequent again as the counts suggest.
    assert Chain(("a", "b"), np.array([[0.5, 0.5], [1.0, 0.0]])).entropy_rate() == pytest.approx(2 / 3 * math.log(2))


@given(st.integers(3, 20), st.integers(0, 99))
def test_a_drawn_chain_is_one_that_ends_lines_and_reaches_all(states: int, seed: int) -> None:
    successors = min(8, states - 1)
    chain = draw_chain(states, successors, np.random.default_rng(seed))
    P, pi = chain.transitions, chain.stationary()
    assert np.allclose(P.sum(axis=1), 1, atol=1e-12)
    assert ((P > 0).sum(axis=1) == successors).all()
    assert (np.diag(P) == 0).all()
    assert (pi > 0).all()
    assert np.allclose(pi @ P, pi, atol=1e-12)
    assert math.isclose(pi.sum(), 1)
    assert chain.words[0] == EOS
    assert len(set(chain.words)) == states


def test_a_long_walk_pays_the_entropy_rate() -> None:
    chain = draw_chain(7, 3, np.random.default_rng(7))
    walk = chain.sample(200_000, np.random.default_rng(8))
    # The scatter of the mean is below 1 nat / sqrt(tokens); five of those.
    assert chain.cross_entropy(walk) == pytest.approx(chain.entropy_rate(), abs=5 / math.sqrt(len(walk)))
    assert np.bincount(walk) / len(walk) == pytest.approx(chain.stationary(), abs=5 / math.sqrt(len(walk)))


def test_a_walk_takes_only_steps_there_are() -> None:
    chain = Chain(("a", "b", "c"), np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]))
    assert chain.sample(5, np.random.default_rng(0)).tolist() == [1, 2, 0, 1, 2]
    assert chain.sample(3, np.random.default_rng(0), after=1).tolist() == [2, 0, 1]


class Zeros(np.random.Generator):
    """The prob that a real generator gives once in years: exactly zero."""

    def random(self, size: int) -> NDArray[np.float64]:  # type: ignore[override]  # only what a walk asks for
        return np.zeros(size)


def test_no_chance_leads_to_a_step_there_is_not() -> None:
    chain = Chain(("a", "b", "c"), np.array([[0.0, 0.5, 0.5], [0.0, 0.5, 0.5], [0.0, 0.5, 0.5]]))
    assert chain.sample(3, Zeros(np.random.PCG64())).tolist() == [1, 1, 1]


@pytest.fixture(scope="module")
def text() -> SyntheticText:
    return synthetic()


def test_it_is_the_same_every_time(text: SyntheticText) -> None:
    again = synthetic()
    assert again.vocabulary == text.vocabulary
    assert all(torch.equal(again.streams[split], text.streams[split]) for split in TOKENS)


def test_streams_have_the_vocabularys_words_and_no_unknown_one(text: SyntheticText) -> None:
    vocabulary = text.vocabulary
    assert vocabulary.words[-1] == UNK
    for split, tokens in TOKENS.items():
        stream = text.streams[split]
        assert stream.shape == (tokens,)
        assert stream.dtype == torch.int64
        assert set(stream.tolist()) == set(range(len(vocabulary) - 1))
    counts = torch.bincount(text.streams["train"])
    assert torch.corrcoef(torch.stack([counts.double(), -torch.arange(len(counts)).double()]))[0, 1] > 0.9


def test_no_line_is_empty(text: SyntheticText) -> None:
    ends = text.streams["train"] == text.vocabulary.eos
    assert ends.any()
    assert not (ends[1:] & ends[:-1]).any()


def test_limits_scatter_around_the_entropy(text: SyntheticText) -> None:
    for split, tokens in TOKENS.items():
        assert text.limits[split] != text.entropy
        assert text.limits[split] == pytest.approx(text.entropy, abs=5 / math.sqrt(tokens))


def test_a_model_of_counted_pairs_comes_within_two_percent_and_never_below(text: SyntheticText) -> None:
    V = len(text.vocabulary)
    train, test = text.streams["train"], text.streams["test"]
    pairs = torch.bincount(train[:-1] * V + train[1:], minlength=V * V).view(V, V).double() + 0.01
    learned = (pairs / pairs.sum(dim=1, keepdim=True)).log()
    excess = -learned[test[:-1], test[1:]].mean().item() - text.limits["test"]
    assert 0 < excess < math.log(1.02)
