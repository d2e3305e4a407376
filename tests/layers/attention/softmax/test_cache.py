"""A cache with room for tokens to come: every state of a text is a value, whoever continues which of them and how."""

import copy
import io
import pickle
import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.layers.closeness import error
from torch import Tensor, nn
from torch.utils._pytree import tree_map
from torch.utils.flop_counter import FlopCounterMode

from porism.costing.predicting import calibration
from porism.costing.predicting.calibration import MethodRates
from porism.layers import Attention, AutoAttention, KVCache, WindowAttention, softmax_decode, window_decode
from porism.layers.attention import auto
from porism.layers.attention.pattern import CAUSAL
from porism.layers.attention.softmax import cache, naive

EXACT = 1e-12
LONGEST = 60.0
"""Seconds that threads wait for one another."""
B, A = 2, 4
decode: Callable[..., tuple[Tensor, KVCache]] = softmax_decode
near: Callable[..., tuple[Tensor, KVCache]] = window_decode


@pytest.fixture(autouse=True)
def _fixed_seed() -> None:
    torch.manual_seed(0)


@pytest.fixture
def rooms(monkeypatch: pytest.MonkeyPatch) -> list[cache.Room]:
    """Every memory that tokens are copied to, its free rows full of NaN."""
    made: list[cache.Room] = []

    class NotedRoom(cache.Room):
        def __init__(self, k: Tensor, v: Tensor, end: int) -> None:
            super().__init__(k, v, end)
            for rows in (self.k, self.v):
                rows[:, :, k.shape[2] :] = torch.nan
            made.append(self)

    monkeypatch.setattr(cache, "Room", NotedRoom)
    return made


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


def roomy(T: int = 6, **sizes: Any) -> Text:
    """A text whose state has room."""
    parts = draw(T, **sizes)
    _, state = decode(*(x[:, :, :-1] for x in parts))
    _, state = decode(*(x[:, :, -1:] for x in parts), state)
    assert state._room is not None
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
    sizes: dict[str, Any], tolerance: float, seed: int, rooms: list[cache.Room]
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
    assert any(room.taken > 1 for room in rooms)
    for text in texts:
        text.assert_is_kept()


def test_a_text_is_copied_a_few_times_and_not_at_every_token(rooms: list[cache.Room]) -> None:
    parts, state = draw(300), None
    for now in zip(*(x.split(1, 2) for x in parts), strict=True):
        _, state = decode(*now, state)
    assert len(rooms) <= 8
    assert rooms[-1].taken == 300
    assert state is not None
    assert torch.equal(state.k, parts[1])


def test_of_several_continuations_only_the_first_writes_where_the_state_is(rooms: list[cache.Room]) -> None:
    text = roomy()
    new = [draw(1) for _ in range(3)]
    longer = [continued(text, each)[1] for each in new]
    assert [each.state._room is rooms[0] for each in longer] == [True, False, False]
    assert len({id(each.state._room) for each in longer}) == 3
    # A step of no tokens gives a state of the same length: it and its source still claim a row once.
    none = continued(text, draw(0))[1]
    for each in (*longer, none, text, continued(none, draw(1))[1], continued(text, draw(1))[1]):
        each.assert_is_kept()


def test_a_continuation_that_does_not_fit_is_copied_to_more_room(rooms: list[cache.Room]) -> None:
    text = roomy()
    free = rooms[0].k.shape[2] - 6
    _, fitting = continued(text, draw(free))
    assert fitting.state._room is rooms[0]
    _, beyond = continued(fitting, draw(1))
    assert beyond.state._room is rooms[1]
    _, large = continued(text, draw(100))
    for each in (text, fitting, beyond, large):
        each.assert_is_kept()


def test_threads_that_continue_one_state_claim_its_room_once(monkeypatch: pytest.MonkeyPatch) -> None:
    class SlowRoom(cache.Room):
        """Between the look at what is taken and the claim there is time for another thread."""

        @property
        def taken(self) -> int:
            seen = self.last
            time.sleep(0.02)
            return seen

        @taken.setter
        def taken(self, end: int) -> None:
            self.last = end

    monkeypatch.setattr(cache, "Room", SlowRoom)
    text, count = roomy(), 6
    new, together = [draw(2) for _ in range(count)], threading.Barrier(count, timeout=LONGEST)

    def go_on(own: list[Tensor]) -> tuple[Tensor, Text]:
        together.wait()
        return continued(text, own)

    with ThreadPoolExecutor(count) as pool:
        found = list(pool.map(go_on, new))
    assert sum(longer.state._room is text.state._room for _, longer in found) == 1
    for answer, longer in found:
        assert error(answer, expected(longer.parts, 2)) <= EXACT
        longer.assert_is_kept()
    text.assert_is_kept()


def test_threads_that_read_one_state_see_one_tensor(monkeypatch: pytest.MonkeyPatch) -> None:
    copied, text, together = cache._copied, roomy(), threading.Barrier(4, timeout=LONGEST)

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
    text = roomy()
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
    text, weight = roomy(), torch.randn(3, dtype=torch.float64, requires_grad=True)
    loss = (text.state.k * weight).sum()
    continued(text, draw(1))
    (slope,) = torch.autograd.grad(loss, weight)
    assert error(slope, text.parts[1].sum((0, 1, 2))) <= EXACT


@pytest.mark.parametrize("which", range(3))
def test_where_a_gradient_is_requested_it_flows(which: int, rooms: list[cache.Room]) -> None:
    text, new = roomy(), draw(1)
    leaves = [x.clone().requires_grad_(which == i) for i, x in enumerate(new)]
    answer, longer = continued(text, leaves)
    assert longer.state._room is None
    assert len(rooms) == 1
    assert rooms[0].taken == 6
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


def test_tensors_of_a_class_of_ones_own_stay_what_they_are(rooms: list[cache.Room]) -> None:
    class Marked(Tensor):
        pass

    new = [x.as_subclass(Marked) for x in draw(1)]
    _, state = decode(*new, decode(*new)[1])
    assert type(state.k) is Marked
    assert rooms == []


def test_a_state_may_come_from_inference_mode_and_go_there() -> None:
    with torch.inference_mode():
        inside = roomy()
        _, longer = continued(inside, draw(1))
        assert longer.state._room is inside.state._room
    outside = roomy()
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
    call: Callable[..., tuple[Tensor, KVCache]], rooms: list[cache.Room]
) -> None:
    text, new = roomy(), draw(1)
    longer = Text([torch.cat(pair, 2) for pair in zip(text.parts, new, strict=True)], torch.zeros(B, 7).bool(), None)  # type: ignore[arg-type]
    answer, longer.state = call(text, new)
    assert error(answer, expected(longer.parts, 1)) <= EXACT
    assert len(rooms) == 1
    assert rooms[0].taken == 6
    assert longer.state._room is None
    longer.assert_is_kept()
    text.assert_is_kept()


def test_tensors_that_are_first_read_in_a_transform_outlast_it() -> None:
    for read in (
        lambda text: torch.func.grad(lambda x: (text.state.k * x).sum())(text.parts[1]),
        lambda text: torch.func.vmap(lambda x: text.state.k * x)(torch.ones(2, dtype=torch.float64)),
        lambda text: FakeReader().read(text),
    ):
        text = roomy()
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
def test_a_saved_state_has_no_room_and_goes_on(name: str) -> None:
    text = roomy()
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
    state, new = roomy().state, draw(1)
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


def test_a_cache_is_read_as_a_named_tuple() -> None:
    text = roomy()
    k, v, padding, pattern = text.state
    assert (k is text.state.k, v is text.state[1], padding, pattern, len(text.state)) == (True, True, None, CAUSAL, 4)
    other = text.state._replace(pattern=None)
    assert (other.k is k, other.pattern, other.length) == (True, None, 6)
    assert list(text.state._asdict()) == ["k", "v", "padding", "pattern"]
    assert copy.copy(text.state).k is k
    assert repr(roomy().state).startswith("KVCache(k=tensor(")
    with pytest.raises(AttributeError):
        text.state.k = v  # type: ignore[misc]
    halves = tree_map(lambda x: x.float() if isinstance(x, Tensor) else x, text.state)
    assert (type(halves), halves.k.dtype, halves.pattern) == (KVCache, torch.float32, CAUSAL)
    padded = continued(text, draw(1), torch.ones(B, 1).bool())[1].state
    meta = tree_map(lambda x: x.to("meta") if isinstance(x, Tensor) else x, padded)
    assert meta.v.is_meta
    assert meta.padding.is_meta


def test_what_copies_nothing_leaves_the_room() -> None:
    state = roomy().state
    room = state._room
    assert room is not None
    assert state.length == 6
    assert state.nbytes == room.k.nbytes + room.v.nbytes
    assert (state.padding, state.pattern, bool(repr(state))) == (None, CAUSAL, True)
    state.reorder_cache(torch.tensor([1, 0]))
    state.last(3)
    assert state._room is room
    assert state.k.shape == (B, A, 6, 3)
    assert state._room is None
    assert state.nbytes == state.k.nbytes + state.v.nbytes


def test_the_last_tokens_of_a_state_are_copied() -> None:
    text = roomy()
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
def test_layers_decode_with_room_where_nobody_records(name: str, recorded: bool, rooms: list[cache.Room]) -> None:
    layer: Any = LAYERS[name]().double()
    x = torch.randn(40, 2, 12, dtype=torch.float64)
    state, answers = None, []
    with torch.set_grad_enabled(recorded):
        for token in x.split(1):
            answer, state = layer.decode(token, state)
            answers.append(answer)
    whole = layer(x, is_causal=True)[0] if name != "auto" else Attention.forward(layer, x, is_causal=True)[0]
    assert error(torch.cat(answers).detach(), whole.detach()) <= EXACT
    assert len(rooms) == 0 if recorded else 1 <= len(rooms) <= 4


def test_states_that_stop_growing_need_no_room(rooms: list[cache.Room]) -> None:
    layer = WindowAttention(12, 4, window_size=3)
    x, state = torch.randn(9, 2, 12), None
    with torch.no_grad():
        for token in x.split(1):
            _, state = layer.decode(token, state)
    assert rooms == []
    _, state = near(*draw(3), pattern=CAUSAL)
    near(*draw(1), state, pattern=CAUSAL)
    assert len(rooms) == 1
