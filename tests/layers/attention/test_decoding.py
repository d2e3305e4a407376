"""A thousand tokens one by one: what the whole pass answers, from a state that stops growing."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from porism.layers import Attention, HybridAttention, TaylorAttention, WindowAttention
from porism.layers.attention.heads import Heads
from porism.layers.attention.softmax.cache import LEAST_ROOM, KVCache
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
            assert length * row <= held <= (length + max(length // 2, LEAST_ROOM)) * row
        # Copied a few times and not a thousand.
        assert len(set(sizes)) <= 12
        assert state is not None
        assert state.k.numel() + state.v.numel() == 1000 * 2 * 12
        assert state.nbytes == 1000 * row
    else:
        assert len(set(sizes[W:])) == 1
