"""The alias table draws every word with its probability."""

import math

import pytest
import torch

from porism.errors import ShapeError
from porism.layers.skipgram.noise import Noise


def frequencies(V: int) -> torch.Tensor:
    """As words have them: the k-th is a k-th as frequent as the first."""
    return 1000 / torch.arange(1, V + 1, dtype=torch.float64)


def probabilities_of_the_table(noise: Noise) -> torch.Tensor:
    """A column is picked by one draw in V and gives its word below the threshold, its alias above."""
    found = noise.thresholds.clone()
    found.index_add_(0, noise.aliases, 1 - noise.thresholds)
    return found / noise.vocabulary


@pytest.mark.parametrize("V", [1, 2, 7, 63, 10_000])
@pytest.mark.parametrize("power", [0.0, 0.75, 1.0])
def test_the_table_holds_the_probabilities(V: int, power: float) -> None:
    noise = Noise.of_frequencies(frequencies(V), power)
    wanted = frequencies(V) ** power
    assert torch.allclose(noise.probabilities, wanted / wanted.sum(), rtol=1e-12, atol=0)
    assert (probabilities_of_the_table(noise) - noise.probabilities).abs().max() < 1e-14
    assert ((noise.thresholds >= 0) & (noise.thresholds <= 1)).all()


def test_a_uniform_table_needs_no_alias() -> None:
    assert torch.equal(probabilities_of_the_table(Noise.uniform(7)), torch.full((7,), 1 / 7, dtype=torch.float64))


def test_draws_follow_the_probabilities() -> None:
    noise, draws = Noise.of_frequencies(frequencies(7)), 200_000
    found = torch.bincount(noise.draw((draws,), torch.Generator().manual_seed(0)), minlength=7) / draws
    # Five standard deviations of a share.
    allowed = 5 * (noise.probabilities * (1 - noise.probabilities) / draws).sqrt()
    assert ((found - noise.probabilities).abs() < allowed).all()


def test_a_table_moves_once() -> None:
    noise = Noise.uniform(3)
    assert noise.to(torch.device("cpu")) is noise
    assert noise.to(torch.device("meta")).aliases.is_meta


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (torch.ones(2, 3), r"frequencies are \(2, 3\), expected \(V,\)\. Give one number for each word"),
        (torch.ones(0), r"frequencies are \(0,\), expected \(V,\)"),
        (torch.tensor([1, -1]), r"frequencies run from -1 to 1, expected numbers above 0"),
        (torch.tensor([1, torch.inf]), r"frequencies run from 1 to inf, expected numbers above 0"),
        (torch.tensor([1, torch.nan]), r"frequencies run from nan to nan, expected numbers above 0"),
        (torch.tensor([1j, 1]), r"frequencies are torch\.complex64, expected constant numbers"),
        (torch.tensor([True, True]), r"frequencies are torch\.bool, expected constant numbers"),
        (torch.ones(2, requires_grad=True), r"frequencies are with a gradient, expected constant numbers"),
    ],
)
def test_what_is_no_frequency_is_refused(wrong: torch.Tensor, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        Noise.of_frequencies(wrong)


@pytest.mark.parametrize("power", [math.nan, math.inf, 1e9, -1e9])
def test_a_power_that_leaves_no_probabilities_is_refused(power: float) -> None:
    with pytest.raises(
        ShapeError, match=r"frequencies to the power .* are beyond the numbers\. Choose a power such as"
    ):
        Noise.of_frequencies(torch.tensor([1.0, 2.0, 3.0]), power)
