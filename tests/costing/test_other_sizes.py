"""Sizes at which code goes another way, and sizes far outside: the number is right there, or says what it is."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import relu, scaled_dot_product_attention

from porism import cost
from porism.costing.cost import Cost
from porism.costing.predicting import calibration
from porism.errors import ShapeError

pytestmark = pytest.mark.sample(10)

# Branches inside the range


class Residual(nn.Module):
    def __init__(self, C: int, O: int) -> None:  # noqa: E741
        super().__init__()
        self.convolution = nn.Conv2d(C, O, 3, padding=1)
        self.skip = nn.Identity() if C == O else nn.Conv2d(C, O, 1)

    def forward(self, x: Tensor) -> Tensor:
        return relu(self.convolution(x) + self.skip(x))


def test_equal_sizes_are_a_case_of_their_own() -> None:
    found = cost(lambda C, O: Residual(C, O), "B C N N")  # noqa: E741
    at = found.at(B=2, C=16, O=16, N=8)
    assert [at.parameters, at.flops, at.backward_flops] == [2320, 589824, 1179648]
    assert "the code asks C == O" in found.verdict


@pytest.mark.parametrize(
    ("branches", "T"),
    [
        (lambda T: T % 16 == 0, 64),
        (lambda T: T % 128 == 0, 128),
        (lambda T: 48 < T <= 64, 56),
        (lambda T: T & (T - 1) == 0, 256),
        (lambda T: T >= 1024, 2048),
    ],
)
def test_a_branch_that_no_sample_met_is_found_or_recounted(branches: Callable[[int], bool], T: int) -> None:
    found = cost(lambda x: x @ x.mT if branches(x.shape[1]) else x * 2, "B T D")
    flops = found.at(B=2, T=T, D=4).flops
    assert flops == 2 * 2 * T * T * 4
    assert flops.label == "counted"


class Limit:
    """A size that code reads from elsewhere."""

    value = 77


def is_round(T: int) -> bool:
    return T % 48 == 0


ASKS: dict[str, Callable[[int, int], bool]] = {
    "T % 48 == 0": lambda T, _: is_round(T),
    "T <= 30": lambda T, _: 20 < T <= 30,
    "T == 77": lambda T, _: Limit.value == T,
    "T == 2 * D": lambda T, D: T == 2 * D,
    "(T & (T - 1)) == 0": lambda T, _: T & (T - 1) == 0,
    "T >= 300": lambda T, _: T >= 300,
}


@pytest.mark.parametrize(("question", "asks"), ASKS.items(), ids=ASKS)
def test_the_verdict_names_what_the_code_asks_of_a_size(question: str, asks: Callable[[int, int], bool]) -> None:
    found = cost(lambda x: x @ x.mT if asks(x.shape[1], x.shape[2]) else x * 2, "B T D")
    assert f"(the code asks {question})" in found.verdict
    assert found.at(recount=False, B=2, T=40, D=20).flops.label == "extrapolated"


def test_a_question_behind_another_one_is_met() -> None:
    def nested(x: Tensor) -> Tensor:
        return x @ x.mT if x.shape[1] > 200 and x.shape[1] % 96 == 0 else x * 2

    assert "the code asks T % 96 == 0" in cost(nested, "B T D").verdict


def test_the_length_at_which_tensors_are_cut_is_a_condition() -> None:
    def cut(x: Tensor) -> Tensor:
        return torch.cat([part @ part.mT @ part for part in x.split(Limit.value * 5, 1)], 1)

    assert "differ at T=386 (the code asks T > 385)" in cost(cut, "B T D").verdict
    assert "differ at T=386 (the code asks T > 385)" in cost(lambda x: x[:, :385] @ x.mT, "B T D").verdict


# Outside of the range


def chunked(x: Tensor) -> Tensor:
    if x.shape[1] <= 512:
        return scaled_dot_product_attention(x, x, x)
    return torch.cat([scaled_dot_product_attention(c, c, c) for c in x.split(512, 1)], 1)


def test_outside_of_the_range_the_count_answers() -> None:
    found = cost(chunked, "B T D")
    assert found.at(B=1, T=4096, D=64).flops == 4 * 8 * 512**2 * 64
    assert found.at(recount=False, B=1, T=4096, D=64).flops.label == "extrapolated"
    assert 7600 <= int(found.solve("T", flops=1e9, B=1, D=64)) < 7700
    linear = cost(lambda D: nn.Linear(D, D, bias=False), "B T D")
    size = found.crossover(linear, "T", D=1024).size
    assert size is not None
    assert size.label == "unknown"


class Positions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.linear = nn.Embedding(200, 8), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Any:
        return self.linear(x + self.table(torch.arange(x.shape[1])))


REFUSED: list[tuple[Any, tuple[str, ...], dict[str, Any]]] = [
    (nn.Conv1d(1, 1, 9), ("B 1 T",), {"B": 1, "T": 5}),
    (nn.Conv2d(3, 4, 7), ("B 3 N N",), {"B": 1, "N": 3}),
    (Positions(), ("B T 8",), {"B": 1, "T": 5000}),
    (lambda D: nn.MultiheadAttention(D, 4), ("T B D",) * 3, {"B": 1, "T": 5, "D": 10}),
    (lambda C: nn.GroupNorm(4, C), ("B C N",), {"B": 1, "C": 10, "N": 5}),
]


@pytest.mark.parametrize(("target", "inputs", "sizes"), REFUSED, ids=["conv1d", "conv2d", "positions", "mha", "norm"])
def test_sizes_that_torch_refuses_have_no_number(target: Any, inputs: tuple[str, ...], sizes: dict[str, Any]) -> None:
    at = cost(target, *inputs).at(**sizes)
    assert {quantity.label for _, quantity in at.items()} == {"unknown"}


def test_no_count_is_negative() -> None:
    found = cost(nn.Conv1d(1, 1, 9), "B 1 T").at(recount=False, B=1, T=5).flops
    assert (found.label, found.value) == ("unknown", None)


@pytest.fixture(scope="module")
def positions() -> Cost:
    return cost(Positions(), "B T 8")


def test_a_budget_goes_no_further_than_the_model_runs(positions: Cost) -> None:
    longest = positions.solve("T", flops=1e9, B=1)
    assert repr(longest) == "200 (counted: Positions refuses T=201)"


def test_no_memory_and_no_time_of_sizes_that_are_refused(positions: Cost, monkeypatch: pytest.MonkeyPatch) -> None:
    for ask in (
        lambda: positions.fits("1GB", B=1, T=5000),
        lambda: positions.time("cpu", measure=False, B=1, T=5000),
        lambda: positions.time("cpu", B=1, T=5000),
    ):
        monkeypatch.setattr(calibration, "of", lambda *_: None)  # a device is measured before it is refused
        with pytest.raises(ShapeError, match="Positions refuses T=5000: IndexError"):
            ask()
    assert positions.memory(B=1, T=5000).total.label == "unknown"


class Deepening(nn.Module):
    """From T = 3000 on five layers, not one."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Any:
        for _ in range(5 if x.shape[1] >= 3000 else 1):
            x = self.linear(x)
        return x


def test_every_answer_outside_says_from_where_on_formula_and_count_differ() -> None:
    found = cost(Deepening(), "B T 8")
    part = "formula and count differ from T=3000 on"
    at = found.at(B=2, T=5000)
    assert at.flops == 5 * 2 * 2 * 5000 * 64
    assert all(part in quantity.why for name, quantity in at.items() if name != "parameters")
    assert part in found.solve("T", flops=1e7, B=2).why
    assert part in found.solve("T", memory="1MB", B=2).why
    assert part in found.memory(B=2, T=5000).activations.why
    quadratic = cost(lambda x: x @ x.mT @ x / 800, "B T 8")
    crossing = quadratic.crossover(found, "T").size
    assert crossing is not None
    assert crossing.label == "by formula"  # at T = 4
    at_every = found.at(recount=False, B=2, T=5000)
    assert {quantity.label for _, quantity in at_every.items()} == {"extrapolated"}
    doubled = cost(lambda D: nn.Sequential(nn.Linear(D, 8), nn.Linear(8, 8)), "B T D")
    assert f"formulas confirmed to T={found.valid['T'][1]}" in str(found.crossover(doubled, "T", D=8))


def test_a_difference_at_single_sizes_is_no_difference_from_there_on() -> None:
    found = cost(lambda x: x @ x.mT if x.shape[1] % 1000 == 0 else x * 2, "B T D")
    assert "formula and count differ at T=3000" in found.at(B=2, T=3000, D=4).flops.why


def test_a_condition_that_holds_unless_all_letters_are_small_is_no_part_of_what_is_confirmed() -> None:
    found = cost(lambda x: x.sigmoid() if x.shape[0] * x.shape[1] > 3 else x, "B T")
    assert found.at(B=1, T=2).activation_bytes == 0
    assert found.at(recount=False, B=1, T=2).activation_bytes.label != "by formula"
    assert found.at(recount=False, B=9, T=20).activation_bytes.label == "by formula"


def test_an_extrapolated_number_is_no_lower_bound_where_operators_are_not_counted() -> None:
    def windowed(x: Tensor) -> Tensor:
        inverse: Tensor = torch.linalg.inv(torch.eye(2))
        return inverse.sum() + torch.cat([part @ part.mT @ part for part in x.split(512, 1)], 1)

    found = cost(windowed, "B T 8")
    flops = found.at(recount=False, B=1, T=2048).flops
    assert (flops.label, "not counted: linalg_inv_ex" in flops.why) == ("extrapolated", True)
    assert found.at(B=3, T=20).flops.label == "lower bound"


def test_a_check_of_all_elements_is_no_work() -> None:
    assert not cost(lambda x: torch.ops.aten._is_all_true(x > 0) * x, "B D").uncounted
