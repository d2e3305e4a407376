"""The gradient of an embedding in reused memory, spoiled by NaN beforehand, is torch's to the bit."""

import copy
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from porism.layers import reused_memory
from porism.layers.embedding import Embedding
from porism.layers.reused_memory import ReusedMemory, reusing

V, D = 40, 7
INDICES = {
    "one": torch.tensor([5]),
    "repeated": torch.tensor([[3, 39, 3], [0, 3, 0]]),
    "int32": torch.tensor([[3, 39, 3], [0, 3, 0]], dtype=torch.int32),
    "strided": torch.tensor([[3, 9, 3, 1], [0, 3, 0, 1]])[:, ::2],
    "half of the words": torch.arange(20).repeat(2),
    "most of the words": torch.arange(39).repeat(2),
    "no dimension": torch.tensor(7),
    "none": torch.zeros(0, 3, dtype=torch.int64),
}


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[ReusedMemory]:
    monkeypatch.setattr(reused_memory, "LARGE", 0)
    memory = ReusedMemory()
    for dtype in reused_memory.TYPES:
        memory.empty((V, D), dtype).fill_(torch.nan)
    with reusing(memory):
        yield memory


def pair(dtype: torch.dtype = torch.float32) -> tuple[Embedding, nn.Embedding]:
    torch.manual_seed(1)
    ours, theirs = Embedding(V, D, dtype=dtype), nn.Embedding(V, D, dtype=dtype)
    theirs.load_state_dict(ours.state_dict())
    return ours, theirs


def grad(module: nn.Embedding) -> Tensor:
    assert module.weight.grad is not None
    return module.weight.grad


def learn(module: nn.Embedding, indices: Tensor, seed: int = 2) -> Tensor:
    """The gradient of one pass, added to what is there."""
    answer = module(indices)
    answer.backward(torch.randn(answer.shape, generator=torch.Generator().manual_seed(seed), dtype=answer.dtype))
    return grad(module)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", INDICES)
def test_the_gradient_is_torchs_to_the_bit(memory: ReusedMemory, name: str, dtype: torch.dtype) -> None:
    ours, theirs = pair(dtype)
    indices = INDICES[name]
    assert torch.equal(ours(indices), theirs(indices))
    for seed in range(3):
        ours.zero_grad()
        theirs.zero_grad()
        assert torch.equal(learn(ours, indices, seed), learn(theirs, indices, seed))


def test_the_gradient_is_the_sum_over_places() -> None:
    ours, _ = pair(torch.float64)
    indices, given = INDICES["repeated"], torch.randn(2, 3, D, dtype=torch.float64)
    ours(indices).backward(given)
    expected = torch.zeros(V, D, dtype=torch.float64)
    for index, row in zip(indices.flatten().tolist(), given.flatten(0, 1), strict=True):
        expected[index] += row
    assert torch.allclose(grad(ours), expected, rtol=1e-15, atol=1e-15)


def test_a_gradient_that_is_dropped_leaves_its_memory_to_the_next(memory: ReusedMemory) -> None:
    ours, _ = pair()
    address = learn(ours, INDICES["one"]).data_ptr()
    # Other tensors of that size, which would take the memory if torch's allocator had it.
    for _ in range(3):
        ours.zero_grad()
        others = [torch.empty(V, D) for _ in range(9)]
        assert learn(ours, INDICES["repeated"]).data_ptr() == address
        assert all(x.data_ptr() != address for x in others)


@pytest.mark.parametrize("hold", [Tensor.detach, lambda x: x[3:4], Tensor.numpy], ids=["tensor", "row", "array"])
def test_a_gradient_that_is_held_keeps_its_numbers(memory: ReusedMemory, hold: object) -> None:
    ours, _ = pair()
    assert callable(hold)
    held = hold(learn(ours, INDICES["repeated"]))
    before = torch.as_tensor(held).clone()
    for _ in range(3):
        ours.zero_grad()
        learn(ours, INDICES["half of the words"])
    assert torch.equal(torch.as_tensor(held), before)


def test_gradients_add_up_over_passes_and_uses(memory: ReusedMemory) -> None:
    ours, theirs = pair()
    for module in (ours, theirs):
        learn(module, INDICES["repeated"], 1)
        learn(module, INDICES["one"], 2)
        both = module(INDICES["repeated"]) + module(INDICES["repeated"].flip(0))
        (both @ module.weight.mT).sum().backward()  # tied to a readout
    assert torch.equal(grad(ours), grad(theirs))


def test_what_is_written_into_a_gradient_is_gone_in_the_next(memory: ReusedMemory) -> None:
    ours, theirs = pair()
    learn(ours, INDICES["repeated"]).data.fill_(torch.nan)
    ours.zero_grad()
    assert torch.equal(learn(ours, INDICES["one"]), learn(theirs, INDICES["one"]))


def test_the_weight_may_change_before_the_backward_pass(memory: ReusedMemory) -> None:
    for module in (grads := pair()):
        answer = module(INDICES["repeated"])
        with torch.no_grad():
            module.weight.mul_(2)
        answer.sum().backward()
    assert torch.equal(grad(grads[0]), grad(grads[1]))


def test_a_second_derivative_is_torchs(memory: ReusedMemory) -> None:
    found = []
    for module in pair(torch.float64):
        (first,) = torch.autograd.grad(module(INDICES["repeated"]).pow(3).sum(), module.weight, create_graph=True)
        (second,) = torch.autograd.grad(first.pow(2).sum(), module.weight)
        found.append(torch.stack([first.detach(), second]))
    assert torch.equal(*found)


def test_transforms_and_copies_are_torchs(memory: ReusedMemory) -> None:
    ours, theirs = pair()
    found = []
    for module in (ours, theirs, copy.deepcopy(ours)):

        def loss(weight: Tensor, indices: Tensor, module: nn.Module = module) -> Tensor:
            answer: Tensor = torch.func.functional_call(module, {"weight": weight}, (indices,))
            return answer.pow(2).sum()

        each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(module.weight.detach(), INDICES["repeated"])
        looked_up = torch.func.vmap(module)(INDICES["repeated"])
        found.append(torch.cat([each.flatten(0, 1), looked_up.flatten(0, 1), learn(module, INDICES["one"])]))
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


@pytest.mark.parametrize(
    "options", [{"padding_idx": 3}, {"max_norm": 0.5}, {"scale_grad_by_freq": True}, {"sparse": True}], ids=str
)
def test_options_of_torch_hold(memory: ReusedMemory, options: dict[str, float]) -> None:
    found = []
    for kind in (Embedding, nn.Embedding):
        torch.manual_seed(1)
        module = kind(V, D, **options)  # type: ignore[arg-type]
        learn(module, INDICES["repeated"])
        found.append(torch.cat([module.weight.detach(), grad(module).to_dense()]))
        assert grad(module).is_sparse == ("sparse" in options)
    assert torch.equal(*found)


def test_compiled_code_is_torchs(memory: ReusedMemory) -> None:
    ours, theirs = pair()
    compiled = torch.compile(ours, backend="aot_eager", fullgraph=True)
    compiled(INDICES["repeated"]).pow(2).sum().backward()
    theirs(INDICES["repeated"]).pow(2).sum().backward()
    assert torch.equal(grad(ours), grad(theirs))
