"""The contract passes what is right and finds what is wrong: each check has a mistake that it, and it alone, is for."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from examples.min_gru import functional
from examples.min_gru.check import by_hand, by_loops, check
from examples.min_gru.cost import cost
from examples.min_gru.gradient import gradient
from examples.min_gru.layer import MinGRU
from torch import Tensor, nn

from porism.costing.alphabet import D, H
from porism.costing.terms import Terms
from porism.errors import CheckError, RecipeError, ShapeError
from porism.testing import CheckReport, check_layer, layer_checks
from porism.testing.checks import CHECKS

NEEDS_CUDA = {"cuda_graph", "devices"}
# torch.compile itself calls what torch deprecates.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def verdicts(report: CheckReport) -> dict[str, str]:
    return {result.name: result.verdict for result in report.results}


def test_a_layer_of_your_own_passes_all_that_can_be_checked_here() -> None:
    found = verdicts(check())
    skipped = {"padding"} | (set() if torch.cuda.is_available() else NEEDS_CUDA)
    assert found == {name: "skip" if name in skipped else "pass" for name in CHECKS}


class WrongGradient(MinGRU):
    """The gate's gradient twice as large."""

    def forward(self, input: Tensor) -> Tensor:
        y = super().forward(input)
        self.weight_z.register_hook(lambda slope: 2 * slope)
        return y


class ReadsMemory(MinGRU):
    """Takes the input for contiguous, as a kernel does that is given an address."""

    def forward(self, input: Tensor) -> Tensor:
        T, B, D = input.shape
        strides = (B * D, D, 1)
        return super().forward(torch.as_strided(input, (T, B, D), strides, input.storage_offset()))


class Chance(MinGRU):
    """Draws from a generator that no seed reaches."""

    def forward(self, input: Tensor) -> Tensor:
        if not hasattr(self, "draws"):
            self.draws = torch.Generator().manual_seed(7)
        return super().forward(input) + torch.rand((), generator=self.draws, dtype=input.dtype)


class Hidden(MinGRU):
    """A number that counts, and that no state_dict holds."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.__dict__["factors"] = [1.0]

    def _load_from_state_dict(self, *args: Any) -> None:
        super()._load_from_state_dict(*args)
        self.__dict__["factors"][0] = 2.0

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input) * float(self.__dict__["factors"][0])


class AnyWidth(MinGRU):
    """Answers to an input that is too wide."""

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input[..., : self.weight_z.shape[1]])


class Branches(MinGRU):
    """Looks at numbers, which no compiler can follow."""

    def forward(self, input: Tensor) -> Tensor:
        y = super().forward(input)
        return y if float(y.detach().sum()) > 1e9 else y * 1


class OnePrecision(MinGRU):
    """Answers in float32 whatever comes."""

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input).float().to(torch.promote_types(input.dtype, torch.float32))


MISTAKES: dict[str, type[MinGRU]] = {
    "gradcheck": WrongGradient,
    "strides": ReadsMemory,
    "deterministic": Chance,
    "state_dict": Hidden,
    "wrong_input": AnyWidth,
    "compile": Branches,
    "dtypes": OnePrecision,
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_planted_mistake_is_found(name: str) -> None:
    report = check_layer(lambda D, H: MISTAKES[name](D, H), "T B D", checks=[name], on_fail=None)
    assert verdicts(report) == {name: "fail"}
    assert report.failed[0].reason or report.failed[0].measured > report.failed[0].tolerance


def test_a_wrong_oracle_gradient_and_cost_are_found() -> None:
    report = check_layer(
        lambda D, H: MinGRU(D, H),
        "T B D",
        naive=lambda layer, x: by_loops(layer, x) * (1 + 1e-9),
        gradient=lambda layer, dy, x: {k: v * (1 + 1e-8) for k, v in by_hand(layer, dy, x).items()},
        cost=cost() + Terms(backward_flops={"too much": D * H}),
        checks=["naive", "gradient", "cost"],
        on_fail=None,
    )
    assert verdicts(report) == dict.fromkeys(("naive", "gradient", "cost"), "fail")
    assert re.search(
        r"relative error 1\.00e-09, tolerated 1e-12, answer at D=1, H=2, T=7, B=63", report.failed[0].reason
    )
    assert re.search(r"backward_flops by hand [\d,]+, counted [\d,]+, at D=1", report.failed[2].reason)


def test_a_second_derivative_that_is_wrong_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = gradient

    def with_constants(dy: Tensor, x: Tensor, weight_z: Tensor, weight_c: Tensor, h: Tensor) -> Any:
        return right(dy, x.detach(), weight_z.detach(), weight_c.detach(), h.detach())

    monkeypatch.setattr(functional, "gradient", with_constants)
    report = check_layer(lambda D, H: MinGRU(D, H), "T B D", checks=["double_backward", "gradcheck"], on_fail=None)
    assert verdicts(report) == {"gradcheck": "pass", "double_backward": "fail"}


def test_nan_in_padding_is_followed() -> None:
    class Mean(nn.Module):
        def __init__(self, masks: bool) -> None:
            super().__init__()
            self.masks = masks

        def forward(self, x: Tensor, key_padding_mask: Tensor) -> Tensor:
            kept = ~key_padding_mask[..., None]
            return (x.where(kept, 0) if self.masks else x * kept).sum(1)

    given = {"key_padding_mask": "B S : bool"}
    for masks, verdict in ((True, "pass"), (False, "fail")):
        report = check_layer(Mean(masks), "B S D", given, checks=["padding"], on_fail=None)
        assert verdicts(report) == {"padding": verdict}


def test_what_fails_is_raised_told_or_expected() -> None:
    build: Callable[..., nn.Module] = lambda D, H: WrongGradient(D, H)  # noqa: E731
    with pytest.raises(CheckError, match="WrongGradient fails 1 of 1 checks: gradcheck: relative error"):
        check_layer(build, "T B D", checks=["gradcheck"])
    with pytest.warns(UserWarning, match="WrongGradient: 0 passed, 1 failed"):
        check_layer(build, "T B D", checks=["gradcheck"], on_fail="warn")
    report = check_layer(build, "T B D", checks=["gradcheck"], expected_failed_checks={"gradcheck": "known"})
    assert verdicts(report) == {"gradcheck": "expected"}
    assert report.to_json()["checks"][0]["reason"] == "known"


def test_unknown_words_name_the_nearest() -> None:
    with pytest.raises(RecipeError, match="there is no check 'gradchek'. Did you mean gradcheck?"):
        check_layer(nn.Linear(3, 5), "B 3", checks=["gradchek"])
    with pytest.raises(RecipeError, match="has a letter Q"):
        check_layer(nn.Linear(3, 5), "B 3", sizes={"Q": (1,)})
    with pytest.raises(RecipeError, match="no argument 'naiv'. Did you mean naive?"):
        layer_checks(nn.Linear(3, 5), "B 3", naiv=None)
    with pytest.raises(RecipeError, match="there is no check 'gradchek'. Did you mean gradcheck?"):
        check_layer(nn.Linear(3, 5), "B 3", expected_failed_checks={"gradchek": "known"})
    with pytest.raises(RecipeError, match="on_fail is 'rise'. Choose 'raise', 'warn' or None."):
        check_layer(nn.Linear(3, 5), "B 3", on_fail="rise")  # type: ignore[arg-type]
    with pytest.raises(RecipeError, match="^check: checks is empty, so that nothing is checked. Known: naive, "):
        check_layer(nn.Linear(3, 5), "B 3", checks=[])


@pytest.mark.parametrize("sizes", [(0,), (3, -1), (1.5,), (True,), (), 3, "12"], ids=repr)
def test_a_layer_is_tried_at_whole_sizes_that_hold_something(sizes: Any) -> None:
    with pytest.raises((RecipeError, ShapeError), match=r"^check: (B is .* Give a whole number|the sizes of B are)"):
        check_layer(nn.Linear(3, 5), "B 3", sizes={"B": sizes})


@pytest.mark.parametrize("layer", [None, 3, lambda D: "a layer"], ids=["none", "number", "text"])
def test_what_is_no_layer_is_told(layer: Any) -> None:
    with pytest.raises(RecipeError, match=r"^check: the layer (is|was made as a) .*, expected a (torch.nn.M|m)odule"):
        check_layer(layer, "B 3")


@pytest.mark.parametrize(("name", "run"), layer_checks(nn.Linear(3, 5), "B 3", sizes={"B": (1, 3)}))
def test_checks_can_be_parametrised(name: str, run: Callable[[], tuple[float, float]]) -> None:
    from porism.testing.report import run_check

    assert run_check(name, run).verdict in ("pass", "skip")
