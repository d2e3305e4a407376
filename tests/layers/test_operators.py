"""A registered operator is one node for the compiler, and what is inside it for the counter."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode, flop_registry

from porism.costing.counting.count import count
from porism.costing.counting.live import LiveBytes
from porism.costing.counting.operators import DECOMPOSED
from porism.layers import Elman
from porism.layers.operators import BackwardFunction, register


def gram(x: Tensor) -> Tensor:
    """x x^T, and a tensor on the way that nobody sees."""
    return (2 * x) @ x.mT / 2


def outline(x: Tensor) -> Tensor:
    return x.new_empty(x.shape[0], x.shape[0])


def flops(x: Any, *_: Any, **__: Any) -> int:
    T, D = x
    return int(2 * T * T * D)


@pytest.fixture(scope="module")
def operator() -> Iterator[Callable[[Tensor], Tensor]]:
    made = register("gram_of_a_test(Tensor x) -> Tensor", gram, outline, flops)
    yield made
    del DECOMPOSED[made], flop_registry[torch.ops.porism.gram_of_a_test]


def test_answers_what_its_kernel_answers(operator: Callable[[Tensor], Tensor]) -> None:
    x = torch.randn(7, 3, dtype=torch.double)
    assert torch.equal(operator(x), gram(x))


def test_is_one_node_of_an_exported_program(operator: Callable[[Tensor], Tensor]) -> None:
    class Layer(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return operator(x) + 1

    exported = torch.export.export(Layer(), (torch.randn(7, 3),))
    names = [str(node.target) for node in exported.graph.nodes if node.op == "call_function"]
    assert names == ["porism.gram_of_a_test.default", "aten.add.Tensor"]


def test_is_counted_by_what_is_inside(operator: Callable[[Tensor], Tensor]) -> None:
    x = torch.randn(7, 3)
    inside, whole = count(gram, x, backward=False), count(operator, x, backward=False)
    assert (whole.flops, whole.uncounted) == (inside.flops, {}) == (2 * 7 * 7 * 3, {})
    with LiveBytes() as live:
        operator(x)
    assert live.peak.total() >= (7 * 3 + 7 * 7) * 4  # also what lay in between


def test_torchs_own_counter_knows_it(operator: Callable[[Tensor], Tensor]) -> None:
    with FlopCounterMode(display=False) as counter:
        operator(torch.randn(7, 3))
    assert counter.get_total_flops() == 2 * 7 * 7 * 3


def test_a_second_derivative_is_refused_in_words() -> None:
    with pytest.raises(RuntimeError, match="first derivatives only.*Call its naive.py"):
        BackwardFunction.backward()


def test_gradients_of_many_answers_at_once() -> None:
    """torch.autograd.grad(..., is_grads_batched=True), for a layer whose sums over the batch are not to be folded."""
    layer, x = Elman(3, 4), torch.randn(5, 2, 3, requires_grad=True)
    y, _ = layer(x)
    directions = torch.randn(6, *y.shape)
    found = torch.autograd.grad(y, list(layer.parameters()), directions, retain_graph=True, is_grads_batched=True)
    one_by_one = (torch.autograd.grad(y, list(layer.parameters()), each, retain_graph=True) for each in directions)
    for parts, expected in zip(found, zip(*one_by_one, strict=True), strict=True):
        torch.testing.assert_close(parts, torch.stack(expected))
