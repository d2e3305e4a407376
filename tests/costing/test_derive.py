"""Formulas that fall out of code nobody annotated."""

import random
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
import torch
from sympy import expand
from tests.costing.layer_costs import layer_cost
from torch import Tensor, nn

from porism.costing.alphabet import SYMBOLS, A, B, D, H, T, V
from porism.costing.cost import Cost
from porism.costing.derive import derive
from porism.costing.module_row import KINDS
from porism.costing.predicting.memory import OPTIMIZERS
from porism.errors import CostError, PorismError, RecipeError, ShapeError
from porism.layers.cases import LAYERS


def same(formula: Any, expected: Any) -> bool:
    return bool(expand(formula - expected) == 0)


CASES: dict[str, tuple[Any, tuple[str, ...], Any, Any]] = {
    "linear": (lambda D, H: nn.Linear(D, H), ("B D",), H * (D + 1), 2 * B * D * H),
    "rnn": (lambda D, H: nn.RNN(D, H), ("T B D",), H * (D + H + 2), 2 * B * T * H * (D + H)),
    "lstm": (lambda D, H: nn.LSTM(D, H), ("T B D",), 4 * H * (D + H + 2), 8 * B * H * T * (D + H)),
    "embedding": (lambda V, D: nn.Embedding(V, D), ("B T : int",), V * D, 0),
    "attention": (nn.functional.scaled_dot_product_attention, ("B A T D",) * 3, 0, 4 * A * B * T**2 * D),
    "two layers": (
        lambda D, H: nn.Sequential(nn.Linear(D, H), nn.ReLU(), nn.Linear(H, D)),
        ("B D",),
        2 * D * H + D + H,
        4 * B * D * H,
    ),
}


@pytest.mark.sweep(2)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_parameters_and_flops_are_what_a_hand_counts(case: tuple[Any, tuple[str, ...], Any, Any]) -> None:
    target, inputs, parameters, flops = case
    derived = derive(target, *inputs)
    assert same(derived.parameters, parameters)
    assert same(derived.flops, flops)
    # The kernel of nn.LSTM keeps whole pages of memory, which is no polynomial.
    paged = target is CASES["lstm"][0]
    assert derived.verdict.startswith("no formula for bytes kept for the backward pass" if paged else "exact on")
    assert not derived.uncounted


def test_a_letter_the_module_has_fixed_becomes_its_number() -> None:
    derived = derive(nn.Linear(64, 10), "B T D")
    assert derived.fixed == {"D": 64}
    assert derived.letters == ("B", "T")
    assert same(derived.flops, 1280 * B * T)
    with pytest.raises(RecipeError, match="Linear has no letter D to set. D is fixed at 64. Letters: B, T."):
        derived.at(B=1, T=1, D=64)


def test_sizes_that_do_not_fit_are_tried_in_silence(capfd: pytest.CaptureFixture[str]) -> None:
    derive(nn.Linear(64, 10), "B T D")
    assert capfd.readouterr() == ("", "")


def test_submodules_have_their_own_rows_and_the_whole_is_first() -> None:
    derived = derive(lambda D, H: nn.Sequential(nn.Linear(D, H), nn.Tanh(), nn.Linear(H, 1)), "B D")
    assert [row.path for row in derived] == ["", "0", "1", "2"]
    assert same(derived.rows[1].fitted["flops"].formula, 2 * B * D * H)
    assert same(derived.rows[3].fitted["flops"].formula, 2 * B * H)


class Looping(nn.Module):
    """A loop over a length, as people write it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.step = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        state = torch.zeros_like(x[0])
        for now in x:
            state = torch.tanh(self.step(state) + now)
        return state


def test_a_loop_over_a_length_is_part_of_the_formula() -> None:
    assert same(derive(lambda D: Looping(D), "T B D").flops, 2 * B * T * D**2)


def test_a_stride_leaves_a_floor_in_the_formula() -> None:
    derived = derive(nn.Conv1d(1, 1, 3, stride=2), "B 1 T")
    for size in (9, 10, 101, 1000):
        assert derived.at(recount=False, B=2, T=size)["flops"] == 2 * 2 * 3 * ((size - 3) // 2 + 1)


@pytest.mark.sweep(1)
@pytest.mark.parametrize("name", LAYERS)
def test_every_layer_costs_by_hand_what_its_code_costs(name: str) -> None:
    place = import_module(f"{LAYERS[name]}.cost")
    multiples = getattr(place, "MULTIPLES", {})
    derived = layer_cost(name)
    hand = getattr(place, "subject_cost", place.cost)()
    assert same(derived.parameters, hand.total("parameters"))
    forward = derived.flops - hand.total("flops")
    # No layer needs a gradient of its first state.
    backward = derived.backward_flops - hand.total("backward_flops") + (2 * B * H**2 if name == "elman" else 0)
    # Floors and branches can be written in many ways, so the two are compared at sizes.
    draw = random.Random(0)
    for most in (4, 20, 300):
        for _ in range(8):
            sizes = {letter: multiples.get(letter, 1) * draw.randint(1, most) for letter in derived.letters}
            at = {SYMBOLS[letter]: size for letter, size in sizes.items()}
            assert (forward.subs(at), backward.subs(at)) == (0, 0), sizes


def test_a_gradient_that_is_computed_with_the_loss_counts_as_backward() -> None:
    derived = layer_cost("readout")
    assert same(derived.flops, 2 * B * T * H * V)
    assert same(derived.backward_flops, 2 * B * T * V * (2 * H + 1))
    # It stands in the row of the module that computes it, and the verdict says so.
    assert same(derived.modules["readout"].flops, derived.flops)
    assert same(derived.modules["readout"].backward_flops, derived.backward_flops)
    assert "the gradient that readout computes in the forward pass counts as backward" in derived.verdict


@pytest.fixture(scope="module")
def attention() -> Cost:
    return derive(nn.functional.scaled_dot_product_attention, *("B 1 T 64",) * 3)


@pytest.fixture(scope="module")
def product() -> Cost:
    return derive(lambda D: nn.Linear(D, D, bias=False), "B T D")


def test_sizes_can_be_put_in(product: Cost) -> None:
    assert [int(product.at(B=2, T=3, D=5)[kind]) for kind in KINDS] == [25, 300, 600, 120]


def test_a_budget_can_be_solved_for(attention: Cost) -> None:
    length = attention.solve("T", flops=1e12, B=1)
    assert attention.at(B=1, T=length)["flops"] <= 1e12 < attention.at(B=1, T=int(length) + 1)["flops"]
    with pytest.raises(CostError, match="exceed 1 at T=1. Give a larger budget."):
        attention.solve("T", flops=1, B=1)


def test_where_one_overtakes_the_other(attention: Cost, product: Cost) -> None:
    # 4 T^2 64 against 2 T 4096: equal at T = 32.
    assert attention.crossover(product, "T", B=1, D=64).size == 33
    assert product.crossover(attention, "T", B=1, D=64).changes == ((1, 1), (32, 0), (33, -1))


def test_formulas_can_be_taken_home(product: Cost) -> None:
    assert product.latex("flops") == "2 B D^{2} T"
    assert product.to_json(B=1, T=1, D=2)["at"]["flops"] == 8
    assert product.to_json()["flops"] == "2*B*D**2*T"
    assert "<mi>D</mi>" in product.mathml("flops")


def raising(x: Tensor) -> Tensor:
    raise RuntimeError("nothing works today")


MISTAKES: dict[str, tuple[Callable[[], Any], str]] = {
    "a module that raises": (lambda: derive(raising, "B T"), "nothing works today"),
    "letters and other things": (lambda: derive(lambda D, x: x, "B"), "takes D, x: letters and other things"),
    "sizes that never fit": (
        lambda: derive(nn.Linear(4, 4), "B 5"),
        "Linear runs at no size that was tried. At B=3 it raised RuntimeError: .* Check the inputs",
    ),
    "letters that clash": (
        lambda: derive(nn.Bilinear(4, 5, 6), "B D", "B D"),
        "Bilinear runs at no size that was tried.* a letter means the same size wherever it stands",
    ),
    "examples that clash": (
        lambda: derive(nn.Bilinear(4, 5, 6), (torch.zeros(2, 4), "B D"), (torch.zeros(2, 5), "B D")),
        "the letter D is 4 in one example and 5 in another",
    ),
    "an example with other sizes": (
        lambda: derive(nn.Linear(4, 4), (torch.zeros(2, 4), "B 5")),
        "'B 5' does not name the sizes of an example of .2, 4.",
    ),
    "a factory that raises": (lambda: derive(lambda D: nn.Linear(D, -D), "B D"), "<lambda> runs at no size"),
    "multiples of a letter that is none": (
        lambda: derive(nn.Linear(4, 4), "B 4", multiples={"Q": 2}),
        "Linear has no letter Q to take multiples of. Letters: B.",
    ),
    "a letter that does not occur": (
        lambda: derive(nn.Linear(4, 4), "B 4").at(B=1, Q=2),
        "Linear has no letter Q to set. Letters: B.",
    ),
    "a kind that is none": (lambda: derive(nn.Linear(4, 4), "B 4").formula("speed"), "there is no kind 'speed'"),
    "a missing size": (lambda: derive(nn.Linear(4, 4), "B 4").at(), "Linear needs numbers for B too"),
    "a size of zero": (lambda: derive(nn.Linear(4, 4), "B 4").at(B=0), "B=0 is no size"),
}


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_one_clear_line(mistake: tuple[Callable[[], Any], str]) -> None:
    make, message = mistake
    with pytest.raises(PorismError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_letters_outside_the_alphabet_are_letters_too() -> None:
    derived = derive(nn.Linear(4, 2), "Batch 4")
    assert {str(symbol) for symbol in derived.flops.free_symbols} == {"Batch"}
    assert "Batch" not in SYMBOLS
    with pytest.raises(ShapeError, match="the letter 'batch' is small. Letters begin with a capital: 'Batch'"):
        derive(nn.Linear(4, 2), "batch 4")
    with pytest.raises(ShapeError, match="a function that makes an input takes letters, and 'b' is none"):
        derive(nn.Linear(4, 2), lambda b: torch.zeros(b, 4))


def test_conventions_are_stated_and_switch() -> None:
    derived = derive(lambda x: nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True).relu(), "B A T D")
    assert same(derived.flops, 4 * A * B * T**2 * D)
    assert derived.to_json()["conventions"].startswith("2 for a multiply-add, causal products in full")
    assert same(derived.under(causal="half").flops, 2 * A * B * T**2 * D)
    assert same(derived.under(macs=True).backward_flops, derived.backward_flops / 2)
    assert same(derived.under(elementwise=True).flops, derived.flops + A * B * T * D)
    assert derived.under(macs=True).titles["flops"] == "forward MACs"
    assert derived.under(macs=True, causal="half").at(A=1, B=1, T=4, D=2)["flops"] == 32
    wrong: Any = "quarter"
    with pytest.raises(RecipeError, match="causal products count in 'full' or 'half', got 'quarter'"):
        derived.under(causal=wrong)


def test_training_memory_equals_what_torch_keeps() -> None:
    net = nn.Sequential(nn.Linear(6, 10), nn.Tanh(), nn.Linear(10, 3))
    derived = derive(net, "B 6")
    kinds: dict[str, torch.optim.Optimizer] = {
        "sgd": torch.optim.SGD(net.parameters(), lr=0.1),
        "momentum": torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9),
        "rmsprop": torch.optim.RMSprop(net.parameters()),
        "adagrad": torch.optim.Adagrad(net.parameters()),
        "adam": torch.optim.Adam(net.parameters()),
        "adamw": torch.optim.AdamW(net.parameters()),
    }
    assert set(kinds) == set(OPTIMIZERS)
    for name, optimizer in kinds.items():
        net(torch.zeros(2, 6)).sum().backward()
        optimizer.step()
        kept = [part for state in optimizer.state.values() for part in state.values() if isinstance(part, Tensor)]
        assert derived.memory(name).optimizer == sum(tensor.nbytes for tensor in kept)
    memory = derived.memory("adam")
    assert memory.gradients == memory.parameters == sum(parameter.nbytes for parameter in net.parameters())
    assert same(memory.total, memory.parameters * 4 + 4 * 4 + derived.activation_bytes)
    with pytest.raises(RecipeError, match="'lion' is no optimizer known here. Choose from sgd, momentum"):
        derived.memory("lion")


def test_a_stack_of_equal_layers_is_one_row_of_the_table() -> None:
    stack = derive(nn.Sequential(*(nn.Linear(4, 4) for _ in range(6)), nn.Linear(4, 9)), "B 4")
    assert list(stack.table().columns[0].cells) == ["Sequential", "* (Linear) × 6", "6 (Linear)"]
    assert list(stack.table(by="path").columns[0].cells) == ["Sequential", *(f"{n} (Linear)" for n in range(7))]
    assert list(stack.table(depth=0).columns[0].cells) == ["Sequential"]


def test_a_batch_of_one_that_goes_another_way_is_told_of_and_counted() -> None:
    derived = derive(lambda x: x @ x.mT if len(x) > 1 else 2 * x, "B T")
    assert derived.flops == 2 * B**2 * T
    assert (
        "; forward FLOPs from B=2 on; backward FLOPs from B=2 on; bytes kept for the backward pass from B=2 on"
        in derived.verdict
    )
    assert [int(derived.at(B=1, T=7)[kind]) for kind in KINDS] == [0, 0, 0, 0]
    assert derived.at(B=1, T=7).flops.label == "counted"
    assert derived.at(B=2, T=7)["flops"] == 56


def test_memory_at_sizes_needs_no_formula_of_what_is_kept() -> None:
    def some_rows(x: Tensor) -> Tensor:
        # As many as the length has ones in binary, which no formula tells.
        return (x[: x.shape[0].bit_count()] * 1).exp().sum()

    derived = derive(some_rows, "T D")
    with pytest.raises(CostError, match="no formula was found for the bytes kept"):
        derived.memory("adam")
    for size in (5, 7, 8):
        assert derived.memory("adam", T=size, D=3).activations == 4 * 3 * size.bit_count()


def test_a_refusal_comes_after_so_many_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("porism.costing.derive.MOST_ATTEMPTS", 20)
    calls = []

    class Wide(nn.Module):
        """Of many widths, and never content with its input."""

        def __init__(self) -> None:
            super().__init__()
            self.weights = nn.ParameterList(torch.zeros(width) for width in range(20, 60))

        def forward(self, x: Tensor) -> Tensor:
            calls.append(x.shape)
            raise ValueError("no size will do")

    with pytest.raises(ShapeError, match="no size will do"):
        derive(Wide(), "B T D")
    assert 20 < len(calls) < 60
