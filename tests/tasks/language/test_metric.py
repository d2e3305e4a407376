"""Perplexity: what it is, and that the cut into windows does not show."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from porism.tasks.language.metric import Perplexity


def test_a_uniform_guess_has_the_vocabularys_size() -> None:
    perplexity = Perplexity()
    perplexity.add(7 * math.log(10_000), tokens=7)
    assert perplexity.metrics()["perplexity"] == pytest.approx(10_000)
    assert set(perplexity.metrics()) == {"perplexity", "cross_entropy"}


@given(st.lists(st.tuples(st.floats(0, 100), st.integers(1, 100)), min_size=1, max_size=20))
def test_windows_weigh_by_their_tokens(windows: list[tuple[float, int]]) -> None:
    cut = Perplexity()
    for nats, tokens in windows:
        cut.add(torch.tensor(nats, dtype=torch.float64), tokens)
    mean = sum(nats for nats, _ in windows) / sum(tokens for _, tokens in windows)
    assert cut.metrics()["cross_entropy"] == pytest.approx(mean, rel=1e-12)


def test_many_small_windows_lose_nothing_to_rounding() -> None:
    perplexity = Perplexity()
    for _ in range(20_000):
        perplexity.add(torch.tensor(0.1), tokens=1)
    assert perplexity.metrics()["cross_entropy"] == pytest.approx(float(torch.tensor(0.1)), rel=1e-12)


def test_it_keeps_no_gradient() -> None:
    perplexity = Perplexity()
    perplexity.add(torch.ones((), requires_grad=True) * 3, tokens=3)
    assert perplexity.metrics()["cross_entropy"] == 1


def test_the_excess_is_what_is_left_to_learn() -> None:
    perplexity = Perplexity()
    perplexity.add(30.0, tokens=10)
    assert perplexity.metrics(limit=2.5)["excess"] == pytest.approx(0.5)


def test_numbers_that_cannot_be_shown_are_not_errors() -> None:
    perplexity = Perplexity()
    assert math.isnan(perplexity.metrics()["perplexity"])
    perplexity.add(1e6, tokens=1)
    assert perplexity.metrics()["perplexity"] == math.inf
