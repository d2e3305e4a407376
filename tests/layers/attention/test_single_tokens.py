"""A single token that continues a state where nobody wants a gradient: few operations, and the same answers."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
from tests.layers.closeness import error
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from porism.layers.attention.hybrid import HybridState, hybrid_decode
from porism.layers.attention.hybrid import naive as hybrid_naive
from porism.layers.attention.hybrid.kernels import step as hybrid_step
from porism.layers.attention.pattern import CAUSAL
from porism.layers.attention.softmax import KVCache
from porism.layers.attention.taylor import TaylorState, taylor_decode
from porism.layers.attention.taylor import naive as taylor_naive
from porism.layers.attention.taylor.feature_maps import MAPS, feature_map, map_of_rows
from porism.layers.attention.taylor.kernels import step as series_step
from porism.testing.gradients import relative_error

EXACT, W, T = 1e-12, 4, 9
DECODE: dict[str, Callable[..., Any]] = {"taylor": taylor_decode, "hybrid": partial(hybrid_decode, window_size=W)}
NAIVE: dict[str, Callable[..., Tensor]] = {
    "taylor": partial(taylor_naive.taylor_attention, pattern=CAUSAL),
    "hybrid": partial(hybrid_naive.hybrid_attention, window_size=W, pattern=CAUSAL),
}
each = pytest.mark.parametrize("name", DECODE)


@pytest.fixture(autouse=True)
def _fixed_seed() -> None:
    torch.manual_seed(0)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Notes every token that goes the short way."""
    taken: list[str] = []

    def noting(name: str, decode: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*args: Any) -> Any:
            taken.append(name)
            return decode(*args)

        return noted

    for name, step in (("taylor", series_step), ("hybrid", hybrid_step)):
        monkeypatch.setattr(step, "decode", noting(name, step.decode))
    return taken


def draw(T: int = T, A: int = 4, G: int = 2, D: int = 3, H: int = 5) -> list[Tensor]:
    return [torch.randn(2, heads, T, width, dtype=torch.float64) for heads, width in ((A, D), (G, D), (G, H))]


def padding_of(T: int = T) -> Tensor:
    """The first text is all padding, and the second begins with it."""
    return torch.stack([torch.ones(T).bool(), torch.arange(T) % 3 < 2])


def decoded(
    decode: Callable[..., Any],
    operands: list[Tensor],
    lengths: list[int] | None = None,
    padding: Tensor | None = None,
    **options: Any,
) -> tuple[Tensor, Any]:
    """The answers of parts of these lengths, single tokens unless they are given, and the last state."""
    lengths = [1] * operands[0].shape[2] if lengths is None else lengths
    state, answers, start = None, [], 0
    for length in lengths:
        now = slice(start, start + length)
        pads = None if padding is None else padding[:, now]
        answer, state = decode(*(x[:, :, now] for x in operands), state, key_padding_mask=pads, **options)
        answers.append(answer)
        start += length
    return torch.cat(answers, 2), state


def tensors(state: Any) -> Iterator[Tensor]:
    for part in state:
        if isinstance(part, Tensor):
            yield part
        elif isinstance(part, tuple | KVCache):
            yield from tensors(part)


def assert_same_state(found: Any, wanted: Any, tolerance: float = EXACT) -> None:
    for one, other in zip(tensors(found), tensors(wanted), strict=True):
        assert one.shape == other.shape
        assert one.dtype == other.dtype
        assert not one.numel() or relative_error(one.double(), other.double()) <= tolerance


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("G", [1, 2, 4])
@each
def test_tokens_one_by_one_are_those_of_the_oracle(name: str, G: int, padded: bool, steps: list[str]) -> None:
    for D in (1, 2, 3, 8):
        operands, padding = draw(G=G, D=D), padding_of() if padded else None
        found, state = decoded(DECODE[name], operands, padding=padding)
        assert error(found, NAIVE[name](*operands, key_padding_mask=padding)) <= EXACT
        assert not padded or not found[0].any()
        assert_same_state(state, decoded(DECODE[name], operands, [T], padding)[1])
        assert state[-1] == (W if name == "hybrid" else "rolled")
    # All but the first, which has no state to continue.
    assert steps == [name] * 4 * (T - 1)


@pytest.mark.parametrize(
    ("map", "order"), [("rolled", 2), ("exact", 2), ("exact", 3), ("exact", 4), ("ordered", 2), ("diagonal", 2)]
)
def test_every_map_and_order(map: str, order: int, steps: list[str]) -> None:
    for D, padded in ((1, False), (3, True), (4, False)):
        operands, padding = draw(D=D), padding_of() if padded else None
        options: dict[str, Any] = {"feature_map": map, "order": order, "allow_odd": True, "padding": padding}
        found, state = decoded(taylor_decode, operands, **options)
        wanted, last = decoded(taylor_decode, operands, [T], **options)
        # Weights of both signs can come near 0 / 0, where any rounding is large.
        assert error(found, wanted) <= (EXACT if order % 2 == 0 and map != "diagonal" else 1e-8)
        assert_same_state(state, last)
    assert len(steps) == 3 * (T - 1)


@pytest.mark.parametrize("window", [1, 2, 20])
@pytest.mark.parametrize("order", [2, 4])
def test_every_window_and_order_of_the_hybrid(window: int, order: int, steps: list[str]) -> None:
    for padding in (None, padding_of()):
        operands = draw()
        options: dict[str, Any] = {"window_size": window, "order": order}
        found, state = decoded(hybrid_decode, operands, padding=padding, **options)
        wanted = hybrid_naive.hybrid_attention(*operands, pattern=CAUSAL, key_padding_mask=padding, **options)
        assert error(found, wanted) <= EXACT
        assert_same_state(state, decoded(hybrid_decode, operands, [T], padding, **options)[1])
    assert len(steps) == 2 * (T - 1)


@pytest.mark.parametrize("map", MAPS)
def test_features_of_rows_are_those_of_columns(map: str) -> None:
    for order in (2, 3, 4) if map in ("exact", "ordered") else (2,):
        for D in (1, 2, 3, 4, 5, 16):
            x = torch.randn(6, D, dtype=torch.float64)
            found = map_of_rows(map, order, D, x.dtype, x.device).of_rows(x)
            assert relative_error(found, feature_map(map, order, x.mT)(x.mT).mT) <= 1e-15


@each
def test_blocks_and_single_tokens_take_turns(name: str, steps: list[str]) -> None:
    operands = draw(12)
    found, _ = decoded(DECODE[name], operands, [1, 1, 3, 1, 0, 5, 1])
    assert error(found, NAIVE[name](*operands)) <= EXACT
    assert steps == [name] * 3


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@each
def test_half_types_are_added_up_in_float32(name: str, dtype: torch.dtype, steps: list[str]) -> None:
    operands = [x.to(dtype) for x in draw()]
    found, state = decoded(DECODE[name], operands)
    assert found.dtype == dtype
    wanted = NAIVE[name](*(x.double() for x in operands))
    assert relative_error(found.double(), wanted) <= torch.finfo(dtype).eps
    assert_same_state(state, decoded(DECODE[name], operands, [T])[1], 1e-6)
    assert steps == [name] * (T - 1)


@each
def test_autocast_settles_types(name: str, steps: list[str]) -> None:
    operands = [x.float() for x in draw()]
    with torch.autocast("cpu", torch.bfloat16):
        found, state = decoded(DECODE[name], operands)
    halves = [x.bfloat16() for x in operands]
    wanted, last = decoded(DECODE[name], halves)
    assert found.dtype == torch.bfloat16
    assert torch.equal(found, wanted)
    assert all(torch.equal(*pair) for pair in zip(tensors(state), tensors(last), strict=True))
    assert steps == [name] * 2 * (T - 1)


@each
def test_states_may_branch(name: str, steps: list[str]) -> None:
    operands, others = draw(), draw()
    _, state = decoded(DECODE[name], [x[:, :, :-1] for x in operands])
    before = [x.clone() for x in tensors(state)]
    order = torch.tensor([1, 0])
    for new in (operands, others, operands):
        whole = [torch.cat([x[:, :, :-1], y[:, :, -1:]], 2) for x, y in zip(operands, new, strict=True)]
        now = [x[:, :, -1:] for x in new]
        wanted = NAIVE[name](*whole)[:, :, -1:]
        assert error(DECODE[name](*now, state)[0], wanted) <= EXACT
        turned = [x[order] for x in now]
        assert error(DECODE[name](*turned, state.reorder_cache(order))[0], wanted[order]) <= EXACT
    assert all(torch.equal(*pair) for pair in zip(tensors(state), before, strict=True))
    assert len(steps) == T - 2 + 6


@each
def test_a_state_made_by_hand_and_one_of_inference_mode(name: str, steps: list[str]) -> None:
    operands = draw()
    before, now = ([x[:, :, part] for x in operands] for part in (slice(0, -1), slice(T - 1, T)))
    wanted = NAIVE[name](*operands)[:, :, -1:]
    with torch.inference_mode():
        _, state = decoded(DECODE[name], before)
        assert error(DECODE[name](*now, state)[0], wanted) <= EXACT
    state = decoded(DECODE[name], before)[1]
    far = state.far if isinstance(state, HybridState) else state
    apart = TaylorState(far.sums.contiguous(), far.weights.contiguous())
    # Rows with room between them, and weights that only look as if they stood beside the sums.
    room = TaylorState(torch.cat([far.sums, far.sums], -1)[..., : far.sums.shape[-1]], far.weights.contiguous())
    for one in (apart, room):
        given = state._replace(far=one) if name == "hybrid" else one
        assert error(DECODE[name](*now, given)[0], wanted) <= EXACT
    assert len(steps) == 2 * (T - 2) + 3


def test_a_state_is_joined_without_a_copy_where_it_is_one_tensor() -> None:
    whole = torch.randn(2, 3, 10, 6)
    state = TaylorState.split(whole, 2, "rolled")
    assert state.joined().data_ptr() == whole.data_ptr()
    parts = state._replace(weights=whole[..., 0])
    for one in (state._replace(sums=state.sums.clone()), parts, state._replace(weights=state.weights.clone())):
        assert one.joined().data_ptr() != whole.data_ptr()
        assert torch.equal(one.joined(), torch.cat([one.sums, one.weights.unsqueeze(-1)], -1))
    leaf = torch.randn(2, 3, 10, 6, requires_grad=True)
    (slope,) = torch.autograd.grad(TaylorState.split(leaf, 2, "rolled").joined().square().sum(), leaf)
    assert torch.equal(slope, 2 * leaf)


@each
def test_who_records_transforms_or_counts_gets_the_operator(name: str, steps: list[str]) -> None:
    operands = draw()
    before, now = ([x[:, :, part] for x in operands] for part in (slice(0, -1), slice(T - 1, T)))
    _, state = decoded(DECODE[name], before, [T - 1])
    wanted = NAIVE[name](*operands)[:, :, -1:]
    for i in range(3):
        leaves = [x.clone().requires_grad_(i == j) for j, x in enumerate(now)]
        answer, _ = DECODE[name](*leaves, state)
        assert answer.requires_grad
        assert error(answer, wanted) <= EXACT
    slope = torch.func.grad(lambda q: DECODE[name](q, *now[1:], state)[0].sum())(now[0])
    (expected,) = torch.autograd.grad(DECODE[name](q := now[0].clone().requires_grad_(), *now[1:], state)[0].sum(), q)
    assert relative_error(slope, expected) <= EXACT
    mapped = torch.func.vmap(lambda q: DECODE[name](q, *now[1:], state)[0])(torch.stack([now[0], 2 * now[0]]))
    assert error(mapped[0], wanted) <= EXACT
    with FlopCounterMode(display=False) as counter:
        DECODE[name](*now, state)
    assert counter.get_total_flops() > 0
    assert steps == []
    assert error(DECODE[name](*now, state)[0], wanted) <= EXACT
    assert steps == [name]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch.compile itself calls what torch deprecates
@each
def test_a_step_compiles_as_one_operator(name: str, steps: list[str]) -> None:
    torch.compiler.reset()
    operands = draw()
    before, now = ([x[:, :, part] for x in operands] for part in (slice(0, -1), slice(T - 1, T)))
    _, state = decoded(DECODE[name], before, [T - 1])
    compiled = torch.compile(DECODE[name], fullgraph=True, backend="aot_eager", dynamic=False)
    answer, last = compiled(*now, state)
    assert steps == []
    wanted, expected = DECODE[name](*now, state)
    assert error(answer, wanted) <= EXACT
    assert_same_state(last, expected)


@pytest.mark.parametrize("level", [-800.0, -500.0, -104.0, -3.0, 0.0, 104.0, 500.0])
@pytest.mark.parametrize("window", [2, 4, 20])
def test_logits_of_any_size_overflow_nowhere(level: float, window: int, steps: list[str]) -> None:
    q, k, v = draw(D=2)
    q[..., 0], k[..., 0] = level / 8, 8.0
    padding = padding_of()
    for pads in (None, padding):
        found, _ = decoded(hybrid_decode, [q, k, v], padding=pads, window_size=window, scale=1.0)
        wanted = hybrid_naive.hybrid_attention(
            q, k, v, window_size=window, pattern=CAUSAL, scale=1.0, key_padding_mask=pads
        )
        assert error(found, wanted) <= EXACT
    assert len(steps) == 2 * (T - 1)


@each
def test_what_overflows_is_told_and_never_0(name: str, steps: list[str]) -> None:
    q, k, v = (torch.full((2, 1, 6, width), x) for width, x in ((8, 1e13), (8, -1e7), (7, 1e-30)))
    # The first text is all padding: it has no sum that could be lost.
    q[0], k[0] = 1, 1
    padding = torch.tensor([[True], [False]]).expand(2, 6)
    found, _ = decoded(DECODE[name], [q, k, v], padding=padding)
    assert torch.equal(found[0], torch.zeros_like(found[0]))
    assert found[1, :, W:].isnan().all()
    assert len(steps) == 5
    # At order 1 a key with the logit -1 has the weight 0.
    q, v = torch.ones(1, 1, 2, 1), torch.ones(1, 1, 2, 2)
    options: dict[str, Any] = {"order": 1, "allow_odd": True, "scale": 1.0}
    assert not decoded(taylor_decode, [q, -q, v], **options)[0].isfinite().any()


@each
def test_an_answer_may_be_changed_in_place(name: str) -> None:
    operands = draw()
    with torch.no_grad():
        _, state = decoded(DECODE[name], operands)
        answer, _ = DECODE[name](*(x[:, :, :1] for x in operands), state)
    # Tokens stand before heads in memory, as a projection reads them.
    assert answer.transpose(1, 2).is_contiguous()
    weight = torch.ones(5, dtype=torch.float64, requires_grad=True)
    answer.mul_(weight).sum().backward()
    assert weight.grad is not None


@each
def test_empty_batches_have_answers(name: str) -> None:
    operands = [x[:0] for x in draw()]
    found, _ = decoded(DECODE[name], operands)
    assert found.shape == (0, 4, T, 5)
