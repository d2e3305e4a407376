"""The sampled loss under torch.func, vmap and torch's own FLOP counter; state_dicts of 0.1."""

import pytest
import torch
from torch import Tensor
from torch.func import grad, vmap
from torch.utils.flop_counter import FlopCounterMode

from porism.costing.counting.count import count
from porism.layers import SkipGram
from porism.layers.skipgram import sampled_loss
from porism.layers.skipgram.estimators import ESTIMATORS
from porism.testing.gradients import relative_error

B, D, V, M = 5, 3, 11, 4
each_estimator = pytest.mark.parametrize("estimator", ESTIMATORS)

# torch's transforms and compiler themselves call what torch deprecates.
pytestmark = [pytest.mark.usefixtures("double"), pytest.mark.filterwarnings("ignore::DeprecationWarning")]


def drawn() -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    v, U = torch.randn(B, D, requires_grad=True), torch.randn(V, D, requires_grad=True)
    return v, U, torch.randint(V, (B,)), torch.randint(V, (B, M)), torch.full((V,), 1 / V)


@each_estimator
def test_gradients_of_torch_func_and_vmap_are_those_of_autograd(estimator: str) -> None:
    v, U, j, k, q = drawn()

    def total(v: Tensor, U: Tensor, j: Tensor, k: Tensor) -> Tensor:
        return sampled_loss(v, U, j, k, q, estimator, "sum")

    expected = torch.autograd.grad(total(v, U, j, k), (v, U))
    for one, other in zip(grad(total, (0, 1))(v, U, j, k), expected, strict=True):
        assert relative_error(one, other) <= 1e-12
    dv, dU = vmap(grad(total, (0, 1)), (0, None, 0, 0))(v[:, None], U, j[:, None], k[:, None])
    assert relative_error(dv[:, 0], expected[0]) <= 1e-12
    assert relative_error(dU.sum(0), expected[1]) <= 1e-12


@each_estimator
@pytest.mark.parametrize("learns_contexts", [True, False])
def test_the_registered_flops_are_the_counted_ones(estimator: str, learns_contexts: bool) -> None:
    v, U, j, k, q = drawn()
    U.requires_grad_(learns_contexts)

    def run(v: Tensor, U: Tensor) -> Tensor:
        return sampled_loss(v, U, j, k, q, estimator)

    with FlopCounterMode(display=False) as counter:
        run(v, U).backward()
    inside = count(run, v, U)
    assert counter.get_total_flops() == inside.flops + inside.backward_flops > 0
    assert not inside.uncounted


@each_estimator
def test_a_second_derivative_is_refused(estimator: str) -> None:
    v, U, j, k, q = drawn()
    (first,) = torch.autograd.grad(sampled_loss(v, U, j, k, q, estimator), v, create_graph=True)
    with pytest.raises(RuntimeError, match="first derivatives only"):
        torch.autograd.grad(first.sum(), v)


def test_a_state_dict_of_0_1_loads_strictly() -> None:
    layer = SkipGram(V, D)
    old = {"model.words": torch.randn(V, D), "model.contexts": torch.randn(V, D)}
    torch.nn.ModuleDict({"model": layer}).load_state_dict(old, strict=True)
    assert torch.equal(layer.weight, old["model.words"])
    assert torch.equal(layer.context_weight, old["model.contexts"])
