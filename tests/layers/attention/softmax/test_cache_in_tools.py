"""A cache in torch's tools: saved, compiled, exported, transformed and counted it is what it was."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.layers.attention.softmax.texts import (
    COPIES,
    EXACT,
    A,
    B,
    Text,
    buffered,
    continued,
    decode,
    draw,
    expected,
)
from tests.layers.closeness import error
from torch import Tensor, nn
from torch.utils._pytree import tree_map
from torch.utils.flop_counter import FlopCounterMode

from porism.layers import KVCache
from porism.layers.attention.pattern import CAUSAL
from porism.layers.attention.softmax import cache


@pytest.fixture(autouse=True)
def _fixed_seed() -> None:
    torch.manual_seed(0)


def test_tensors_of_a_class_of_ones_own_stay_what_they_are(buffers: list[cache.KVBuffer]) -> None:
    class Marked(Tensor):
        pass

    new = [x.as_subclass(Marked) for x in draw(1)]
    _, state = decode(*new, decode(*new)[1])
    assert type(state.k) is Marked
    assert buffers == []


def test_a_state_may_come_from_inference_mode_and_go_there() -> None:
    with torch.inference_mode():
        inside = buffered()
        _, longer = continued(inside, draw(1))
        assert longer.state._buffer is inside.state._buffer
    outside = buffered()
    for each in (inside, longer, outside):
        answer, after = continued(each, draw(1))
        assert error(answer, expected(after.parts, 1)) <= EXACT
    with torch.inference_mode():
        answer, after = continued(outside, draw(1))
        assert error(answer, expected(after.parts, 1)) <= EXACT
        assert not after.state.k.is_inference()
    for each in (inside, longer, outside, after):
        each.assert_is_kept()
    weight = torch.ones(3, dtype=torch.float64, requires_grad=True)
    (longer.state.k * weight).sum().backward()


def counted(text: Text, new: list[Tensor]) -> tuple[Tensor, KVCache]:
    with FlopCounterMode(display=False):
        return decode(*new, text.state)


def compiled(text: Text, new: list[Tensor]) -> tuple[Tensor, KVCache]:
    torch.compiler.reset()
    call = torch.compile(decode, fullgraph=True, backend="aot_eager", dynamic=False)
    return call(*new, text.state)


def exported(text: Text, new: list[Tensor]) -> tuple[Tensor, KVCache]:
    class Step(nn.Module):
        def forward(self, q: Tensor, k: Tensor, v: Tensor, state: KVCache) -> tuple[Tensor, KVCache]:
            return decode(q, k, v, state)

    program = torch.export.export(Step(), (*new, text.state), strict=False)
    answer: tuple[Tensor, KVCache] = program.module()(*new, text.state)
    return answer


def mapped(text: Text, new: list[Tensor]) -> tuple[Tensor, KVCache]:
    stacked = [torch.stack([x, 2 * x]) for x in new]
    answers, states = torch.func.vmap(lambda *x: decode(*x, text.state))(*stacked)
    assert isinstance(states, KVCache)
    return answers[0], tree_map(lambda x: x[0] if isinstance(x, Tensor) else x, states)


def differentiated(text: Text, new: list[Tensor]) -> tuple[Tensor, KVCache]:
    vjp: Any = torch.func.vjp
    _, given = vjp(lambda q: decode(q, *new[1:], text.state)[0], new[0])
    given(torch.ones(B, A, 1, 5, dtype=torch.float64))
    answer, _, state = vjp(lambda q: decode(q, *new[1:], text.state), new[0], has_aux=True)
    return answer, state


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore:There is a performance drop")
@pytest.mark.parametrize("call", [counted, compiled, exported, mapped, differentiated], ids=lambda call: call.__name__)
def test_who_counts_compiles_exports_or_transforms_writes_to_no_shared_memory(
    call: Callable[..., tuple[Tensor, KVCache]], buffers: list[cache.KVBuffer]
) -> None:
    text, new = buffered(), draw(1)
    longer = Text([torch.cat(pair, 2) for pair in zip(text.parts, new, strict=True)], torch.zeros(B, 7).bool(), None)  # type: ignore[arg-type]
    answer, longer.state = call(text, new)
    assert error(answer, expected(longer.parts, 1)) <= EXACT
    assert len(buffers) == 1
    assert buffers[0].taken == 6
    assert longer.state._buffer is None
    longer.assert_is_kept()
    text.assert_is_kept()


def test_tensors_that_are_first_read_in_a_transform_outlast_it() -> None:
    for read in (
        lambda text: torch.func.grad(lambda x: (text.state.k * x).sum())(text.parts[1]),
        lambda text: torch.func.vmap(lambda x: text.state.k * x)(torch.ones(2, dtype=torch.float64)),
        lambda text: FakeReader().read(text),
    ):
        text = buffered()
        read(text)
        assert type(text.state.k) is Tensor
        assert not torch._C._functorch.is_functorch_wrapped_tensor(text.state.k)
        text.assert_is_kept()
        continued(text, draw(1))[1].assert_is_kept()


class FakeReader(FlopCounterMode):
    """A mode in which tensors are read for the first time."""

    def __init__(self) -> None:
        super().__init__(display=False)

    def read(self, text: Text) -> Tensor:
        with self:
            return text.state.k


@pytest.mark.parametrize("name", COPIES)
def test_a_saved_state_has_no_buffer_and_goes_on(name: str) -> None:
    text = buffered()
    again = Text(text.parts, text.padding, COPIES[name](text.state))
    assert again.state.nbytes == sum(x.nbytes for x in text.parts[1:])
    assert again.state.pattern == CAUSAL
    answer, longer = continued(again, draw(1))
    assert error(answer, expected(longer.parts, 1)) <= EXACT
    again.state.k.zero_()
    text.assert_is_kept()
    # Two references to one state are one also afterwards.
    first, second = copy.deepcopy([text.state, text.state])
    assert first is second


def test_memory_is_counted_where_there_are_no_numbers() -> None:
    k, v = torch.empty(2, B, A, 3, 4, device="meta")
    assert KVCache(k.clone(), v.clone()).nbytes == 2 * B * A * 3 * 4 * 4
    assert KVCache(k, v).nbytes == 2 * B * A * 3 * 4 * 4


def test_a_cache_is_loaded_as_tensors_are_and_a_program_that_takes_one_is_saved(tmp_path: Path) -> None:
    state, new = buffered().state, draw(1)
    torch.save(state, tmp_path / "state.pt")
    again = torch.load(tmp_path / "state.pt")
    assert torch.equal(again.k, state.k)
    assert again.pattern == state.pattern == CAUSAL

    class Step(nn.Module):
        def forward(self, q: Tensor, k: Tensor, v: Tensor, state: KVCache) -> tuple[Tensor, KVCache]:
            return decode(q, k, v, state)

    torch.export.save(torch.export.export(Step(), (*new, state), strict=False), tmp_path / "step.pt2")
    answer, longer = torch.export.load(tmp_path / "step.pt2").module()(*new, state)
    wanted, _ = decode(*new, state)
    assert error(answer, wanted) <= EXACT
    assert longer.pattern == CAUSAL
