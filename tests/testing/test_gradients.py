"""The checker itself: a wrong gradient is found out."""

import dataclasses
import json

import pytest
import torch

from porism.errors import RecipeError
from porism.layers.cases import LAYERS, GradientCase
from porism.testing.gradients import check_case, gradients, relative_error

POINT = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)


def verdicts(by_hand: torch.Tensor) -> list[str]:
    case = GradientCase("cube", lambda x: (x**3).sum(), {"x": POINT}, {"x": by_hand})
    return [check.verdict for check in check_case(case, "cube")]


def test_a_right_gradient_passes() -> None:
    assert verdicts(3 * POINT**2) == ["pass", "pass"]


@pytest.mark.parametrize(
    "wrong",
    [3 * POINT**2 + 1e-4, 3 * POINT, torch.full_like(POINT, torch.nan), (3 * POINT**2)[:2], torch.zeros_like(POINT)],
    ids=["off", "other", "nan", "shape", "zero"],
)
def test_a_wrong_gradient_fails(wrong: torch.Tensor) -> None:
    assert verdicts(wrong) == ["fail", "fail"]


def test_the_point_is_left_as_it_was() -> None:
    before = POINT.clone()
    verdicts(3 * POINT**2)
    assert torch.equal(POINT, before)


def test_nothing_wanted_is_measured_absolutely() -> None:
    assert relative_error(torch.tensor([1e-3]), torch.zeros(1)) == pytest.approx(1e-3)


def test_checks_are_plain_json_and_repeat() -> None:
    rows = [dataclasses.asdict(check) for check in gradients(["readout"], seed=3)]
    assert [row["name"] for row in rows] == [
        f"readout.{function}.d{variable}.{how}"
        for function in ("loss", "loss on a CPU")
        for variable in ("h", "weight", "bias")
        for how in ("autograd", "differences")
    ]
    assert json.loads(json.dumps(rows)) == [dataclasses.asdict(c) for c in gradients(["readout"], seed=3)]


def test_an_unknown_layer_is_named() -> None:
    with pytest.raises(RecipeError, match=f"there is no layer 'elmann'. Choose from {', '.join(LAYERS)}."):
        gradients(["elmann"])
