"""The net that predicts pixels sees all that come before one, and no other."""

import math
from typing import Any

import pytest
import torch

from porism.runs.recipe import override, with_fields
from porism.tasks.images.model.histograms import LeftHistogram, PositionHistogram
from porism.tasks.images.model.pixel_rnn import PixelRNN, complete, quantise
from porism.tasks.images.recipes import RECIPES

Y, X = 5, 4


CASES: dict[str, dict[str, Any]] = {
    "lstm": {"cell": "lstm"},
    "simple": {"cell": "simple"},
    "as narrow as its input": {"cell": "simple", "hidden_size": 3},
    "a sequence by an lstm": {"layer": "sequence", "cell": "lstm"},
    "a sequence by a simple cell": {"layer": "sequence", "cell": "simple"},
    "convolutions": {"layer": "convolution", "num_layers": 9},
}


@pytest.fixture(params=list(CASES.values()), ids=list(CASES))
def model(request: pytest.FixtureRequest) -> PixelRNN:
    torch.manual_seed(1)
    recipe = override(RECIPES["complete"], ["hidden_size=7", "levels=5"])
    return PixelRNN(with_fields(recipe, request.param), channels=2).double()


def image() -> torch.Tensor:
    return torch.randint(0, 5, (1, 2, Y, X), generator=torch.Generator().manual_seed(1))


def test_a_later_pixel_never_changes_an_earlier_prediction_and_an_earlier_one_changes_all(model: PixelRNN) -> None:
    levels = image()
    before = model(levels)
    for place in range(Y * X):
        changed = levels.clone()
        changed.flatten(2)[..., place] = (changed.flatten(2)[..., place] + 1) % 5
        moved = (model(changed) != before).flatten(3).any(2).flatten(0, 1)  # C, Y X
        assert not moved[:, : place + 1].any()
        assert moved[:, place + 1 :].all()


@pytest.mark.parametrize("layer", ["grid", "sequence", "convolution"])
def test_the_chances_of_a_whole_image_sum_to_one(layer: str) -> None:
    torch.manual_seed(1)
    recipe = override(RECIPES["complete"], ["hidden_size=3", "levels=2", f"layer={layer}"])
    model = PixelRNN(recipe, channels=1).double()
    every = torch.tensor([[(number >> bit) & 1 for bit in range(6)] for number in range(64)]).view(64, 1, 2, 3)
    probs = model(every).log_softmax(2).gather(2, every[:, :, None]).sum((1, 2, 3, 4)).exp()
    assert probs.sum().item() == pytest.approx(1.0, abs=1e-12)


def test_completing_keeps_what_is_given_and_looks_at_nothing_else(model: PixelRNN) -> None:
    levels, other = image(), image()
    other[:, :, 3:] = 0
    made = complete(model, levels, given_rows=3, seed=4)
    assert torch.equal(made[:, :, :3], levels[:, :, :3])
    assert torch.equal(made, complete(model, other, given_rows=3, seed=4))
    assert any(not torch.equal(made, complete(model, levels, given_rows=3, seed=seed)) for seed in range(5, 9))
    assert 0 <= int(made.min()) <= int(made.max()) < 5


def test_levels_cut_the_bytes_into_equal_parts() -> None:
    every = torch.arange(256, dtype=torch.uint8)
    assert torch.equal(quantise(every, 256), every.long())
    assert torch.bincount(quantise(every, 16)).tolist() == [16] * 16


def test_each_place_for_itself() -> None:
    train = torch.tensor([[0, 1], [0, 0], [0, 1], [0, 0]]).view(4, 1, 1, 2)
    model = PositionHistogram(train, levels=2)
    # With half a count added to both levels: 4.5 of 5 at the first place, half and half at the second.
    expected = (-math.log2(4.5 / 5) + 1) / 2
    assert model.bits_per_dimension(train) == pytest.approx(expected)


def test_each_pixel_given_its_left_neighbour() -> None:
    train = torch.tensor([[0, 1, 0], [1, 0, 1]]).view(2, 1, 1, 3)
    model = LeftHistogram(train, levels=2)
    # The first column is half and half; after it the other level follows, twice of twice.
    expected = (1 + 2 * -math.log2(2.5 / 3)) / 3
    assert model.bits_per_dimension(train) == pytest.approx(expected)
