import gc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from weakref import ref

import numpy as np
import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from porism.layers import reused_memory
from porism.layers.reused_memory import ReusedMemory, memory_for, reusing

SHAPE = (30, 7)
HOLDERS: dict[str, Callable[[Tensor], Any]] = {
    "the tensor": lambda x: x,
    "a row": lambda x: x[3],
    "what is detached": torch.Tensor.detach,
    "its data": lambda x: x.data,
    "its storage": lambda x: x.untyped_storage(),
    "an array": torch.Tensor.numpy,
    "a row of an array": lambda x: x.numpy()[3],
    "another library": lambda x: np.from_dlpack(x),
    "a memoryview": lambda x: x.numpy().data,
    "a graph": lambda x: torch.ones(SHAPE, requires_grad=True) * x,
}


def lent(memory: ReusedMemory, dtype: torch.dtype = torch.float32) -> Tensor:
    return memory.empty(SHAPE, dtype)


@pytest.mark.parametrize("holder", HOLDERS)
def test_what_somebody_holds_is_not_lent_again_and_what_nobody_holds_is(holder: str) -> None:
    memory = ReusedMemory()
    address = lent(memory).data_ptr()
    tensor = lent(memory).fill_(1)
    assert tensor.data_ptr() == address
    held = HOLDERS[holder](tensor)
    del tensor
    assert lent(memory).fill_(2).data_ptr() != address
    del held
    gc.collect()
    again = [lent(memory) for _ in range(2)]
    assert address in [x.data_ptr() for x in again]


def test_shapes_and_types_lie_apart_and_two_at_once_too() -> None:
    memory = ReusedMemory()
    tensors = [lent(memory), lent(memory), lent(memory, torch.float64), memory.empty((7, 30), torch.float32)]
    assert len({x.data_ptr() for x in tensors}) == len(tensors)
    assert [(tuple(x.shape), x.dtype) for x in tensors[1:]] == [
        (SHAPE, torch.float32),
        (SHAPE, torch.float64),
        ((7, 30), torch.float32),
    ]


def test_a_tensor_outlives_the_memory_and_then_nothing_is_kept() -> None:
    memory = ReusedMemory()
    tensor, free = lent(memory).fill_(3), ref(memory)
    del memory
    assert free() is None
    assert torch.equal(tensor, torch.full(SHAPE, 3.0))


def test_threads_never_get_the_same_memory_at_once() -> None:
    memory = ReusedMemory()

    def keeps_its_own(number: int) -> bool:
        for _ in range(300):
            tensor = lent(memory).fill_(number)
            if not bool((tensor == number).all()):
                return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(keeps_its_own, range(8)))


def test_memory_is_reused_for_large_tensors_with_numbers_on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    x, memory = torch.ones(SHAPE), ReusedMemory()
    monkeypatch.setattr(reused_memory, "LARGE", x.nbytes - 1)
    assert memory_for(x) is None
    with reusing(memory):
        assert memory_for(x) is memory
        assert memory_for(x[1:]) is None
        assert memory_for(x.double()) is memory
        assert memory_for(torch.ones(60, 7, dtype=torch.bfloat16)) is None
        assert memory_for(torch.empty(SHAPE, device="meta")) is None
        with FakeTensorMode():
            assert memory_for(torch.empty(SHAPE)) is None
        transformed = []
        torch.func.vmap(lambda row: transformed.append(memory_for(row)) or row)(torch.ones(3, *SHAPE))  # type: ignore[func-returns-value]
        assert transformed == [None]
    assert memory_for(x) is None
