"""Texts that are decoded in parts: all tokens so far, and the state that they should be."""

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from porism.layers import KVCache, softmax_decode, window_decode
from porism.layers.attention.pattern import CAUSAL
from porism.layers.attention.softmax import naive

EXACT = 1e-12
B, A = 2, 4
decode: Callable[..., tuple[Tensor, KVCache]] = softmax_decode
near: Callable[..., tuple[Tensor, KVCache]] = window_decode


class Text:
    """Queries, keys, values and padding of all tokens so far, and the state that they should be."""

    def __init__(self, parts: list[Tensor], padding: Tensor, state: KVCache) -> None:
        self.parts, self.padding, self.state = parts, padding, state

    def assert_is_kept(self) -> None:
        """The state reads as the tokens do, bit by bit."""
        assert torch.equal(self.state.k, self.parts[1])
        assert torch.equal(self.state.v, self.parts[2])
        kept = self.state.padding
        assert torch.equal(torch.zeros_like(self.padding) if kept is None else kept, self.padding)


def draw(T: int, G: int = A, D: int = 3, H: int = 5, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    return [torch.randn(B, heads, T, width).to(dtype) for heads, width in ((A, D), (G, D), (G, H))]


def buffered(T: int = 6, **sizes: Any) -> Text:
    """A text whose state has buffer."""
    parts = draw(T, **sizes)
    _, state = decode(*(x[:, :, :-1] for x in parts))
    _, state = decode(*(x[:, :, -1:] for x in parts), state)
    assert state._buffer is not None
    return Text(parts, torch.zeros(B, T).bool(), state)


def expected(parts: list[Tensor], new: int, padding: Tensor | None = None) -> Tensor:
    """One pass over the whole text in float64, of which the new tokens are the last."""
    q, k, v = (x.double() for x in parts)
    whole = naive.softmax_attention(q, k, v, naive.looked_at(CAUSAL, q, k, padding))
    return whole[:, :, q.shape[2] - new :]


def continued(text: Text, new: list[Tensor], pads: Tensor | None = None) -> tuple[Tensor, Text]:
    answer, state = decode(*new, text.state, key_padding_mask=pads)
    parts = [torch.cat(pair, 2) for pair in zip(text.parts, new, strict=True)]
    marks = torch.zeros(B, new[0].shape[2]).bool() if pads is None else pads
    return answer, Text(parts, torch.cat([text.padding, marks], 1), state)


def pickled(state: KVCache) -> KVCache:
    again: KVCache = pickle.loads(pickle.dumps(state))
    return again


def saved(state: KVCache) -> KVCache:
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    again: KVCache = torch.load(file, weights_only=False)
    return again


COPIES: dict[str, Callable[[KVCache], KVCache]] = {"pickle": pickled, "torch.save": saved, "deepcopy": copy.deepcopy}
