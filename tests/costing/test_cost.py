"""Numbers of a cost at sizes, with how each is known; budgets, submodules, and what a notebook shows."""

import json
import math
from fractions import Fraction
from typing import Any

import numpy
import pytest
import torch
from sympy import Integer
from torch import Tensor, nn
from torch.nn import functional

from porism.costing import reading
from porism.costing.cost import Cost
from porism.costing.counting import workspace
from porism.costing.derive import derive
from porism.costing.module_row import KINDS
from porism.costing.quantity import Quantity
from porism.errors import CostError, DeviceError, RecipeError, ShapeError


@pytest.fixture(scope="module")
def linear() -> Cost:
    return derive(nn.Linear(64, 10), "B D")


@pytest.fixture(scope="module")
def conv() -> Cost:
    return derive(nn.Conv1d(1, 1, 9), "B 1 T")


def chunked(x: Tensor) -> Tensor:
    """Attention in blocks of 512: from there on the code goes another way."""
    if x.shape[1] <= 512:
        return functional.scaled_dot_product_attention(x, x, x)
    parts = [functional.scaled_dot_product_attention(part, part, part) for part in x.split(512, 1)]
    return torch.cat(parts, 1)


@pytest.fixture(scope="module")
def branching() -> Cost:
    return derive(chunked, "B T 64")


def test_inside_of_the_confirmed_sizes_the_formula_answers(linear: Cost) -> None:
    flops = linear.at(B=8).flops
    assert flops.label == "by formula"
    assert flops.formula == linear.flops
    assert flops.sizes == {"B": 8}
    assert repr(flops) == "10,240 FLOPs"
    assert linear.valid["B"][0] <= 8 <= linear.valid["B"][1]


def test_outside_it_is_counted_or_said_to_be_extrapolated(linear: Cost, monkeypatch: pytest.MonkeyPatch) -> None:
    high = linear.valid["B"][1]
    assert linear.at(B=10**6).flops.label == "by formula"
    quantity = linear.at(recount=False, B=10**6).flops
    assert repr(quantity) == f"1,280,000,000 FLOPs (extrapolated: B confirmed to {high})"
    monkeypatch.setattr(reading, "MOST_OPERATORS", 0)
    assert linear.at(B=10**6 + 1).flops.label == "extrapolated"


def test_a_count_that_is_not_the_formula_is_the_answer(branching: Cost) -> None:
    found = branching.at(B=1, T=4096).flops
    assert found == 8 * 4 * 512 * 512 * 64
    assert found.label == "counted"
    assert found.why.startswith("the formula gives 4,294,967,296, T confirmed to")
    # The same with a formula alone, and labelled so.
    assert branching.at(recount=False, B=1, T=4096).flops.label == "extrapolated"


def test_a_budget_is_solved_by_what_the_code_does(branching: Cost) -> None:
    length = branching.solve("T", flops=1e9, B=1)
    true = branching.at(B=1, T=length).flops
    after = branching.at(B=1, T=int(length) + 1).flops
    assert true <= 1e9 < after
    assert length.label == "counted"


def test_a_crossover_that_the_code_contradicts_is_unknown(branching: Cost) -> None:
    rival = derive(lambda D: nn.Linear(D, 1024, bias=False), "B T D")
    found = branching.crossover(rival, "T", D=1024)
    # 4 * 64 * T**2 against 2 * 1024**2 * T: from T = 8193 on by formula, in blocks never.
    assert found.crossing == 8193
    assert found.size is not None
    assert found.size.label == "unknown"
    assert "by formula T=8193, but counted at T=8193 it is" in found.size.why
    assert found.to_json()["crossing"] is None


def test_a_size_that_the_module_refuses_has_no_number(conv: Cost) -> None:
    at = conv.at(B=1, T=5)
    assert repr(at.flops) == "unknown (Conv1d refuses T=5)"
    record = conv.to_json(B=1, T=5)
    assert record["at"]["flops"] is None
    assert record["labels"]["flops"] == "unknown"
    assert record["why"]["flops"] == "Conv1d refuses T=5"


def test_what_is_not_counted_makes_a_lower_bound() -> None:
    found = derive(lambda x: torch.linalg.matrix_exp(x) @ x, "D D")
    assert found.uncounted
    flops = found.at(D=8).flops
    assert flops.label == "lower bound"
    assert repr(flops).startswith("at least 1,024 FLOPs (not counted: ")
    assert flops.why == "not counted: linalg_matrix_exp x2"  # once in each direction
    assert (flops <= 1000) is False
    with pytest.raises(CostError):
        assert flops <= 10**9
    assert found.at(D=8).parameters.label == "by formula"


def test_numbers_by_attribute_by_key_and_as_a_mapping(linear: Cost) -> None:
    at = linear.at(B=2)
    assert list(at) == list(dict(at.items())) == list(KINDS)
    assert all(at[kind] is getattr(at, kind) for kind in KINDS)
    assert [int(quantity) for quantity in dict(at.items()).values()] == [650, 2560, 5120, 512]
    assert [quantity.unit for _, quantity in at.items()] == ["parameters", "FLOPs", "FLOPs", "bytes"]
    with pytest.raises(CostError, match="there is no kind 'speed'"):
        at["speed"]


def test_whole_numbers_of_numpy_and_quantities_are_sizes(linear: Cost) -> None:
    assert linear.at(B=numpy.int64(4)).flops == linear.at(B=linear.solve("B", flops=4 * 1280)).flops == 5120
    size: Any = 1.5
    with pytest.raises(RecipeError, match=r"B=1\.5 is no size"):
        linear.at(B=size)
    with pytest.raises(RecipeError, match=r"B=a number of more than 300 digits is no size"):
        linear.at(B=10**5000)


def test_one_budget_at_a_time(linear: Cost) -> None:
    with pytest.raises(RecipeError, match="solve takes one budget, got none. Give flops, backward_flops"):
        linear.solve("B")
    with pytest.raises(RecipeError, match="solve takes one budget, got flops, memory"):
        linear.solve("B", flops=1, memory="1GB")
    no_letter: Any = []
    for letter in ("T", no_letter):
        with pytest.raises(RecipeError, match=r"Linear has no letter (T|\[\]) to set. Letters: B."):
            linear.solve(letter, flops=1e9)


def test_budgets_of_every_kind(linear: Cost) -> None:
    assert linear.solve("B", backward_flops=1e6) == 390
    assert linear.solve("B", activation_bytes=1000) == 3
    # 650 parameters with gradients and two states in four bytes, two counters, and 256 bytes an example.
    assert linear.solve("B", memory="1MB") == (10**6 - 16 * 650 - 2 * 4) // 256
    assert linear.memory(B=3).total == 16 * 650 + 2 * 4 + 3 * 256


def test_a_budget_in_multiples() -> None:
    cost = derive(lambda D: nn.Linear(D, D, bias=False), "B D", multiples={"D": 8})
    assert cost.solve("D", flops=2 * 30**2, B=1) == 24


def test_memory_is_formulas_or_quantities(linear: Cost) -> None:
    assert linear.memory().parameters == Integer(2600)
    assert linear.memory(B=2).activations == 512
    assert repr(linear.memory("sgd", B=2).total) == "5,712 bytes"


def test_what_fits(linear: Cost) -> None:
    fit = linear.fits("1MB", B=8)
    assert fit
    assert fit.total == sum(fit.parts.values())
    assert not linear.fits(1e3, B=8)
    assert linear.fits("cpu", B=8).available > 10**8
    with pytest.raises(CostError, match="'much' is neither bytes nor a device"):
        linear.fits("much", B=8)


def test_submodules_have_costs_of_their_own() -> None:
    net = nn.Sequential(nn.Linear(4, 8), nn.Sequential(nn.ReLU(), nn.Linear(8, 2)))
    cost = derive(net, "B 4")
    assert list(cost.modules) == ["0", "1", "1.0", "1.1"]
    assert str(cost.modules["0"].flops) == "64*B"
    assert cost.modules["1"].at(B=3).flops == 96
    assert cost.modules["1"].at(B=10**6).flops == 32 * 10**6
    assert cost.modules["1"].modules["1.1"].parameters == 18
    assert list(cost.modules["1"].table().columns[0].cells) == ["Sequential.1", "0 (ReLU)", "1 (Linear)"]
    with pytest.raises(CostError, match="cannot be run alone to time it"):
        cost.modules["0"].time("cpu", B=1)


def test_a_budget_is_searched_by_counts_where_there_is_no_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    lstm = derive(nn.LSTM(4, 6), "T B 4")
    batch = lstm.solve("B", memory=10**7, T=9)
    assert batch.label == "counted"
    assert lstm.memory("adamw", T=9, B=batch).total <= 10**7 < lstm.memory("adamw", T=9, B=int(batch) + 1).total
    assert lstm.fits(10**8, T=9, B=batch)
    # Where the kernel would take long, the sizes before tell.
    workspace._measured.cache_clear()
    monkeypatch.setattr(workspace, "MOST_FLOPS", 2 * 10**6)
    longer = derive(nn.LSTM(4, 6), "T B 4").solve("B", memory=10**7, T=9)
    assert longer.label == "extrapolated"
    assert abs(int(longer) - int(batch)) < 0.1 * int(batch)


def test_a_cost_shows_itself_in_two_lines(linear: Cost) -> None:
    formulas, verdict = repr(linear).splitlines()
    assert "forward FLOPs 1280*B," in formulas
    assert verdict == linear.verdict
    assert len(repr(linear)) < 250


def test_a_table_of_100_columns_and_one_with_mathml(linear: Cost) -> None:
    lines = str(linear.table()).splitlines()
    assert max(map(len, lines)) <= 100
    assert any("1280*B" in line for line in lines)
    assert linear.findings in str(linear.table())
    assert linear.conventions.text in str(linear.table())
    html = linear._repr_html_()
    assert html.count("<math>") == 4
    assert "<mi>B</mi>" in html
    wrong: Any = "size"
    with pytest.raises(RecipeError, match="a table goes by module or by path, got 'size'"):
        linear.table(by=wrong)


def test_json_has_the_keys_of_old_and_the_labels(linear: Cost) -> None:
    record = json.loads(json.dumps(linear.to_json(B=2)))
    assert record["at"] == {
        "parameters": 650,
        "flops": 2560,
        "backward_flops": 5120,
        "activation_bytes": 512,
        "backward": 5120,
        "saved": 512,
    }
    assert record["labels"] == dict.fromkeys(KINDS, "by formula")
    assert record.keys() >= {*KINDS, "fixed", "modules", "conventions", "uncounted", "verdict"}


def powered(x: Tensor, kind: str = "linear") -> Tensor:
    return x @ x.mT if kind == "quadratic" else x


def test_strings_among_kwargs_are_strings() -> None:
    cost = derive(powered, "B D", kwargs={"kind": "quadratic"})
    assert cost.letters == ("B", "D")
    assert str(cost.flops) == "2*B**2*D"


def test_a_mapping_names_inputs_of_modules_functions_and_factories() -> None:
    assert str(derive(nn.Bilinear(5, 5, 3), {"input1": "B 5", "input2": "B 5"}).parameters) == "78"
    assert str(derive(powered, {"x": "B D"}, kwargs={"kind": "quadratic"}).flops) == "2*B**2*D"
    assert str(derive(lambda D: nn.Linear(D, 3, bias=False), {"input": "B D"}).flops) == "6*B*D"
    with pytest.raises(ShapeError, match="is given kind among its inputs and in kwargs"):
        derive(powered, "B D", {"kind": 1}, kwargs={"kind": "linear"})


def test_a_mapping_that_names_no_argument_is_an_input() -> None:
    class Reading(nn.Module):
        def forward(self, batch: dict[str, Tensor]) -> Tensor:
            return batch["left"] @ batch["right"]

    assert str(derive(Reading(), {"left": "B D", "right": "D H"}).flops) == "2*B*D*H"


def test_training_and_evaluation() -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
    kept = {mode: derive(net, "B 4", training=mode).activation_bytes for mode in (True, False, None)}
    assert kept[True] != kept[False]
    assert kept[None] == kept[True]
    assert net.training
    assert derive(net.eval(), "B 4", training=True).activation_bytes == kept[True]
    assert not net.training


def test_another_dtype_leaves_the_module_as_it_was() -> None:
    net = nn.Linear(4, 4)
    cost = derive(net, "B 4", dtype=torch.float64)
    assert str(cost.activation_bytes) == "32*B"
    cost.target.call({"B": 2}, torch.device("cpu"))
    assert net.weight.dtype == torch.float32


def test_a_device_that_is_not_there() -> None:
    for device in ("tpu", "mps"):
        with pytest.raises(DeviceError, match=f"{device}"):
            derive(nn.Linear(4, 4), "B 4", device=device)


class Looping(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        for _ in range(x.shape[0]):
            x = x + 1
        return x


class Cutting(nn.Module):
    """Few operators, of which one makes a tensor for each step."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack(x.unbind()) + 1


@pytest.mark.parametrize("module", [Looping(), Cutting()], ids=["operators", "outputs"])
def test_a_long_count_is_given_up(module: nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    cost = derive(module, "T B : data")  # no backward pass, which has more operators
    monkeypatch.setattr(reading, "MOST_OPERATORS", 300)
    assert cost.under(elementwise=True).at(T=100, B=2).flops.label == "by formula"
    assert cost.under(elementwise=True).at(T=2000, B=2).flops.label == "extrapolated"


def test_solve_counts_the_answer_and_the_next_size_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[int] = []
    count = reading.CostReading._count

    def noting(self: reading.CostReading, *how: bool) -> dict[str, int] | str | None:
        counted.append(self.sizes["B"])
        return count(self, *how)

    monkeypatch.setattr(reading.CostReading, "_count", noting)
    assert derive(nn.Linear(64, 10), "B D").solve("B", flops=1e6) == 781
    assert counted == [781, 782]


def test_what_is_no_cost_no_device_no_type_and_no_number_is_told(linear: Cost) -> None:
    module = nn.Linear(2, 3)
    with pytest.raises(RecipeError, match=r"Cost.crossover got Linear\(.*, expected what porism.cost returns\."):
        linear.crossover(module, "B")  # type: ignore[arg-type]
    with pytest.raises(DeviceError, match=r"'tpu' is no device: .* Use cpu or cuda\."):
        linear.time("tpu", B=1)
    with pytest.raises(
        ShapeError, match=r"dtype is 'half', expected one of torch's, such as torch.bfloat16, or None\."
    ):
        derive(module, "B 2", dtype="half")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "budget",
    [math.nan, math.inf, -5, 0, 0.0, True, [], 10**400, -(10**5000)],
    ids=["nan", "inf", "-5", "0", "0.0", "True", "list", "10**400", "-10**5000"],
)
def test_a_budget_is_a_finite_number_above_zero(linear: Cost, budget: Any) -> None:
    with pytest.raises(RecipeError, match=r"^cost: the budget is .*, expected a finite number above 0\.$"):
        linear.solve("B", flops=budget)
    with pytest.raises(RecipeError, match=r"^cost: the budget is .*, expected a finite number above 0\.$"):
        linear.solve("B", seconds=budget)
    with pytest.raises(RecipeError, match=r"^cost: the memory is .*, expected a finite number above 0\.$"):
        linear.solve("B", memory=budget)
    with pytest.raises(RecipeError, match=r"^cost: the memory is .*, expected a finite number above 0\.$"):
        linear.fits(budget, B=8)


def test_a_text_is_a_budget_of_memory_only(linear: Cost) -> None:
    budget: Any = "1e6"
    with pytest.raises(RecipeError, match=r"^cost: the budget is '1e6', expected a finite number above 0\.$"):
        linear.solve("B", flops=budget)
    for text in ("0GB", f"{'9' * 400}GB"):
        with pytest.raises(RecipeError, match=r"^cost: the memory of '.*' is .*, expected a finite number above 0\.$"):
            linear.fits(text, B=8)


def test_numbers_of_every_kind_are_budgets(linear: Cost) -> None:
    budgets: list[Any] = [10**6, numpy.int64(10**6), numpy.float32(1e6), Fraction(10**6), Quantity(10**6)]
    for budget in budgets:
        assert linear.solve("B", flops=budget) == 781
        assert linear.fits(budget, B=8).available == 10**6


@pytest.mark.parametrize("size", [2.5, "2", True, 0, -1, None], ids=repr)
@pytest.mark.parametrize("argument", ["multiples", "largest", "fixed"])
def test_letters_are_given_whole_numbers(argument: str, size: Any) -> None:
    given: Any = {argument: {"B": size}}
    with pytest.raises(RecipeError, match=r"^cost: B=.* is no size\. Give a whole number from 1 on\.$"):
        derive(nn.Linear(3, 4), "B 3", **given)


@pytest.mark.parametrize("argument", ["multiples", "largest", "fixed"])
def test_letters_come_with_their_numbers(argument: str) -> None:
    given: Any = {argument: 8}
    with pytest.raises(RecipeError, match=rf"^cost: {argument} is 8, expected letters with sizes, such as "):
        derive(nn.Linear(3, 4), "B 3", **given)


@pytest.mark.parametrize(("letter", "step"), [("B", 10**30), ("D", 8)])
def test_a_letter_is_not_fixed_at_what_is_no_multiple(letter: str, step: int) -> None:
    with pytest.raises(RecipeError, match=f"Linear runs at {letter}=3, and at no multiple of {step} that was tried"):
        derive(nn.Linear(3, 4), "B D", multiples={letter: step})


def test_letters_may_be_given_numbers_of_numpy() -> None:
    eights: Any = numpy.int64(8)
    cost = derive(lambda D: nn.Linear(D, D, bias=False), "B D", multiples={"D": eights})
    assert cost.multiples == {"D": 8}
