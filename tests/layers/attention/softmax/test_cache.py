"""A cache in a buffer with rows for tokens to come: every state of a text is a value, however it is continued."""

import copy
import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
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
    near,
)
from tests.layers.closeness import error
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from porism.costing.predicting import calibration
from porism.costing.predicting.calibration import MethodRates
from porism.layers import Attention, AutoAttention, KVCache, WindowAttention
from porism.layers.attention import auto
from porism.layers.attention.pattern import CAUSAL
from porism.layers.attention.softmax import cache

LONGEST = 60.0
"""Seconds that threads wait for one another."""


@pytest.fixture(autouse=True)
def _fixed_seed() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(
    ("sizes", "tolerance"),
    [
        ({}, EXACT),
        ({"G": 2}, EXACT),
        ({"G": 1, "D": 5, "H": 5}, EXACT),
        ({"G": 2, "D": 7, "H": 3, "dtype": torch.float32}, 1e-5),
        ({"G": 2, "dtype": torch.bfloat16}, 2**-6),
    ],
    ids=str,
)
def test_a_tree_of_texts_is_that_of_whole_passes(
    sizes: dict[str, Any], tolerance: float, seed: int, buffers: list[cache.KVBuffer]
) -> None:
    torch.manual_seed(seed)
    chosen = random.Random(seed)
    start = draw(chosen.randrange(4), **sizes)
    texts = [Text(start, torch.zeros(B, start[0].shape[2]).bool(), decode(*start)[1])]
    for _ in range(40):
        # Mostly the newest, as in generation; else any that was kept.
        text = texts[-1] if chosen.random() < 0.6 else chosen.choice(texts)
        match chosen.choice(["decode"] * 8 + ["reorder", "copy", "change"]):
            case "decode":
                T = chosen.choice([1, 1, 1, 2, 5, 0])
                pads = torch.rand(B, T) < 0.3 if chosen.random() < 0.2 else None
                answer, longer = continued(text, draw(T, **sizes), pads)
                assert error(answer.double(), expected(longer.parts, T, longer.padding)) <= tolerance
                texts.append(longer)
            case "reorder":
                beams = torch.tensor([chosen.randrange(B) for _ in range(B)])
                texts.append(Text([x[beams] for x in text.parts], text.padding[beams], text.state.reorder_cache(beams)))
            case "copy":
                texts.append(Text(text.parts, text.padding, COPIES[chosen.choice(list(COPIES))](text.state)))
            case "change":
                changed = text.parts[1] * 2
                text.state.k.mul_(2)
                text.parts = [text.parts[0], changed, text.parts[2]]
    assert any(buffer.taken > 1 for buffer in buffers)
    for text in texts:
        text.assert_is_kept()


def test_a_text_is_copied_a_few_times_and_not_at_every_token(buffers: list[cache.KVBuffer]) -> None:
    parts, state = draw(300), None
    for now in zip(*(x.split(1, 2) for x in parts), strict=True):
        _, state = decode(*now, state)
    assert len(buffers) <= 8
    assert buffers[-1].taken == 300
    assert state is not None
    assert torch.equal(state.k, parts[1])


def test_of_several_continuations_only_the_first_writes_where_the_state_is(buffers: list[cache.KVBuffer]) -> None:
    text = buffered()
    new = [draw(1) for _ in range(3)]
    longer = [continued(text, each)[1] for each in new]
    assert [each.state._buffer is buffers[0] for each in longer] == [True, False, False]
    assert len({id(each.state._buffer) for each in longer}) == 3
    # A step of no tokens gives a state of the same length: it and its source still claim a row once.
    none = continued(text, draw(0))[1]
    for each in (*longer, none, text, continued(none, draw(1))[1], continued(text, draw(1))[1]):
        each.assert_is_kept()


def test_a_continuation_that_does_not_fit_is_copied_to_a_larger_buffer(buffers: list[cache.KVBuffer]) -> None:
    text = buffered()
    free = buffers[0].k.shape[2] - 6
    _, fitting = continued(text, draw(free))
    assert fitting.state._buffer is buffers[0]
    _, beyond = continued(fitting, draw(1))
    assert beyond.state._buffer is buffers[1]
    _, large = continued(text, draw(100))
    for each in (text, fitting, beyond, large):
        each.assert_is_kept()


def test_threads_that_continue_one_state_claim_its_rows_once(monkeypatch: pytest.MonkeyPatch) -> None:
    class SlowBuffer(cache.KVBuffer):
        """Between the look at what is taken and the claim there is time for another thread."""

        @property
        def taken(self) -> int:
            seen = self.last
            time.sleep(0.02)
            return seen

        @taken.setter
        def taken(self, end: int) -> None:
            self.last = end

    monkeypatch.setattr(cache, "KVBuffer", SlowBuffer)
    text, count = buffered(), 6
    new, together = [draw(2) for _ in range(count)], threading.Barrier(count, timeout=LONGEST)

    def go_on(own: list[Tensor]) -> tuple[Tensor, Text]:
        together.wait()
        return continued(text, own)

    with ThreadPoolExecutor(count) as pool:
        found = list(pool.map(go_on, new))
    assert sum(longer.state._buffer is text.state._buffer for _, longer in found) == 1
    for answer, longer in found:
        assert error(answer, expected(longer.parts, 2)) <= EXACT
        longer.assert_is_kept()
    text.assert_is_kept()


def test_threads_that_read_one_state_see_one_tensor(monkeypatch: pytest.MonkeyPatch) -> None:
    copied, text, together = cache._copied, buffered(), threading.Barrier(4, timeout=LONGEST)

    def slow(x: Tensor) -> Tensor:
        time.sleep(0.02)
        return copied(x)

    monkeypatch.setattr(cache, "_copied", slow)

    def read(_: int) -> Tensor:
        together.wait()
        return text.state.k

    with ThreadPoolExecutor(4) as pool:
        assert len({id(k) for k in pool.map(read, range(4))}) == 1


def test_who_changes_the_tensors_of_a_state_changes_that_state_alone() -> None:
    text = buffered()
    _, older = continued(text, draw(1))
    _, newer = continued(older, draw(1))
    older.state.k.zero_()
    older.state.v[:, :, 0].fill_(3)
    older.state.v.numpy()[:, :, 1] = 4
    older.state.v.data[:, :, 2] = 5
    changed = older.parts[2].clone()
    changed[:, :, 0], changed[:, :, 1], changed[:, :, 2] = 3, 4, 5
    older.parts = [older.parts[0], torch.zeros_like(older.parts[1]), changed]
    for each in (text, older, newer):
        answer, longer = continued(each, draw(1))
        assert error(answer, expected(longer.parts, 1)) <= EXACT
        longer.assert_is_kept()
        each.assert_is_kept()
    # The tensors are the state's own for good.
    assert older.state.k is older.state.k
    assert tuple(older.state)[1] is older.state[1] is older.state.v


def test_a_slope_over_a_state_s_tensors_survives_that_the_text_goes_on() -> None:
    text, weight = buffered(), torch.randn(3, dtype=torch.float64, requires_grad=True)
    loss = (text.state.k * weight).sum()
    continued(text, draw(1))
    (slope,) = torch.autograd.grad(loss, weight)
    assert error(slope, text.parts[1].sum((0, 1, 2))) <= EXACT


@pytest.mark.parametrize("which", range(3))
def test_where_a_gradient_is_requested_it_flows(which: int, buffers: list[cache.KVBuffer]) -> None:
    text, new = buffered(), draw(1)
    leaves = [x.clone().requires_grad_(which == i) for i, x in enumerate(new)]
    answer, longer = continued(text, leaves)
    assert longer.state._buffer is None
    assert len(buffers) == 1
    assert buffers[0].taken == 6
    wanted = expected(longer.parts, 1)
    weights = torch.randn_like(wanted)
    # Tokens that come after it change nothing that its backward pass reads.
    for state in (text, longer):
        with torch.no_grad():
            continued(continued(state, draw(1))[1], draw(1))
    found, slope = (torch.autograd.grad((y * weights).sum(), leaves[which])[0] for y in (answer, wanted))
    assert error(found, slope) <= EXACT
    # A state that a gradient flows through is continued with it, and without it where nobody records.
    if which:
        answer, longer = continued(longer, draw(1))
        assert answer.requires_grad
        wanted = expected(longer.parts, 1)
        weights = torch.randn_like(wanted)
        found, slope = (torch.autograd.grad((y * weights).sum(), leaves[which])[0] for y in (answer, wanted))
        assert error(found, slope) <= EXACT
        with torch.no_grad():
            answer, _ = continued(longer, draw(1))
        assert not answer.requires_grad
    text.assert_is_kept()


def test_a_cache_is_read_as_a_named_tuple() -> None:
    text = buffered()
    k, v, padding, pattern = text.state
    assert (k is text.state.k, v is text.state[1], padding, pattern, len(text.state)) == (True, True, None, CAUSAL, 4)
    other = text.state._replace(pattern=None)
    assert (other.k is k, other.pattern, other.length) == (True, None, 6)
    assert list(text.state._asdict()) == ["k", "v", "padding", "pattern"]
    assert copy.copy(text.state).k is k
    assert repr(buffered().state).startswith("KVCache(k=tensor(")
    with pytest.raises(AttributeError):
        text.state.k = v  # type: ignore[misc]
    halves = tree_map(lambda x: x.float() if isinstance(x, Tensor) else x, text.state)
    assert (type(halves), halves.k.dtype, halves.pattern) == (KVCache, torch.float32, CAUSAL)
    padded = continued(text, draw(1), torch.ones(B, 1).bool())[1].state
    meta = tree_map(lambda x: x.to("meta") if isinstance(x, Tensor) else x, padded)
    assert meta.v.is_meta
    assert meta.padding.is_meta


def test_what_copies_nothing_leaves_the_buffer() -> None:
    state = buffered().state
    buffer = state._buffer
    assert buffer is not None
    assert state.length == 6
    assert state.nbytes == buffer.k.nbytes + buffer.v.nbytes
    assert (state.padding, state.pattern, bool(repr(state))) == (None, CAUSAL, True)
    state.reorder_cache(torch.tensor([1, 0]))
    state.last(3)
    assert state._buffer is buffer
    assert state.k.shape == (B, A, 6, 3)
    assert state._buffer is None
    assert state.nbytes == state.k.nbytes + state.v.nbytes


def test_the_last_tokens_of_a_state_are_copied() -> None:
    text = buffered()
    last = text.state.last(2)
    assert torch.equal(last.k, text.parts[1][:, :, -2:])
    last.k.zero_()
    text.assert_is_kept()


LAYERS: dict[str, Callable[[], nn.Module]] = {
    "softmax": lambda: Attention(12, 4, num_kv_heads=2, v_head_dim=5),
    "added keys": lambda: Attention(12, 4, add_bias_kv=True, add_zero_attn=True),
    "auto": lambda: AutoAttention(12, 4),
}


@pytest.fixture
def _known_device(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A device whose times are made up, so that to choose a mechanism measures nothing and is kept nowhere."""
    rates = MethodRates({"calls": 1.0}, {"calls": 1.0}, "2026-01-02", 0.0)
    monkeypatch.setattr(calibration, "_measured_rates", lambda *_: rates)
    monkeypatch.setattr(calibration, "_known_rates", {})
    monkeypatch.delenv("PORISM_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    auto._decided.cache_clear()
    yield
    auto._decided.cache_clear()


@pytest.mark.usefixtures("_known_device")
@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("recorded", [False, True])
def test_layers_decode_in_a_buffer_where_nobody_records(
    name: str, recorded: bool, buffers: list[cache.KVBuffer]
) -> None:
    layer: Any = LAYERS[name]().double()
    x = torch.randn(40, 2, 12, dtype=torch.float64)
    state, answers = None, []
    with torch.set_grad_enabled(recorded):
        for token in x.split(1):
            answer, state = layer.decode(token, state)
            answers.append(answer)
    whole = layer(x, is_causal=True)[0] if name != "auto" else Attention.forward(layer, x, is_causal=True)[0]
    assert error(torch.cat(answers).detach(), whole.detach()) <= EXACT
    assert len(buffers) == 0 if recorded else 1 <= len(buffers) <= 4


def test_states_that_stop_growing_need_no_buffer(buffers: list[cache.KVBuffer]) -> None:
    layer = WindowAttention(12, 4, window_size=3)
    x, state = torch.randn(9, 2, 12), None
    with torch.no_grad():
        for token in x.split(1):
            _, state = layer.decode(token, state)
    assert buffers == []
    _, state = near(*draw(3), pattern=CAUSAL)
    near(*draw(1), state, pattern=CAUSAL)
    assert len(buffers) == 1
