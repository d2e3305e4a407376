"""Every gradient by hand is that of its loss, and the layer hands it on."""

import pytest
import torch
from torch import Tensor

from porism.costing.counting.count import count
from porism.costing.derive import derive
from porism.layers.skipgram import SkipGram, naive, sampled_loss, skipgram
from porism.layers.skipgram.check import cases
from porism.layers.skipgram.cost import cost, subject
from porism.layers.skipgram.estimators import ESTIMATORS, NEED_THE_NORMALISER
from porism.layers.skipgram.noise import Noise
from porism.testing.gradients import by_autograd, relative_error

EXACT = 1e-12
CASES = {case.name: case for case in cases(seed=1)}
each_estimator = pytest.mark.parametrize("estimator", ESTIMATORS)


def drawn(B: int, D: int, V: int, m: int) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """v, U, j, k and q, with more than one pair that shares a row."""
    draw = torch.Generator().manual_seed(B + D)
    v, U = (torch.randn(size, D, generator=draw, dtype=torch.float64) for size in (B, V))
    noise = Noise.of_frequencies(torch.arange(1, V + 1))
    return v, U, torch.randint(V, (B,), generator=draw), noise.draw((B, m), draw), noise.probabilities


@pytest.mark.parametrize("name", ["full", *ESTIMATORS])
def test_by_hand_equals_autograd(name: str) -> None:
    case = CASES[name]
    wanted = by_autograd(case.function, case.at)
    assert all(relative_error(case.by_hand[variable], wanted[variable]) < EXACT for variable in ("v", "U"))


@each_estimator
@pytest.mark.parametrize(("B", "D", "V", "m"), [(1, 1, 2, 1), (7, 2, 3, 63), (2, 63, 7, 7)])
def test_the_layer_equals_the_oracle(estimator: str, B: int, D: int, V: int, m: int) -> None:
    v, U, j, k, q = drawn(B, D, V, m)
    at = {"v": v, "U": U}
    p = torch.softmax(v @ U.mT, 1)
    found = sampled_loss(v, U, j, k, q, estimator, reduction="sum")
    gradient = by_autograd(lambda v, U: sampled_loss(v, U, j, k, q, estimator, reduction="sum"), at)
    if estimator in NEED_THE_NORMALISER:
        assert relative_error(found, naive.loss(v, U, j)) < EXACT
        wanted = by_autograd(lambda v, U: naive.given_p(estimator, v, U, j, k, q, p), at)
    else:
        assert relative_error(found, naive.sampled_loss(estimator, v, U, j, k, q)) < EXACT
        wanted = by_autograd(lambda v, U: naive.sampled_loss(estimator, v, U, j, k, q), at)
    assert all(relative_error(gradient[variable], wanted[variable]) < EXACT for variable in at)


def test_the_mean_is_the_sum_divided() -> None:
    v, U, j, k, q = drawn(7, 2, 3, 5)
    assert torch.equal(skipgram(v, U, j), skipgram(v, U, j, "sum") / 7)
    assert torch.equal(sampled_loss(v, U, j, k, q, "nce"), sampled_loss(v, U, j, k, q, "nce", "sum") / 7)


@each_estimator
def test_a_step_in_place_is_that_of_plain_descent(estimator: str) -> None:
    torch.manual_seed(0)
    # The same words more than once: their rows take the sum of what they get.
    words, contexts, samples = torch.randint(5, (63,)), torch.randint(5, (63,)), torch.randint(5, (63, 3))
    model = SkipGram(5, 7, estimator, negative=3, dtype=torch.float64)
    torch.nn.init.normal_(model.context_weight)
    loss = model(words, contexts, samples)
    (63 * loss).backward()
    wanted = [
        parameter.detach() - 0.1 * parameter.grad for parameter in model.parameters() if parameter.grad is not None
    ]
    assert relative_error(model.sgd_step(words, contexts, 0.1, samples), loss) < EXACT
    assert len(wanted) == 2
    assert all(relative_error(now, then) < EXACT for now, then in zip(model.parameters(), wanted, strict=True))


@each_estimator
def test_samples_come_from_the_noise(estimator: str) -> None:
    frequencies = None if estimator == "uniform" else torch.tensor([1.0, 1e-30, 1.0])
    model = SkipGram(3, 2, estimator, negative=63, counts=frequencies)
    torch.nn.init.normal_(model.context_weight)
    model(torch.zeros(7, dtype=torch.long), torch.zeros(7, dtype=torch.long)).backward()
    assert model.context_weight.grad is not None
    reached = model.context_weight.grad.abs().sum(1) > 0
    assert reached.tolist() == [True, frequencies is None, True]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@each_estimator
def test_lower_precision(estimator: str, dtype: torch.dtype) -> None:
    v, U, j, k, q = drawn(7, 3, 5, 4)
    low = sampled_loss(v.to(dtype), U.to(dtype), j, k, q, estimator)
    assert low.dtype == dtype
    assert relative_error(low.double(), sampled_loss(v, U, j, k, q, estimator)) < 16 * torch.finfo(dtype).eps


@each_estimator
@pytest.mark.parametrize(("B", "D", "V", "m"), [(1, 1, 1, 1), (7, 2, 63, 3), (2, 63, 7, 7)])
def test_cost_equals_the_count(estimator: str, B: int, D: int, V: int, m: int) -> None:
    model, wanted = SkipGram(V, D, estimator, m), cost(estimator, m).at(B=B, D=D, V=V)
    pairs = torch.randint(V, (2, B))
    run = count(model, *pairs)
    assert (run.flops, run.backward_flops) == (wanted["flops"], wanted["backward_flops"])
    assert not run.uncounted
    assert sum(parameter.numel() for parameter in model.parameters()) == wanted["parameters"]
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes() // tensor.itemsize
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        answer = model(*pairs)
    assert answer.requires_grad
    for parameter in model.parameters():
        kept.pop(parameter.untyped_storage().data_ptr(), None)
    assert sum(kept.values()) == wanted["saved"]


def test_the_formula_is_found_from_the_code() -> None:
    module, inputs = subject()
    found = derive(module, *inputs).at(recount=False, B=32, D=100, V=10_000)
    wanted = cost().at(B=32, D=100, V=10_000)
    # The gradient is ready after the forward pass, so that all of it counts there.
    assert int(found["flops"]) + int(found["backward_flops"]) == wanted["flops"] + wanted["backward_flops"]
    assert found["parameters"] == wanted["parameters"]


def test_the_module_repeats_itself_in_words() -> None:
    assert repr(SkipGram(9, 5, "nce", negative=3)) == "SkipGram(9, 5, estimator='nce', negative=3)"
