"""What holds for every layer."""

import copy
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from tests.layers.cases import CASES
from tests.layers.cases.case import Case, Inputs, Sizes
from torch import Tensor, nn

from porism.costing.counting.count import count
from porism.errors import ShapeError
from porism.layers import Elman, Readout
from porism.layers.cases import LAYERS
from porism.testing.gradients import gradients, relative_error

# Odd sizes, each letter once at 1 and once at something large.
SIZES: list[Sizes] = [
    {"B": 1, "T": 1, "D": 1, "H": 1, "V": 1, "C": 1, "Y": 1, "X": 1, "N": 1, "E": 1},
    {"B": 2, "T": 7, "D": 1, "H": 63, "V": 7, "C": 2, "Y": 3, "X": 7, "N": 7, "E": 23},
    {"B": 7, "T": 2, "D": 63, "H": 7, "V": 2, "C": 63, "Y": 7, "X": 1, "N": 2, "E": 3},
    {"B": 63, "T": 1, "D": 2, "H": 1, "V": 63, "C": 7, "Y": 1, "X": 2, "N": 63, "E": 200},
    {"B": 1, "T": 63, "D": 7, "H": 2, "V": 1, "C": 1, "Y": 2, "X": 63, "N": 2, "E": 4},
]
TWICE = ("elman", "gcn", "lstm")
"""Layers with second derivatives, as torch's own have them."""
EXACT = 1e-12
GRADIENT = 1e-10
# torch.compile itself calls what torch deprecates.
compiling = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def size_name(sizes: Sizes) -> str:
    return "".join(f"{letter}{size}" for letter, size in sizes.items())


each_layer = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
each_size = pytest.mark.parametrize("sizes", SIZES, ids=size_name)


@pytest.fixture(autouse=True)
def _fixed_seed() -> None:
    torch.manual_seed(0)


@pytest.fixture
def _poisoned_memory() -> Iterator[None]:
    """Memory that nobody has written to reads as NaN."""
    torch.use_deterministic_algorithms(True)
    assert torch.empty(3).isnan().all()
    yield
    torch.use_deterministic_algorithms(False)


def prepare(case: Case, sizes: Sizes, dtype: torch.dtype = torch.float64) -> tuple[nn.Module, Inputs]:
    """A layer and inputs for it; all that can asks for a gradient. Biases are drawn too: zeros would hide them.

    The wider a matrix, the smaller its numbers: logits in the hundreds would test the rounding and not the layer.
    """
    layer = case.build(sizes).to(torch.float64)
    inputs = {n: v.double() if v.is_floating_point() else v for n, v in case.inputs(sizes).items()}
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=parameter.shape[-1] ** -0.5 if parameter.ndim > 1 else 0.5)
    inputs = {n: v.to(dtype).requires_grad_() if v.is_floating_point() else v for n, v in inputs.items()}
    return layer.to(dtype), inputs


def learned(layer: nn.Module, inputs: Inputs) -> dict[str, Tensor]:
    """Everything that gets a gradient."""
    everything = dict(layer.named_parameters()) | inputs
    return {name: value for name, value in everything.items() if value.requires_grad}


def gradients_of(run: Callable[[Any, Inputs], Tensor], layer: nn.Module, inputs: Inputs) -> dict[str, Tensor]:
    """The gradient of a weighted sum of the answer, the weights fixed and all different."""
    answer = run(layer, inputs)
    weights = torch.linspace(-1, 2, answer.numel(), dtype=answer.dtype, device=answer.device).view_as(answer)
    variables = learned(layer, inputs)
    return dict(zip(variables, torch.autograd.grad((answer * weights).sum(), list(variables.values())), strict=True))


def assert_close(found: dict[str, Tensor], wanted: dict[str, Tensor], tolerance: float) -> None:
    assert found.keys() == wanted.keys()
    errors = {n: relative_error(found[n].double().cpu(), wanted[n].double().cpu()) for n in wanted}
    assert all(error <= tolerance for error in errors.values()), errors


def test_every_layer_has_a_case() -> None:
    assert sorted(CASES) == list(LAYERS)


@pytest.mark.sweep(2, each="case")
@each_layer
@each_size
def test_layer_equals_naive(case: Case, sizes: Sizes) -> None:
    layer, inputs = prepare(case, sizes)
    assert_close({"": case.run(layer, inputs)}, {"": case.naive(layer, inputs)}, EXACT)


@pytest.mark.sweep(2, each="case")
@each_layer
@each_size
def test_layer_gradient_equals_autograd_of_naive(case: Case, sizes: Sizes) -> None:
    layer, inputs = prepare(case, sizes)
    assert_close(gradients_of(case.run, layer, inputs), gradients_of(case.naive, layer, inputs), GRADIENT)


@pytest.mark.sweep(2)
@pytest.mark.parametrize("name", LAYERS)
def test_gradient_by_hand_equals_autograd_and_differences(name: str) -> None:
    checks = gradients([name])
    assert {check.name.rsplit(".", 1)[1] for check in checks} == {"autograd", "differences"}
    assert [check for check in checks if check.verdict != "pass"] == []


@each_layer
@pytest.mark.usefixtures("_poisoned_memory")
def test_no_memory_is_read_before_it_is_written(case: Case) -> None:
    layer, inputs = prepare(case, SIZES[1])
    assert_close({"": case.run(layer, inputs)}, {"": case.naive(layer, inputs)}, EXACT)
    assert_close(gradients_of(case.run, layer, inputs), gradients_of(case.naive, layer, inputs), GRADIENT)


@each_layer
def test_frozen_parts_get_no_gradient_and_the_others_the_same(case: Case) -> None:
    layer, inputs = prepare(case, SIZES[1])
    wanted = gradients_of(case.run, layer, inputs)
    for name in wanted:
        alone = copy.deepcopy(layer).requires_grad_(False)
        rest = {n: v.detach() for n, v in inputs.items()}
        (dict(alone.named_parameters()) | rest)[name].requires_grad_()
        assert_close(gradients_of(case.run, alone, rest), {name: wanted[name]}, GRADIENT)


@pytest.mark.sweep(1, each="case")
@each_layer
@each_size
def test_cost_equals_the_count(case: Case, sizes: Sizes) -> None:
    layer, inputs = prepare(case, sizes)
    wanted = case.cost().at(**sizes)
    assert sum(parameter.numel() for parameter in layer.parameters()) == wanted["parameters"]
    with torch.no_grad():
        assert count(case.run, layer, inputs, backward=False).flops == wanted["flops"]
    training = count(case.run, layer, inputs)
    assert (training.flops, training.backward_flops) == (wanted["flops"], wanted["backward_flops"])
    assert not training.uncounted


@pytest.mark.sweep(1, each="case")
@each_layer
@each_size
def test_cost_equals_what_is_saved(case: Case, sizes: Sizes) -> None:
    layer, inputs = prepare(case, sizes)
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes() // tensor.itemsize
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        # The answer is held, so that no storage is freed and its address used again.
        answer = case.run(layer, inputs)
    for parameter in layer.parameters():
        kept.pop(parameter.untyped_storage().data_ptr(), None)
    assert answer.requires_grad
    assert sum(kept.values()) == case.cost().at(**sizes)["saved"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        pytest.param(mistake.call, mistake.message, id=f"{name}-{mistake.name}")
        for name, case in CASES.items()
        for mistake in case.mistakes
    ],
)
def test_a_mistake_is_explained(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ShapeError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


@each_layer
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 5e-2)], ids=str)
def test_lower_precision(case: Case, dtype: torch.dtype, tolerance: float) -> None:
    layer, inputs = prepare(case, SIZES[1], dtype)
    exact = copy.deepcopy(layer).double()
    exact_inputs = {n: v.detach().double().requires_grad_() if v.requires_grad else v for n, v in inputs.items()}
    found = gradients_of(case.run, layer, inputs)
    assert {n: v.dtype for n, v in found.items()} == {n: v.dtype for n, v in learned(layer, inputs).items()}
    assert_close({"": case.run(layer, inputs)}, {"": case.naive(exact, exact_inputs)}, tolerance)
    assert_close(found, gradients_of(case.naive, exact, exact_inputs), tolerance)


@pytest.mark.sweep(1, each="case")
@compiling
@each_layer
@pytest.mark.parametrize("sizes", SIZES[:3], ids=size_name)
def test_compiles_without_a_break(case: Case, sizes: Sizes) -> None:
    torch.compiler.reset()
    layer, inputs = prepare(case, sizes)
    compiled = torch.compile(case.run, fullgraph=True, backend="aot_eager", dynamic=False)
    assert_close({"": compiled(layer, inputs)}, {"": case.run(layer, inputs)}, EXACT)
    assert_close(gradients_of(compiled, layer, inputs), gradients_of(case.run, layer, inputs), GRADIENT)


@pytest.mark.sweep(0)
@compiling
@pytest.mark.skipif(shutil.which("c++") is None, reason="inductor needs a C++ compiler")
def test_inductor_compiles_layers_together() -> None:
    torch.compiler.reset()
    recurrent, readout = Elman(3, 5).double(), Readout(5, 9).double()
    x, y = torch.randn(2, 2, 3, dtype=torch.float64), torch.randint(9, (2, 2))

    def loss() -> Tensor:
        return readout.loss(recurrent(x)[0], y)

    parameters = [*recurrent.parameters(), *readout.parameters()]
    wanted = torch.autograd.grad(loss(), parameters)
    found = torch.autograd.grad(torch.compile(loss, fullgraph=True)(), parameters)
    assert max(relative_error(a, b) for a, b in zip(found, wanted, strict=True)) <= GRADIENT


@each_layer
def test_runs_without_memory_for_the_numbers(case: Case) -> None:
    sizes = {"B": 7, "T": 2, "D": 1000, "H": 10**6, "V": 10**6, "C": 3, "Y": 2, "X": 5, "N": 7, "E": 23}
    with torch.device("meta"):
        layer, inputs = case.build(sizes), case.inputs(sizes)
    case.run(layer, inputs).sum().backward()
    assert all(parameter.grad is not None for parameter in layer.parameters())


@each_layer
def test_state_dict_loads_strictly(case: Case) -> None:
    layer, inputs = prepare(case, SIZES[1])
    twin, _ = prepare(case, SIZES[1])
    assert not torch.equal(case.run(twin, inputs), case.run(layer, inputs))
    twin.load_state_dict(layer.state_dict(), strict=True)
    assert torch.equal(case.run(twin, inputs), case.run(layer, inputs))
    first, *rest = layer.state_dict().items()
    with pytest.raises(RuntimeError, match=first[0]):
        twin.load_state_dict(dict(rest), strict=True)


def second_derivatives(run: Callable[[Any, Inputs], Tensor], layer: nn.Module, inputs: Inputs) -> dict[str, Tensor]:
    variables = learned(layer, inputs)
    answer = run(layer, inputs)
    first = torch.autograd.grad(answer.sin().sum(), list(variables.values()), create_graph=True)
    second = torch.autograd.grad(torch.stack([part.square().sum() for part in first]).sum(), list(variables.values()))
    return dict(zip(variables, second, strict=True))


@pytest.mark.parametrize("name", [name for name in CASES if name not in TWICE])
def test_a_second_derivative_is_refused(name: str) -> None:
    layer, inputs = prepare(CASES[name], SIZES[1])
    # Torch's own kernel for softmax attention says so itself.
    words = r"first derivatives only, and .*\. Call its naive\.py|derivative for aten::\w*attention\w* is not implement"
    with pytest.raises(RuntimeError, match=words):
        second_derivatives(CASES[name].run, layer, inputs)


@pytest.mark.parametrize("name", TWICE)
def test_a_second_derivative_equals_autograd_of_naive(name: str) -> None:
    layer, inputs = prepare(CASES[name], SIZES[1])
    found = second_derivatives(CASES[name].run, layer, inputs)
    assert_close(found, second_derivatives(CASES[name].naive, layer, inputs), GRADIENT)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@each_layer
@each_size
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, GRADIENT), (torch.float32, 1e-4), (torch.bfloat16, 5e-2)], ids=str
)
def test_cuda_equals_naive(
    case: Case, sizes: Sizes, dtype: torch.dtype, tolerance: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    # TF32, which cuDNN uses unless told otherwise, rounds operands to ten bits.
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    layer, inputs = prepare(case, sizes, dtype)
    exact = copy.deepcopy(layer).double()
    exact_inputs = {n: v.detach().double().requires_grad_() if v.requires_grad else v for n, v in inputs.items()}
    layer = layer.cuda()
    inputs = {n: v.detach().cuda().requires_grad_(v.requires_grad) for n, v in inputs.items()}
    assert_close({"": case.run(layer, inputs)}, {"": case.naive(exact, exact_inputs)}, tolerance)
    found, wanted = gradients_of(case.run, layer, inputs), gradients_of(case.naive, exact, exact_inputs)
    assert_close(found, wanted, tolerance)
