"""A thousand tokens one by one: what the whole pass answers, from a state that stops growing."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from porism.layers import Attention, HybridAttention, TaylorAttention, WindowAttention
from porism.layers.attention.heads import Heads
from porism.layers.attention.softmax.cache import LEAST_SPARE, KVCache
from porism.testing.gradients import relative_error

W = 16
LAYERS: dict[str, Callable[..., Heads]] = {
    "softmax": lambda **options: Attention(12, 3, **options),
    "window": lambda **options: WindowAttention(12, 3, window_size=W, **options),
    "series": lambda **options: TaylorAttention(12, 3, warn_above=None, **options),
    "hybrid": lambda **options: HybridAttention(12, 3, window_size=W, **options),
}


def tensors(state: Any) -> Iterator[Tensor]:
    for part in state:
        if isinstance(part, Tensor):
            yield part
        elif isinstance(part, tuple | KVCache):
            yield from tensors(part)


def state_bytes(state: Any) -> int:
    """What it holds on to, which may be more than what it shows."""
    if isinstance(state, KVCache):
        return state.nbytes
    storages = [part.untyped_storage() for part in tensors(state)]
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())


@pytest.mark.parametrize("recorded", [False, True], ids=["no_grad", ""])
@pytest.mark.parametrize("name", LAYERS)
def test_who_changes_the_tensors_of_a_state_changes_no_other(name: str, recorded: bool) -> None:
    torch.manual_seed(0)
    layer = LAYERS[name](batch_first=True)
    x = torch.randn(2, 2 * W, 12)
    # Before the window is full, when it is, and after.
    for length in (1, W - 1, W, W + 3):
        with torch.set_grad_enabled(recorded):
            _, kept = layer.decode(x[:, :length])
            wanted, _ = layer.decode(x[:, length : length + 1], kept)
            for new in (x[:, length : length + 1], x[:, length : length + 2], x[:, :0]):
                _, other = layer.decode(new, kept)
                with torch.no_grad():
                    for part in tensors(other):
                        part.detach().fill_(7) if part.is_floating_point() else part.fill_(True)
            found, _ = layer.decode(x[:, length : length + 1], kept)
        assert torch.equal(found, wanted), length


@pytest.mark.parametrize("name", LAYERS)
def test_a_step_compiles_without_a_break_and_goes_on(name: str) -> None:
    torch.manual_seed(0)
    torch.compiler.reset()
    layer = LAYERS[name](batch_first=True, dtype=torch.float64)
    step = torch.compile(layer.decode, backend="aot_eager", fullgraph=True)
    x, state, answers = torch.randn(2, 5, 12, dtype=torch.float64), None, []
    with torch.no_grad():
        for token in x.split(1, 1):
            answer, state = step(token, state)
            answers.append(answer)
        assert relative_error(torch.cat(answers, 1), layer(x, is_causal=True)[0]) <= 1e-12


@pytest.mark.parametrize("name", ["series", "hybrid"])
def test_a_state_from_inference_mode_learns_outside(name: str) -> None:
    torch.manual_seed(0)
    layer = LAYERS[name](batch_first=True, dtype=torch.float64)
    x = torch.randn(2, 2 * W, 12, dtype=torch.float64)
    with torch.inference_mode():
        _, state = layer.decode(x[:, :-1])
    answer, _ = layer.decode(x[:, -1:], state)
    answer.sum().backward()
    assert relative_error(answer.detach(), layer(x, is_causal=True)[0][:, -1:].detach()) <= 1e-12


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])
@pytest.mark.parametrize("name", ["softmax", "series"])
def test_beams_are_chosen_by_whole_numbers_of_any_type(name: str, dtype: torch.dtype) -> None:
    _, state = LAYERS[name](batch_first=True).decode(torch.randn(2, 3, 12))
    chosen = state.reorder_cache(torch.tensor([1, 0, 1], dtype=dtype))
    for found, before in zip(tensors(chosen), tensors(state), strict=True):
        assert torch.equal(found, before[[1, 0, 1]])


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", LAYERS)
def test_a_thousand_tokens_are_those_of_the_whole_pass_and_the_state_stops_growing(name: str) -> None:
    torch.manual_seed(0)
    layer = LAYERS[name](batch_first=True, dtype=torch.float64)
    x = torch.randn(1, 1000, 12, dtype=torch.float64)
    state, answers, sizes = None, [], []
    with torch.no_grad():
        for token in x.split(1, 1):
            answer, state = layer.decode(token, state)
            answers.append(answer)
            sizes.append(state_bytes(state))
        assert relative_error(torch.cat(answers, 1), layer(x, is_causal=True)[0]) <= 1e-12
    if name == "softmax":
        row = 2 * 12 * x.itemsize
        for length, held in enumerate(sizes, 1):
            assert length * row <= held <= (length + max(length // 2, LEAST_SPARE)) * row
        # Copied a few times and not a thousand.
        assert len(set(sizes)) <= 12
        assert state is not None
        assert state.k.numel() + state.v.numel() == 1000 * 2 * 12
        assert state.nbytes == 1000 * row
    else:
        assert len(set(sizes[W:])) == 1
