"""linear_cross_entropy and Readout.loss are torch's own linear_cross_entropy, cross_entropy and nn.Linear."""

import inspect
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import grad, vmap
from torch.utils.flop_counter import FlopCounterMode

from porism.costing.counting.count import count
from porism.layers import Readout
from porism.layers.readout import linear_cross_entropy, naive
from porism.testing.gradients import relative_error

N, H, V = 23, 5, 9
OPTIONS: list[dict[str, Any]] = [
    {},
    {"reduction": "sum"},
    {"ignore_index": 3},
    {"label_smoothing": 0.1},
    {"ignore_index": -7, "label_smoothing": 1.0, "reduction": "sum"},
    {"ignore_index": 0, "label_smoothing": 0.3},
]
each_option = pytest.mark.parametrize("options", OPTIONS, ids=str)

# torch's transforms and compiler themselves call what torch deprecates.
pytestmark = [pytest.mark.usefixtures("double"), pytest.mark.filterwarnings("ignore::DeprecationWarning")]


def drawn(ignore_index: int = -100, **_: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    target = torch.randint(V, (N,))
    target[::4] = ignore_index
    shapes = ((N, H), (V, H), (V,))
    h, weight, bias = (torch.randn(shape, requires_grad=True) for shape in shapes)
    return h, weight, bias, target


def assert_same(found: Tensor, expected: Tensor, variables: tuple[Tensor, ...]) -> None:
    assert relative_error(found, expected) <= 1e-12
    for one, other in zip(torch.autograd.grad(found, variables), torch.autograd.grad(expected, variables), strict=True):
        assert relative_error(one, other) <= 1e-10


@each_option
@pytest.mark.parametrize("chunk", [None, 1, 4, 100])
def test_equals_torchs_cross_entropy_of_the_scores(options: dict[str, Any], chunk: int | None) -> None:
    h, weight, bias, target = drawn(**options)
    found = linear_cross_entropy(h, weight, target, linear_bias=bias, batch_chunk_size=chunk, **options)
    expected = nn.functional.cross_entropy(nn.functional.linear(h, weight, bias), target, **options)
    assert_same(found, expected, (h, weight, bias))
    with torch.no_grad():
        assert relative_error(linear_cross_entropy(h, weight, target, linear_bias=bias, **options), expected) <= 1e-12


@each_option
def test_equals_the_loops(options: dict[str, Any]) -> None:
    h, weight, _, target = drawn(**options)
    found = Readout(H, V, weight=nn.Parameter(weight.detach())).loss(h, target, **options | {"reduction": "sum"})
    rest = {name: value for name, value in options.items() if name != "reduction"}
    assert relative_error(found, naive.cross_entropy(h, weight, torch.zeros(V), target, **rest)) <= 1e-12


@pytest.mark.skipif(not hasattr(nn.functional, "linear_cross_entropy"), reason="torch has it from 2.13 on")
def test_is_called_as_torchs_own() -> None:
    ours, theirs = (inspect.signature(f).parameters for f in (linear_cross_entropy, nn.functional.linear_cross_entropy))
    shared = [name for name in theirs if name not in ("weight", "options")]
    assert [name for name in ours if name != "batch_chunk_size"] == shared
    assert all(ours[name].kind is theirs[name].kind for name in shared)
    h, weight, bias, target = drawn()
    assert_same(
        linear_cross_entropy(h, weight, target, linear_bias=bias),
        nn.functional.linear_cross_entropy(h, weight, target, linear_bias=bias),
        (h, weight, bias),
    )


def test_all_ignored_is_nan_as_in_torch_and_has_no_gradient_in_the_sum() -> None:
    h, weight, bias, _ = drawn()
    target = torch.full((N,), -100)
    assert linear_cross_entropy(h, weight, target, linear_bias=bias).isnan()
    total = linear_cross_entropy(h, weight, target, linear_bias=bias, reduction="sum")
    assert total == 0
    assert not any(part.any() for part in torch.autograd.grad(total, (h, weight, bias)))


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32])
def test_an_ignored_index_is_one_whatever_the_targets_are_kept_in(dtype: torch.dtype) -> None:
    h, weight, _, target = drawn(ignore_index=3)
    found = linear_cross_entropy(h, weight, target.to(dtype), ignore_index=3)
    assert torch.equal(found, linear_cross_entropy(h, weight, target, ignore_index=3))
    # In uint8 156 is -100, and no word.
    if dtype is torch.uint8:
        with pytest.raises(Exception, match="targets run from 0 to 156"):
            linear_cross_entropy(h, weight, torch.where(target == 3, 156, 0).to(dtype))


@pytest.mark.sweep(2)
@each_option
def test_compiles_with_rows_that_are_ignored(options: dict[str, Any]) -> None:
    h, weight, bias, target = drawn(**options)
    torch.compiler.reset()
    compiled = torch.compile(linear_cross_entropy, fullgraph=True, backend="aot_eager")
    expected = linear_cross_entropy(h, weight, target, linear_bias=bias, **options)
    assert_same(compiled(h, weight, target, linear_bias=bias, **options), expected, (h, weight, bias))


def test_torch_func_and_vmap() -> None:
    h, weight, _, target = drawn()
    expected = torch.autograd.grad(linear_cross_entropy(h, weight, target), (h, weight))
    found = grad(linear_cross_entropy, (0, 1))(h, weight, target)
    assert max(relative_error(one, other) for one, other in zip(found, expected, strict=True)) <= 1e-12

    def total(h: Tensor, weight: Tensor, target: Tensor) -> Tensor:
        return linear_cross_entropy(h, weight, target, reduction="sum")

    expected = torch.autograd.grad(total(h, weight, target), (h, weight))
    each = vmap(grad(total, 1), (0, None, 0))(h[:, None], weight, target[:, None])
    assert relative_error(each.sum(0), expected[1]) <= 1e-12
    inside = grad(lambda h: vmap(total, (0, None, 0))(h[:, None], weight, target[:, None]).sum())(h)
    assert relative_error(inside, expected[0]) <= 1e-12


def test_an_exported_loss_learns() -> None:
    h, _, _, target = drawn()

    class Loss(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.readout = Readout(H, V)

        def forward(self, h: Tensor, target: Tensor) -> Tensor:
            return self.readout.loss(h, target)

    module = Loss()
    exported = torch.export.export(module, (h, target))
    assert "porism.linear_cross_entropy.default" in [str(node.target) for node in exported.graph.nodes]
    program: Any = exported.module()
    found, expected = (
        torch.autograd.grad(m(h, target), m.get_parameter("readout.weight"))[0] for m in (program, module)
    )
    assert relative_error(found, expected) <= 1e-12


@pytest.mark.parametrize("asks", ["all", "weights", "h", "nothing"])
def test_the_registered_flops_are_the_counted_ones(asks: str) -> None:
    h, weight, bias, target = drawn()
    h.requires_grad_(asks in ("all", "h"))
    weight.requires_grad_(asks in ("all", "weights"))
    bias.requires_grad_(asks in ("all", "weights"))

    def run(h: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return linear_cross_entropy(h, weight, target, linear_bias=bias)

    with FlopCounterMode(display=False) as counter:
        run(h, weight, bias)
    inside = count(run, h, weight, bias, backward=False)
    # Torch asks when an operation runs; here the gradient counts as backward, though it is computed with the loss.
    assert counter.get_total_flops() == inside.flops + inside.backward_flops
    assert inside.flops > 0
    assert (inside.backward_flops > 0) == (asks != "nothing")
    assert not inside.uncounted


@pytest.mark.sweep(1, each="compiled")
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_a_batch_without_targets_has_no_mean_and_teaches_nothing(compiled: bool, smoothing: float) -> None:
    """As behind torch's own: the loss is no number, and no weight is changed by it."""
    torch.compiler.reset()
    input, weight = torch.randn(N, H, requires_grad=True), torch.randn(V, H, requires_grad=True)
    target = torch.full((N,), -100)
    ours = (
        torch.compile(linear_cross_entropy, fullgraph=True, backend="aot_eager") if compiled else linear_cross_entropy
    )
    found = ours(input, weight, target, label_smoothing=smoothing)
    expected = nn.functional.cross_entropy(input @ weight.mT, target, label_smoothing=smoothing)
    assert found.isnan()
    assert expected.isnan()
    for mine, torchs in zip(*(torch.autograd.grad(loss, (input, weight)) for loss in (found, expected)), strict=True):
        assert torch.equal(mine, torch.zeros_like(mine))
        assert torch.equal(mine, torchs)
