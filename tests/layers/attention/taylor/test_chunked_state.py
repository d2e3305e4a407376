"""A state that takes up keys in chunks answers what a plain one does, and is it again once folded."""

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from tests.layers.closeness import error
from torch import Tensor

from porism.errors import ShapeError
from porism.layers.attention.pattern import CAUSAL
from porism.layers.attention.taylor import (
    ChunkedTaylorState,
    TaylorAttention,
    TaylorState,
    naive,
)
from porism.layers.attention.taylor import taylor_attention as _taylor_attention
from porism.layers.attention.taylor import taylor_decode as _taylor_decode
from porism.layers.attention.taylor.kernels import step
from porism.testing.gradients import relative_error

# Lists of operands are handed on, of which a type checker does not know how many they are.
taylor_attention: Callable[..., Any] = _taylor_attention
taylor_decode: Callable[..., Any] = _taylor_decode
EXACT, PROMPT, T = 1e-12, 3, 14


@pytest.fixture(autouse=True)
def _fixed_seed() -> None:
    torch.manual_seed(0)


def draw(
    T: int = T, A: int = 4, G: int = 2, D: int = 3, H: int = 5, dtype: torch.dtype = torch.float64
) -> list[Tensor]:
    return [torch.randn(2, heads, T, width, dtype=dtype) for heads, width in ((A, D), (G, D), (G, H))]


def prompted(operands: list[Tensor], size: int, **options: Any) -> ChunkedTaylorState:
    _, state = taylor_decode(*(x[:, :, :PROMPT] for x in operands), **options)
    chunked: ChunkedTaylorState = state.in_chunks(size)
    return chunked


def decoded(
    operands: list[Tensor], state: Any, lengths: list[int] | None = None, start: int = PROMPT, **options: Any
) -> tuple[Tensor, list[Any]]:
    """The answers from `start` on, in parts of these lengths or token by token, and the states after them."""
    answers, states = [], []
    for length in [1] * (operands[0].shape[2] - start) if lengths is None else lengths:
        now = slice(start, start + length)
        answer, state = taylor_decode(*(x[:, :, now] for x in operands), state, **options)
        answers.append(answer)
        states.append(state)
        start += length
    return torch.cat(answers, 2), states


def assert_same_sums(found: Any, wanted: TaylorState, tolerance: float = EXACT) -> None:
    assert isinstance(found, TaylorState)
    for one, other in zip(found[:2], wanted[:2], strict=True):
        assert relative_error(one.double(), other.double()) <= tolerance
    assert found[2:] == wanted[2:]


@pytest.mark.parametrize("size", [1, 2, 5, 100])
@pytest.mark.parametrize("G", [1, 2, 4])
def test_tokens_of_chunks_are_those_of_the_oracle(size: int, G: int) -> None:
    for D in (1, 3, 4):
        operands = draw(G=G, D=D)
        found, states = decoded(operands, prompted(operands, size))
        assert error(found, naive.taylor_attention(*operands, pattern=CAUSAL)[:, :, PROMPT:]) <= EXACT
        assert [state.length for state in states] == [(t + 1) % size for t in range(T - PROMPT)]
        assert_same_sums(states[-1].folded(), taylor_decode(*operands)[1])


@pytest.mark.parametrize(("map", "order"), [("exact", 2), ("exact", 3), ("exact", 4), ("ordered", 2), ("diagonal", 2)])
def test_every_map_and_order(map: str, order: int) -> None:
    operands, options = draw(), dict[str, Any](feature_map=map, order=order, allow_odd=True)
    found, states = decoded(operands, prompted(operands, 4, **options), **options)
    wanted, last = taylor_decode(*operands, **options)
    # Weights of both signs can come near 0 / 0, where any rounding is large.
    assert error(found, wanted[:, :, PROMPT:]) <= (EXACT if order % 2 == 0 and map != "diagonal" else 1e-8)
    assert_same_sums(states[-1].folded(), last)


def test_sums_are_written_once_a_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    operands = draw()
    beside: list[int] = []
    monkeypatch.setattr(step, "decode_in_chunk", noting(beside, step.decode_in_chunk))
    states = decoded(operands, prompted(operands, 4))[1]
    assert len(beside) == T - PROMPT
    written = [state.before.sums.data_ptr() for state in states]
    assert [a != b for a, b in itertools.pairwise(written)] == [(t + 2) % 4 == 0 for t in range(10)]


def noting(taken: list[int], function: Any) -> Any:
    def noted(*args: Any) -> Any:
        taken.append(1)
        return function(*args)

    return noted


@pytest.mark.parametrize("case", ["padded", "several tokens", "decay", "learned"])
def test_what_is_no_single_token_moves_the_sums_on(case: str) -> None:
    operands = draw()
    lengths, start = ([1, 1, 4, 1, 1, 3] if case == "several tokens" else [1] * (T - PROMPT)), PROMPT
    state: Any = prompted(operands, 4)
    plain, answers = state.folded(), []
    leaf = operands[1].requires_grad_(case == "learned")
    for i, length in enumerate(lengths):
        odd = i % 3 == 2
        options: dict[str, Any] = {}
        if odd and case == "padded":
            options["key_padding_mask"] = torch.tensor([[False], [True]])
        if odd and case == "decay":
            options["log_decay"] = torch.tensor([-0.1, -1.0], dtype=torch.float64)
        q, k, v = (x[:, :, start : start + length] for x in operands)
        with torch.set_grad_enabled(odd):
            answer, state = taylor_decode(q, k, v, state, **options)
            wanted, plain = taylor_decode(q, k, v, plain, **options)
        assert isinstance(state, ChunkedTaylorState)
        assert state.size == 4
        assert error(answer, wanted) <= EXACT
        assert answer.requires_grad == wanted.requires_grad
        assert_same_sums(state.folded(), plain)
        if odd and case == "learned":
            answers.append((answer, wanted))
        start += length
        assert (state.length == 0) >= (odd and case != "several tokens")
    for one, other in answers:
        found, expected = (torch.autograd.grad(x.sum(), leaf, retain_graph=True)[0] for x in (one, other))
        assert relative_error(found, expected) <= EXACT


def test_a_chunk_may_get_another_size_and_a_folded_state_has_memory_of_its_own() -> None:
    given = torch.randn(3, 1, 2, 9, 4, dtype=torch.float64)
    q, k, v = given
    _, state = taylor_decode(*given[:, :, :, :5])
    chunked = state.in_chunks(4)
    for t in range(5, 8):
        assert chunked.in_chunks(4) is chunked
        _, chunked = taylor_decode(*given[:, :, :, t : t + 1], chunked.in_chunks(4))
    other = chunked.in_chunks(2)
    assert (other.size, other.length) == (2, 0)
    wanted = naive.taylor_attention(q, k, v, pattern=CAUSAL)[:, :, 8:]
    for each in (chunked, other, chunked.folded(), other.folded()):
        answer, _ = taylor_decode(*given[:, :, :, 8:], each)
        assert relative_error(answer, wanted) <= 1e-12
    for each in (other, chunked):
        folded = each.folded()
        folded.sums.zero_()
        folded.weights.zero_()
        answer, _ = taylor_decode(*given[:, :, :, 8:], each)
        assert relative_error(answer, wanted) <= 1e-12


def test_a_state_is_a_value() -> None:
    """Kept, continued twice, and reordered in the middle of a chunk."""
    operands = draw()
    _, states = decoded(operands, prompted(operands, 4))
    middle = states[5]
    again, _ = decoded(operands, middle, start=PROMPT + 6)
    other = [x.flip(0) for x in operands]
    swapped, _ = decoded(other, middle.reorder_cache(torch.tensor([1, 0])), start=PROMPT + 6)
    wanted = taylor_attention(*operands, pattern=CAUSAL)[:, :, PROMPT + 6 :]
    assert error(again, wanted) <= EXACT
    assert error(swapped, wanted.flip(0)) <= EXACT


def test_who_changes_a_token_later_changes_no_state() -> None:
    operands = draw()
    state, answers = prompted(operands, 4), []
    for t in range(PROMPT, T):
        token = [x[:, :, t : t + 1].clone() for x in operands]
        answer, state = taylor_decode(*token, state)
        answers.append(answer)
        for x in token:
            x.fill_(9.0)
    assert error(torch.cat(answers, 2), taylor_attention(*operands, pattern=CAUSAL)[:, :, PROMPT:]) <= EXACT


def test_it_continues_a_whole_pass() -> None:
    operands = draw()
    state = decoded(operands, prompted(operands, 8))[1][5]
    rest = [x[:, :, PROMPT + 6 :] for x in operands]
    answer, last = taylor_attention(*rest, pattern=CAUSAL, initial_state=state, output_final_state=True)
    assert error(answer, taylor_attention(*operands, pattern=CAUSAL)[:, :, PROMPT + 6 :]) <= EXACT
    assert_same_sums(last, taylor_decode(*operands)[1])


def test_the_layer_decodes_in_chunks() -> None:
    layer = TaylorAttention(32, 4, num_kv_heads=2, batch_first=True, warn_above=None).double().eval()
    x = torch.randn(2, T, 32, dtype=torch.float64)
    with torch.no_grad():
        wanted, _ = layer(x, is_causal=True)
        first, state = layer.decode(x[:, :PROMPT])
        answers, state = [first], state.in_chunks(4)
        for token in x[:, PROMPT:].split(1, 1):
            answer, state = layer.decode(token, state)
            answers.append(answer)
    assert error(torch.cat(answers, 1), wanted) <= EXACT
    assert state.length == (T - PROMPT) % 4


def test_half_precision_keeps_keys_as_they_came() -> None:
    operands = draw(dtype=torch.bfloat16)
    found, states = decoded(operands, prompted(operands, 100))
    assert states[-1].keys.dtype == torch.bfloat16
    assert torch.equal(states[-1].keys, operands[1][:, :, PROMPT:])
    assert torch.equal(states[-1].values, operands[2][:, :, PROMPT:])
    wanted = naive.taylor_attention(*(x.double() for x in operands), pattern=CAUSAL)[:, :, PROMPT:]
    assert error(found.double(), wanted) <= 1e-2


def test_compiled_code_folds() -> None:
    operands = draw()
    state = decoded(operands, prompted(operands, 8))[1][4]
    q, k, v = (x[:, :, PROMPT + 5 : PROMPT + 6] for x in operands)
    compiled = torch.compile(taylor_decode, fullgraph=True, backend="aot_eager", dynamic=False)
    (found, after), (wanted, _) = (decode(q, k, v, state) for decode in (compiled, taylor_decode))
    assert error(found, wanted) <= EXACT
    assert after.length == 0


def refused(function: Any, *args: Any) -> str:
    with pytest.raises(ShapeError) as told:
        function(*args)
    return str(told.value)


def test_what_does_not_fit_is_refused() -> None:
    operands = draw()
    state = decoded(operands, prompted(operands, 8))[1][4]
    q, k, v = (x[:, :, :1] for x in operands)
    decode = partial(taylor_decode, q, k, v)
    for size in (0, -1, 1.5, True):
        assert "the size of a chunk" in refused(state.before.in_chunks, size)
    assert "the keys of the state's chunk are (2, 2, 5, 2)" in refused(decode, state._replace(keys=state.keys[..., :2]))
    assert "the values of the state's chunk are" in refused(decode, state._replace(values=state.values[:, :, :4]))
    assert "torch.float32" in refused(decode, state._replace(keys=state.keys.float()))
    assert "the keys of the state's chunk are (3,)" in refused(decode, state._replace(keys=torch.zeros(3)))
    assert "are None" in refused(decode, state._replace(values=None))
    assert "are None" in refused(decode, state._replace(keys=None))
    assert "the size of the state's chunk" in refused(decode, state._replace(size=0))
    assert "expected (2, 2, 10, 5)" in refused(decode, state._replace(before=taylor_decode(*draw(D=2))[1]))
    assert "names no order or map" in refused(state._replace(before=state.before._replace(order=None)).folded)
    assert "of order 4" in refused(decode, state._replace(before=state.before._replace(order=4)))


def test_a_chunk_longer_than_its_size_still_answers_right() -> None:
    operands = draw()
    state = decoded(operands, prompted(operands, 100))[1][6]
    found, states = decoded(operands, state._replace(size=3), start=PROMPT + 7)
    assert error(found, taylor_attention(*operands, pattern=CAUSAL)[:, :, PROMPT + 7 :]) <= EXACT
    assert states[0].length == 0
