"""Grid against the loops over pixels: every cell, nonlinearity and direction, at odd sizes."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from porism.costing.counting.count import count
from porism.layers import Grid
from porism.layers.recurrent.grid import grid, naive
from porism.layers.recurrent.grid.cost import cost
from porism.layers.recurrent.grid.kernels.diagonals import DIRECTIONS
from porism.testing.gradients import relative_error

B, C, H = 2, 3, 5
SIZES = [(1, 1), (1, 7), (7, 1), (2, 3), (5, 9), (63, 2)]
each_size = pytest.mark.parametrize("size", SIZES, ids=str)
CELLS: list[dict[str, Any]] = [{"nonlinearity": name} for name in naive.ACTIVATIONS] + [{"cell": "lstm"}]
each_cell = pytest.mark.parametrize("cell", CELLS, ids=str)


pytestmark = pytest.mark.usefixtures("double")


def by_loops(layer: Grid, x: Tensor) -> list[Tensor]:
    """What each direction gives."""
    found = []
    for direction in layer.directions:
        suffix = "" if direction == "top-left" else "_" + direction.replace("-", "_")
        weights = (layer.get_parameter(f"{name}{suffix}").mT for name in ("weight_in", "weight_left", "weight_top"))
        W_in, W_left, W_top = weights
        b = layer.get_parameter(f"bias{suffix}") if layer.has_bias else None
        turned = naive.rotated(x, direction)
        if layer.cell == "lstm":
            h = naive.grid_lstm(turned, W_in, W_left, W_top, b)
        else:
            assert layer.nonlinearity is not None
            h = naive.grid(turned, W_in, W_left, W_top, b, layer.nonlinearity)
        found.append(naive.rotated(h, direction))
    return found


def assert_same(layer: Grid, x: Tensor, found: Tensor, wanted: Tensor, tolerance: float = 1e-12) -> None:
    """The answer and every gradient."""
    assert found.shape == wanted.shape
    assert relative_error(found, wanted) <= tolerance
    variables = [x, *layer.parameters()]
    weights = torch.randn(wanted.shape)
    pairs = zip(
        torch.autograd.grad(found, variables, weights), torch.autograd.grad(wanted, variables, weights), strict=True
    )
    assert max(relative_error(one, other) for one, other in pairs) <= tolerance


def drawn(Y: int, X: int, **options: Any) -> tuple[Grid, Tensor]:
    layer = Grid(C, H, **options)
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=0.4)
    return layer, torch.randn(B, C, Y, X, requires_grad=True)


@each_size
@each_cell
def test_equals_the_loops(size: tuple[int, int], cell: dict[str, Any]) -> None:
    layer, x = drawn(*size, bias=True, **cell)
    assert_same(layer, x, layer(x), by_loops(layer, x)[0])


@pytest.fixture
def _poisoned_memory() -> Iterator[None]:
    """Memory that nobody has written to reads as NaN."""
    torch.use_deterministic_algorithms(True)
    assert torch.empty(3).isnan().all()
    yield
    torch.use_deterministic_algorithms(False)


@each_cell
@pytest.mark.usefixtures("_poisoned_memory")
def test_no_memory_is_read_before_it_is_written(cell: dict[str, Any]) -> None:
    layer, x = drawn(3, 4, **cell)
    assert_same(layer, x, layer(x), by_loops(layer, x)[0])


@each_size
@pytest.mark.parametrize("cell", ["rnn", "lstm"])
def test_all_corners_side_by_side(size: tuple[int, int], cell: str) -> None:
    layer, x = drawn(*size, cell=cell, directions=4, merge_mode="concat")
    assert layer.directions == DIRECTIONS
    assert_same(layer, x, layer(x), torch.cat(by_loops(layer, x), 1))


@pytest.mark.parametrize("directions", [2, ("bottom-left",), ["top-right", "top-left"]], ids=str)
def test_corners_add_up(directions: Any) -> None:
    layer, x = drawn(3, 4, directions=directions, bias=True)
    assert_same(layer, x, layer(x), torch.stack(by_loops(layer, x)).sum(0))


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_pixel_sees_what_lies_towards_its_corner(direction: str) -> None:
    layer, x = drawn(5, 4, directions=(direction,), nonlinearity="tanh")
    (seen,) = torch.autograd.grad(layer(x)[:, :, 2, 1].sum(), x)
    vertical, horizontal = direction.split("-")
    rows = slice(0, 3) if vertical == "top" else slice(2, 5)
    columns = slice(0, 2) if horizontal == "left" else slice(1, 4)
    wanted = torch.zeros(5, 4, dtype=torch.bool)
    wanted[rows, columns] = True
    assert torch.equal((seen != 0).all(0).all(0), wanted)
    assert torch.equal((seen != 0).any(0).any(0), wanted)


def test_parameters() -> None:
    def number(**options: Any) -> int:
        return sum(parameter.numel() for parameter in Grid(C, H, **options).parameters())

    assert number() == 2 * H**2 + H * C
    assert number(bias=True) == 2 * H**2 + H * C + H
    assert number(cell="lstm") == 5 * number()
    assert number(directions=4) == 4 * number()


@pytest.mark.parametrize("cell", ["rnn", "lstm"])
@pytest.mark.parametrize("directions", [1, 2, 4])
def test_cost_equals_the_count(cell: str, directions: int) -> None:
    Y, X = 4, 3
    layer, x = drawn(Y, X, cell=cell, directions=directions, bias=True)
    wanted = cost(cell, bias=True, directions=directions).at(B=B, C=C, H=H, Y=Y, X=X)
    assert sum(parameter.numel() for parameter in layer.parameters()) == wanted["parameters"]
    counted = count(layer, x)
    assert (counted.flops, counted.backward_flops) == (wanted["flops"], wanted["backward_flops"])
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes() // tensor.itemsize
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        answer = layer(x)
    for parameter in layer.parameters():
        kept.pop(parameter.untyped_storage().data_ptr(), None)
    assert answer.requires_grad
    assert sum(kept.values()) == wanted["saved"]


def test_without_a_batch() -> None:
    layer, x = drawn(3, 4)
    assert torch.equal(layer(x[0]), layer(x[:1])[0])


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"cell": "lstm", "bias": True},
        {"directions": 4},
        {"directions": 2, "merge_mode": "concat", "nonlinearity": "relu"},
    ],
    ids=str,
)
def test_no_images(options: dict[str, Any]) -> None:
    layer, x = drawn(3, 4, **options)
    none = x.detach()[:0].requires_grad_()
    y = layer(none)
    assert y.shape == (0, *layer(x).shape[1:])
    y.sum().backward()
    assert none.grad is not None
    assert none.grad.shape == none.shape
    for parameter in layer.parameters():
        assert parameter.grad is not None
        assert not parameter.grad.any()


@each_cell
def test_nan_goes_where_it_goes_in_the_loops(cell: dict[str, Any]) -> None:
    layer, x = drawn(3, 4, **cell)
    with torch.no_grad():
        x[0, 0, 1, 1] = torch.nan
    y, wanted = layer(x), by_loops(layer, x)[0]
    assert wanted.isnan().any()
    torch.testing.assert_close(y, wanted, equal_nan=True)
    variables = [x, *layer.parameters()]
    pairs = (torch.autograd.grad(states[..., 1, 1].sum(), variables) for states in (y, wanted))
    torch.testing.assert_close(*pairs, equal_nan=True)


@pytest.mark.parametrize("memory_format", [torch.channels_last, torch.contiguous_format], ids=str)
def test_stands_after_a_convolution(memory_format: torch.memory_format) -> None:
    convolution, layer = nn.Conv2d(1, C, 3, padding=1), Grid(C, H)
    x = torch.randn(B, 1, 4, 6, requires_grad=True)
    features = convolution(x).contiguous(memory_format=memory_format)
    y = layer(features)
    assert y.is_contiguous(memory_format=torch.channels_last)
    wanted = by_loops(layer, features)[0]
    variables = [x, *convolution.parameters(), *layer.parameters()]
    found, expected = (torch.autograd.grad(h.square().sum(), variables, retain_graph=True) for h in (y, wanted))
    assert max(relative_error(one, other) for one, other in zip(found, expected, strict=True)) <= 1e-12


def test_an_image_without_a_gradient() -> None:
    layer, x = drawn(3, 4)
    wanted = torch.autograd.grad(layer(x).sum(), [*layer.parameters()])
    found = torch.autograd.grad(layer(x.detach()).sum(), [*layer.parameters()])
    assert all(torch.equal(one, other) for one, other in zip(found, wanted, strict=True))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch.compile itself calls what torch deprecates
@pytest.mark.parametrize("options", [{"cell": "lstm"}, {"directions": 2, "nonlinearity": "relu"}], ids=str)
def test_compiles_without_a_break(options: dict[str, Any]) -> None:
    torch.compiler.reset()
    layer, x = drawn(3, 4, **options)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    assert_same(layer, x, compiled(x), layer(x))
    with torch.no_grad():
        assert torch.equal(compiled(x.detach()), layer(x))


@pytest.mark.parametrize("cell", ["rnn", "lstm"])
def test_autocast_takes_its_type(cell: str) -> None:
    layer, x = drawn(3, 4, cell=cell, bias=True)
    layer, x = layer.float(), x.detach().float().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        y = layer(x)
    assert y.dtype == torch.bfloat16
    wanted = by_loops(layer, x)[0]
    assert relative_error(y.float(), wanted) <= 2e-2
    weight = layer.get_parameter("weight_left")
    (found,) = torch.autograd.grad(y.float().sum(), weight)
    assert found.dtype == torch.float32
    assert relative_error(found, torch.autograd.grad(wanted.sum(), weight)[0]) <= 5e-2


def test_functional_form() -> None:
    layer, x = drawn(2, 3, directions=("bottom-right",))
    assert list(layer.state_dict()) == [f"weight_{part}_bottom_right" for part in ("in", "left", "top")]
    weight_in, weight_left, weight_top = layer.parameters()
    assert torch.equal(grid(x, weight_in, weight_left, weight_top, direction="bottom-right"), layer(x))


def test_repr_names_what_was_chosen() -> None:
    sizes, chosen = "3, 5, nonlinearity='sigmoid', bias=False, cell='rnn'", "directions=('top-left', 'bottom-right')"
    assert repr(Grid(3, 5, directions=2)) == f"Grid({sizes}, {chosen}, merge_mode='sum')"
    assert "nonlinearity" not in repr(Grid(3, 5, cell="lstm"))
