"""Decoding token by token equals the whole pass, and carries along no more than a window."""

from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from porism.errors import ShapeError
from porism.layers.attention.pattern import CAUSAL, Pattern
from porism.layers.attention.softmax import KVCache, softmax_decode
from porism.layers.attention.softmax.layer import Attention
from porism.layers.attention.window import WindowAttention, window_attention, window_decode
from porism.testing.gradients import relative_error

PATTERNS = {
    CAUSAL: None,
    Pattern("sliding", window_size=1): 0,
    Pattern("sliding", window_size=5): 4,
    Pattern("sliding", window_size=200): 199,
    Pattern("sliding", window_size=4, dilation=3): 9,
    Pattern("block", window_size=7, is_causal=True): 6,
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
        answer, state = window_decode(q, k, v, state, pattern=pattern, key_padding_mask=pads)
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
    wanted = window_attention(text.q, text.k, text.v, pattern=pattern, key_padding_mask=padding)
    assert relative_error(decode(text, pattern, [5, *[1] * 95], padding), wanted) <= 1e-12
    # A prompt may have padding where what follows has none.
    q, k, v = text.part(0, 50)
    _, state = window_decode(q, k, v, pattern=pattern, key_padding_mask=padding[:, :50])
    q, k, v = text.part(50, 100)
    answer, _ = window_decode(q, k, v, state, pattern=pattern)
    assert relative_error(answer, wanted[:, :, 50:]) <= 1e-12


def test_a_thousand_tokens_need_the_state_of_a_few() -> None:
    torch.manual_seed(0)
    layer = WindowAttention(12, 3, window_size=16, batch_first=True).double()
    x = torch.randn(1, 1000, 12, dtype=torch.float64)
    state, answers, sizes = None, [], set()
    with torch.no_grad():
        for t in range(1000):
            y, state = layer.decode(x[:, t : t + 1], state)
            answers.append(y)
            assert isinstance(state, KVCache)
            if t >= 15:
                sizes.add(state.k.shape)
        assert sizes == {torch.Size([1, 3, 15, 4])}
        assert relative_error(torch.cat(answers, 1), layer(x)[0]) <= 1e-12


def test_a_state_is_not_written_to(text: Text) -> None:
    pattern = Pattern("sliding", window_size=5)
    q, k, v = text.part(0, 9)
    _, state = window_decode(q, k, v, pattern=pattern)
    before = [part.clone() for part in (state.k, state.v)]
    q, k, v = text.part(9, 10)
    for _ in range(2):
        window_decode(q, k, v, state, pattern=pattern)
    assert all(torch.equal(now, then) for now, then in zip((state.k, state.v), before, strict=True))


BLOCK, NEAR = Pattern("block", window_size=7, is_causal=True), Pattern("sliding", window_size=5)
each_function = pytest.mark.parametrize("function", [softmax_decode, window_decode], ids=["softmax", "window"])


@each_function
def test_a_state_belongs_to_the_pattern_it_was_made_with(function: Any, text: Text) -> None:
    patterns = CAUSAL, BLOCK, NEAR, Pattern("sliding", window_size=6), Pattern("sliding", window_size=5, dilation=2)
    for pattern in patterns:
        _, state = function(*text.part(0, 9), pattern=pattern)
        assert state.pattern == pattern
        for other in patterns:
            if other != pattern:
                with pytest.raises(ShapeError, match="Decode with the pattern that the state was made with, or start"):
                    function(*text.part(9, 10), state, pattern=other)
        # Patterns are equal by what they are, and a cache that someone made of keys and values has none.
        function(*text.part(9, 10), state, pattern=Pattern(**vars(pattern)))
        function(*text.part(9, 10), KVCache(state.k, state.v), pattern=pattern)


@each_function
def test_a_state_belongs_to_its_batch_dtype_and_device(function: Any, text: Text) -> None:
    _, state = function(*text.part(0, 9), pattern=NEAR)
    q, k, v = text.part(9, 10)
    wrong: dict[str, Any] = {
        r"the state has keys of \(2, 2, \d, 3\), the new ones are \(1, 2, 1, 3\)": (q[:1], k[:1], v[:1], state),
        r"keys of torch\.float64 on cpu, the new ones are torch\.float32 on cpu": (
            q.float(),
            k.float(),
            v.float(),
            state,
        ),
        r"values of torch\.float64 on meta, the new ones are torch\.float64 on cpu": (
            q,
            k,
            v,
            state._replace(v=state.v.to("meta")),
        ),
        r"the state is a tuple, expected a KVCache\. Pass what the same function gave": (q, k, v, (state.k, state.v)),
        r"padding that may not fit\. Pass a state as it was given": (
            q,
            k,
            v,
            state._replace(padding=torch.zeros(2, 9)),
        ),
    }
    for message, arguments in wrong.items():
        with pytest.raises(ShapeError, match=message):
            function(*arguments, pattern=NEAR)


@each_function
@pytest.mark.parametrize("pattern", [CAUSAL, NEAR, BLOCK], ids=str)
def test_a_state_is_no_view_of_what_came(function: Any, pattern: Pattern, text: Text) -> None:
    buffers = [x.clone() for x in text.part(0, 4)]
    padding = torch.zeros(2, 4).bool()
    _, state = function(*buffers, pattern=pattern, key_padding_mask=padding)
    wanted, _ = function(*text.part(4, 5), state, pattern=pattern)
    for buffer in (*buffers, padding):
        buffer.fill_(1)
    found, _ = function(*text.part(4, 5), state, pattern=pattern)
    assert torch.equal(found, wanted)


@each_function
def test_a_gradient_flows_through_a_state(function: Any, text: Text) -> None:
    k = text.k.clone().requires_grad_()
    _, state = function(text.q[:, :, :4], k[:, :, :4], text.v[:, :, :4], pattern=NEAR)
    answer, _ = function(text.q[:, :, 4:5], k[:, :, 4:5], text.v[:, :, 4:5], state, pattern=NEAR)
    (gradient,) = torch.autograd.grad(answer.sum(), k)
    assert gradient[:, :, :5].abs().sum(-1).all()


def test_decoding_takes_a_key_for_each_query(text: Text) -> None:
    for function in (softmax_decode, window_decode):
        with pytest.raises(ShapeError, match="decoding takes a key for each new token, and 1 queries came with 4 keys"):
            function(text.q[:, :, :1], text.k[:, :, :4], text.v[:, :, :4], pattern=CAUSAL)


def test_a_layer_refuses_the_state_of_another() -> None:
    x = torch.randn(2, 4, 12)
    _, state = WindowAttention(12, 3, window_size=3, batch_first=True).decode(x)
    with pytest.raises(ShapeError, match="Decode with the pattern that the state was made with"):
        WindowAttention(12, 3, window_size=4, batch_first=True).decode(x, state)
    with pytest.raises(ShapeError, match="Decode with the pattern that the state was made with"):
        Attention(12, 3, batch_first=True).decode(x, state)
