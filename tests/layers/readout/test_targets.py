"""Targets out of range are refused, whoever calls: eager, compiled, with gradients or without."""

import pytest
import torch
from torch import Tensor

from porism.errors import ShapeError
from porism.layers import Readout
from porism.layers.readout import linear_cross_entropy

# torch.compile itself calls what torch deprecates.
compiling = pytest.mark.filterwarnings("ignore::DeprecationWarning")
out_of_range = pytest.mark.parametrize("wrong", [3, -1, 10**12])
OUTSIDE = "out of range|out of bounds"


def loss(h: Tensor, targets: Tensor) -> Tensor:
    return linear_cross_entropy(h, torch.eye(3), targets)


class Labels(Tensor):
    """A tensor by another name."""


@pytest.mark.sample(2)
@compiling
@out_of_range
@pytest.mark.parametrize("learns", [True, False], ids=["training", "evaluation"])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiled(wrong: int, learns: bool, backend: str) -> None:
    torch.compiler.reset()
    compiled = torch.compile(loss, backend=backend, fullgraph=True)
    h = torch.eye(3, requires_grad=learns)
    assert torch.equal(compiled(h, torch.tensor([0, 1, 2])), loss(h, torch.tensor([0, 1, 2])))
    with pytest.raises((RuntimeError, IndexError), match=OUTSIDE):
        compiled(h, torch.tensor([0, wrong, 2]))


@out_of_range
@pytest.mark.parametrize("learns", [True, False], ids=["training", "evaluation"])
def test_a_subclass_of_tensor(wrong: int, learns: bool) -> None:
    h = torch.eye(3, requires_grad=learns)
    with pytest.raises(ShapeError, match=r"targets run from -?\d+ to \d+, expected 0 to 2"):
        loss(h, torch.tensor([0, wrong, 2]).as_subclass(Labels))
    assert torch.equal(loss(h, torch.tensor([0, 1, 2]).as_subclass(Labels)), loss(h, torch.tensor([0, 1, 2])))


@pytest.mark.sweep(2)
@compiling
@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32], ids=str)
def test_any_whole_type_reaches_its_last_number_in_a_larger_vocabulary(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    torch.compiler.reset()
    layer, h = Readout(5, 40_000), torch.randn(3, 5)
    targets = torch.tensor([0, 100, min(torch.iinfo(dtype).max, 39_999)])
    compiled = torch.compile(layer.loss, backend="aot_eager", fullgraph=True)
    for way in (layer.loss, compiled):
        assert torch.equal(way(h, targets.to(dtype)), layer.loss(h, targets))


def test_an_answer_may_be_changed_in_place() -> None:
    h = torch.eye(3, requires_grad=True)
    (wanted,) = torch.autograd.grad(2 * loss(h, torch.tensor([0, 1, 1])), h)
    (found,) = torch.autograd.grad(loss(h, torch.tensor([0, 1, 1])).mul_(2), h)
    assert torch.equal(found, wanted)
