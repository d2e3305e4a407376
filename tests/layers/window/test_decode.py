"""Decoding token by token equals the whole pass, and carries along no more than a window."""

from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from porism.layers.attention.layer import Cache
from porism.layers.check import relative_error
from porism.layers.pattern import CAUSAL, Pattern
from porism.layers.window import WindowAttention, window_attention, window_decode

PATTERNS = {
    CAUSAL: None,
    Pattern("sliding", window=1): 0,
    Pattern("sliding", window=5): 4,
    Pattern("sliding", window=200): 199,
    Pattern("sliding", window=4, dilation=3): 9,
    Pattern("block", window=7, causal_inside=True): 6,
}
each_pattern = pytest.mark.parametrize("pattern", PATTERNS, ids=str)


class Text(NamedTuple):
    """Queries, keys and values."""

    q: Tensor
    k: Tensor
    v: Tensor

    def part(self, start: int, end: int) -> "Text":
        return Text(*(x[:, :, start:end] for x in self))


@pytest.fixture
def text() -> Text:
    torch.manual_seed(0)
    return Text(*(torch.randn(size, dtype=torch.float64) for size in ((2, 4, 100, 3), (2, 2, 100, 3), (2, 2, 100, 5))))


def decode(text: Text, pattern: Pattern, steps: list[int], padding: Tensor | None = None) -> Tensor:
    """The answers one after the other, a step at a time."""
    state, answers = None, []
    for start, step in zip([0, *torch.tensor(steps).cumsum(0).tolist()], steps, strict=False):
        q, k, v = text.part(start, start + step)
        pads = None if padding is None else padding[:, start : start + step]
        answer, state = window_decode(q, k, v, state, pattern=pattern, key_padding=pads)
        most = PATTERNS[pattern]
        assert most is None or state.k.shape[2] == state.v.shape[2] <= most
        answers.append(answer)
    return torch.cat(answers, 2)


@each_pattern
@pytest.mark.parametrize("steps", [[1] * 100, [64, *[1] * 36], [3, 7, 50, 1, 39]], ids=["tokens", "prompt", "pieces"])
def test_decoding_equals_the_whole_pass(text: Text, pattern: Pattern, steps: list[int]) -> None:
    wanted = window_attention(text.q, text.k, text.v, pattern=pattern)
    assert relative_error(decode(text, pattern, steps), wanted) <= 1e-12


@each_pattern
def test_padding_is_remembered(text: Text, pattern: Pattern) -> None:
    padding = torch.zeros(2, 100).bool()
    padding[0, :7] = True
    padding[1, 40] = True
    wanted = window_attention(text.q, text.k, text.v, pattern=pattern, key_padding=padding)
    assert relative_error(decode(text, pattern, [5, *[1] * 95], padding), wanted) <= 1e-12
    # A prompt may have padding where what follows has none.
    q, k, v = text.part(0, 50)
    _, state = window_decode(q, k, v, pattern=pattern, key_padding=padding[:, :50])
    q, k, v = text.part(50, 100)
    answer, _ = window_decode(q, k, v, state, pattern=pattern)
    assert relative_error(answer, wanted[:, :, 50:]) <= 1e-12


def test_a_thousand_tokens_need_the_state_of_a_few() -> None:
    torch.manual_seed(0)
    layer = WindowAttention(12, 3, 16, batch_first=True).double()
    x = torch.randn(1, 1000, 12, dtype=torch.float64)
    state, answers, sizes = None, [], set()
    with torch.no_grad():
        for t in range(1000):
            y, state = layer.decode(x[:, t : t + 1], state)
            answers.append(y)
            assert isinstance(state, Cache)
            if t >= 15:
                sizes.add(state.k.shape)
        assert sizes == {torch.Size([1, 3, 15, 4])}
        assert relative_error(torch.cat(answers, 1), layer(x)[0]) <= 1e-12


def test_a_state_is_not_written_to(text: Text) -> None:
    pattern = Pattern("sliding", window=5)
    q, k, v = text.part(0, 9)
    _, state = window_decode(q, k, v, pattern=pattern)
    before = [part.clone() for part in (state.k, state.v)]
    q, k, v = text.part(9, 10)
    for _ in range(2):
        window_decode(q, k, v, state, pattern=pattern)
    assert all(torch.equal(now, then) for now, then in zip((state.k, state.v), before, strict=True))
