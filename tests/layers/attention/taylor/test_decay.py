"""Keys that decay from step to step: answers, gradients and states equal the oracle's, however fast they decay."""

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
from tests.layers.closeness import attention_errors
from torch import Tensor

from porism.costing.counting.count import count
from porism.errors import ShapeError
from porism.layers.attention.decay import DecayGate
from porism.layers.attention.pattern import CAUSAL, Pattern
from porism.layers.attention.taylor import TaylorAttention, naive, taylor_attention, taylor_decode
from porism.layers.attention.taylor.cost import core
from porism.testing.gradients import relative_error

EXACT = 1e-12
FASTEST = {"slow": 0.01, "fast": 1.0, "at once": 60.0}
"""The most that the logarithm of a weight loses at a step. By 60 a key is gone in float32, by 20 steps in float64."""

each_speed = pytest.mark.parametrize("speed", FASTEST.values(), ids=FASTEST)


@pytest.fixture(autouse=True)
def _fixed_seed() -> None:
    torch.manual_seed(0)


def operands(
    T: int, A: int = 2, G: int = 2, D: int = 3, H: int = 2, dtype: torch.dtype = torch.float64
) -> tuple[Tensor, Tensor, Tensor]:
    q, k, v = (torch.randn(size, dtype=dtype) for size in ((2, A, T, D), (2, G, T, D), (2, G, T, H)))
    return q.requires_grad_(), k.requires_grad_(), v.requires_grad_()


def steps(T: int, speed: float, G: int = 2, dtype: torch.dtype = torch.float64) -> Tensor:
    return (-speed * torch.rand(2, G, T, dtype=dtype)).requires_grad_()


def worst(found: Tensor, wanted: Tensor, variables: tuple[Tensor, ...]) -> float:
    """The largest of the answer's and the gradients' errors; NaN counts."""
    return float(torch.tensor(attention_errors(found, wanted, variables)).max())


def padding_of(T: int) -> Tensor:
    """The first text is all padding, so that its queries attend to nothing."""
    return torch.stack([torch.ones(T).bool(), torch.rand(T) < 0.4])


@pytest.mark.sweep(3, each="T")
@each_speed
@pytest.mark.parametrize("T", [1, 2, 7, 63, 257, 600])
def test_equals_the_oracle_forward_and_backward(T: int, speed: float) -> None:
    errors = {}
    for G, padded in product((1, 2), (False, True)):
        q, k, v = operands(T, G=G)
        log_decay, padding = steps(T, speed, G), padding_of(T) if padded else None
        options: dict[str, Any] = {"pattern": CAUSAL, "key_padding_mask": padding, "log_decay": log_decay}
        found = taylor_attention(q, k, v, **options)
        wanted = naive.taylor_attention(q, k, v, **options)
        errors[G, padded] = worst(found, wanted, (q, k, v, log_decay))
    assert {case: error for case, error in errors.items() if not error <= EXACT} == {}


@pytest.mark.parametrize(("map", "order"), [("exact", 2), ("exact", 4), ("ordered", 2), ("diagonal", 2)])
def test_every_map_and_order(map: str, order: int) -> None:
    q, k, v = operands(260, D=4)
    if map == "diagonal":
        # Weights of both signs may cancel: not those of small keys.
        k = (k.detach() / 8).requires_grad_()
    log_decay = steps(260, 0.5)
    found = taylor_attention(q, k, v, is_causal=True, feature_map=map, order=order, log_decay=log_decay)
    wanted = naive.taylor_attention(q, k, v, pattern=CAUSAL, feature_map=map, order=order, log_decay=log_decay)
    assert worst(found, wanted, (q, k, v, log_decay)) <= EXACT


def test_a_number_for_each_head_is_that_of_all_its_steps() -> None:
    q, k, v = operands(9, A=4)
    heads = torch.tensor([-0.1, -0.7], dtype=torch.float64, requires_grad=True)
    found = taylor_attention(q, k, v, is_causal=True, log_decay=heads)
    wanted = naive.taylor_attention(q, k, v, pattern=CAUSAL, log_decay=heads[None, :, None].expand(2, 2, 9))
    assert worst(found, wanted, (q, k, v, heads)) <= EXACT


def test_nothing_decays_by_zeros() -> None:
    q, k, v = operands(300)
    plain = taylor_attention(q, k, v, is_causal=True)
    assert torch.equal(taylor_attention(q, k, v, is_causal=True, log_decay=torch.zeros(2, dtype=torch.float64)), plain)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("reset", [-1e3, -1e6, -1e13, torch.finfo(torch.float32).min, -torch.inf])
def test_after_a_step_that_leaves_nothing_the_text_is_as_if_it_began_there(reset: float, dtype: torch.dtype) -> None:
    T, starts = 600, (100, 299, 300, 560)
    given = [x.detach().requires_grad_() for x in (*operands(T, dtype=dtype), steps(T, 0.5, dtype=dtype))]
    q, k, v, kept = given
    log_decay = kept.index_fill(2, torch.tensor(starts), reset)

    def alone(part: slice) -> Tensor:
        # The first step is that of no key.
        q, k, v, steps = (x[:, :, part].double() for x in given)
        return naive.taylor_attention(q, k, v, pattern=CAUSAL, log_decay=steps)

    wanted = torch.cat([alone(slice(*ends)) for ends in zip((0, *starts), (*starts, T), strict=True)], 2)
    found = taylor_attention(q, k, v, is_causal=True, log_decay=log_decay)
    exact = EXACT if dtype is torch.float64 else 1e-5
    assert relative_error(found.double(), wanted) <= exact
    incoming = torch.randn_like(wanted)
    slopes = torch.autograd.grad(found, given, incoming.to(dtype)), torch.autograd.grad(wanted, given, incoming)
    for slope, right in zip(*slopes, strict=True):
        assert relative_error(slope.double(), right.double()) <= 10 * exact
    state, answers = None, []
    with torch.no_grad():
        for part in (slice(0, 90), *(slice(t, t + 1) for t in range(90, 110)), slice(110, T)):
            now = q[:, :, part], k[:, :, part], v[:, :, part]
            answer, state = taylor_decode(*now, state, log_decay=log_decay[:, :, part])
            answers.append(answer)
    assert relative_error(torch.cat(answers, 2).double(), wanted) <= exact


@each_speed
def test_a_long_text_in_float32_keeps_its_digits(speed: float) -> None:
    """The sum of the steps reaches 60,000, of which float32 would leave two decimals."""
    q, k, v = (x.detach().requires_grad_() for x in operands(2000))
    log_decay = steps(2000, speed)
    wanted = naive.taylor_attention(q, k, v, pattern=CAUSAL, log_decay=log_decay)
    single = [x.detach().float().requires_grad_() for x in (q, k, v, log_decay)]
    found = taylor_attention(single[0], single[1], single[2], is_causal=True, log_decay=single[3])
    assert relative_error(found.double(), wanted) <= 1e-5
    incoming = torch.randn_like(wanted)
    slopes = torch.autograd.grad(found, single, incoming.float())
    for slope, exact in zip(slopes, torch.autograd.grad(wanted, (q, k, v, log_decay), incoming), strict=True):
        assert relative_error(slope.double(), exact) <= 1e-4


def test_a_query_far_behind_the_end_of_its_text_has_the_last_key_all_the_same() -> None:
    """A pad is no step: else all weights would be gone after so many of them."""
    q, k, v = operands(700, dtype=torch.float32)
    padding = torch.arange(700) >= torch.tensor([[5], [700]])
    log_decay = torch.full((2,), -2.0, requires_grad=True)
    answer = taylor_attention(q, k, v, is_causal=True, key_padding_mask=padding, log_decay=log_decay)
    assert answer.isfinite().all()
    answer.square().sum().backward()
    assert all(x.grad is not None and x.grad.isfinite().all() for x in (q, k, v, log_decay))


@each_speed
@pytest.mark.parametrize("cuts", [(1,), (7,), (256, 300), (299,)])
def test_a_state_goes_on_where_the_text_was_cut(cuts: tuple[int, ...], speed: float) -> None:
    T = 301
    q, k, v = operands(T, A=4)
    log_decay = steps(T, speed)
    whole = naive.taylor_attention(q, k, v, pattern=CAUSAL, log_decay=log_decay)
    answers, state = [], None
    for start, stop in zip((0, *cuts), (*cuts, T), strict=True):
        part = slice(start, stop)
        answer, state = taylor_decode(
            q[:, :, part], k[:, :, part], v[:, :, part], state, log_decay=log_decay[:, :, part]
        )
        answers.append(answer)
    assert worst(torch.cat(answers, 2), whole, (q, k, v, log_decay)) <= EXACT


@each_speed
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_single_tokens_of_which_nobody_wants_a_gradient(dtype: torch.dtype, speed: float) -> None:
    T, padding = 40, torch.arange(40) >= torch.tensor([[33], [40]])
    q, k, v = (x.detach().to(dtype) for x in operands(T, A=4))
    log_decay = steps(T, speed).detach()
    wanted = naive.taylor_attention(
        *(x.double() for x in (q, k, v)), pattern=CAUSAL, key_padding_mask=padding, log_decay=log_decay
    )
    answers, state = [], None
    for token in range(T):
        part = slice(token, token + 1)
        options: dict[str, Any] = {"key_padding_mask": padding[:, part], "log_decay": log_decay[:, :, part]}
        answer, state = taylor_decode(q[:, :, part], k[:, :, part], v[:, :, part], state, **options)
        answers.append(answer)
    bound = {torch.float64: EXACT, torch.float32: 1e-5, torch.bfloat16: 2e-2}[dtype]
    assert relative_error(torch.cat(answers, 2).double(), wanted) <= bound


def test_a_gradient_of_the_last_state_reaches_all_operands_and_the_first_one() -> None:
    q, k, v = operands(300)
    log_decay = steps(300, 0.1)
    _, first = taylor_decode(*operands(4))
    sums, weights = first.sums.detach().requires_grad_(), first.weights.detach().requires_grad_()
    first = first._replace(sums=sums, weights=weights)

    def last_of(length: int) -> list[Tensor]:
        """In one pass, or token by token, where the oracle of a state is the sum over single steps."""
        state = first
        for start in range(0, 300, length):
            part = slice(start, start + length)
            _, state = taylor_decode(
                q[:, :, part], k[:, :, part], v[:, :, part], state, log_decay=log_decay[:, :, part]
            )
        return [state.sums, state.weights]

    variables = (k, v, log_decay, sums, weights)
    found, wanted = (
        torch.autograd.grad(sum((x.sin().sum() for x in last_of(length)), q.new_zeros(())), variables)
        for length in (300, 1)
    )
    assert max(relative_error(*pair) for pair in zip(found, wanted, strict=True)) <= 1e-10


def test_packed_sequences_decay_each_by_itself() -> None:
    q, k, v = (x[:1] for x in operands(12, A=4))
    log_decay = steps(12, 1.0)[:1]
    borders = [0, 5, 5, 12]
    found = taylor_attention(q, k, v, is_causal=True, cu_seqlens=borders, log_decay=log_decay)
    single = [
        naive.taylor_attention(
            *(x[:, :, start:stop] for x in (q, k, v)), pattern=CAUSAL, log_decay=log_decay[:, :, start:stop]
        )
        for start, stop in ((0, 5), (5, 12))
    ]
    assert worst(found, torch.cat(single, 2), (q, k, v, log_decay)) <= EXACT


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_types(dtype: torch.dtype) -> None:
    q, k, v = (x.detach().to(dtype).requires_grad_() for x in operands(300, D=4, H=5))
    log_decay = steps(300, 0.3).detach().float().requires_grad_()
    exact = [x.detach().double().requires_grad_() for x in (q, k, v, log_decay)]
    found = taylor_attention(q, k, v, is_causal=True, log_decay=log_decay)
    wanted = naive.taylor_attention(*exact[:3], pattern=CAUSAL, log_decay=exact[3])
    assert found.dtype == dtype
    assert relative_error(found.double(), wanted) <= 2e-2
    incoming = torch.randn_like(wanted)
    slopes = torch.autograd.grad(found, (q, k, v, log_decay), incoming.to(dtype))
    assert [slope.dtype for slope in slopes] == [dtype, dtype, dtype, torch.float32]
    for slope, other in zip(slopes, torch.autograd.grad(wanted, exact, incoming), strict=True):
        assert relative_error(slope.double(), other) <= 2e-2


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "a full pattern": (
        lambda: taylor_attention(*operands(5), log_decay=steps(5, 1.0)),
        "came with a full pattern, .* Set is_causal=True",
    ),
    "block-causal": (
        lambda: taylor_attention(*operands(5), pattern=Pattern("block-causal", 2), log_decay=steps(5, 1.0)),
        "came with a block-causal pattern",
    ),
    "an offset": (
        lambda: taylor_attention(*operands(5), is_causal=True, offset=1, log_decay=steps(5, 1.0)),
        "offset 1, 5 queries and 5 keys",
    ),
    "fewer queries": (
        lambda: taylor_attention(operands(4)[0], *operands(5)[1:], is_causal=True, log_decay=steps(5, 1.0)),
        "4 queries and 5 keys",
    ),
    "a shape": (
        lambda: taylor_attention(*operands(5), is_causal=True, log_decay=steps(4, 1.0)),
        r"log_decay is \(2, 2, 4\), expected \(2,\), one for each key head, or \(2, 2, 5\)",
    ),
    "a number": (lambda: taylor_attention(*operands(5), is_causal=True, log_decay=-1.0), "log_decay is a float"),  # type: ignore[call-overload]
    "whole numbers": (
        lambda: taylor_attention(*operands(5), is_causal=True, log_decay=torch.zeros(2, dtype=torch.int64)),
        "log_decay is torch.int64",
    ),
    "another device": (
        lambda: taylor_attention(*operands(5), is_causal=True, log_decay=torch.zeros(2, device="meta")),
        "log_decay is on meta, key on cpu",
    ),
    "a layer that attends to what comes": (
        lambda: TaylorAttention(8, 2, decay="token", warn_above=None)(torch.randn(5, 2, 8)),
        "came with a full pattern",
    ),
    "another kind of decay": (lambda: TaylorAttention(8, 2, decay="step"), "decay is 'step'. Give 'head', 'token'"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize(("call", "words"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_decay_is_refused(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(ShapeError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)


def gate_of(layer: TaylorAttention) -> DecayGate:
    assert layer.gate is not None
    return layer.gate


def layer_of(decay: Any, batch_first: bool = True, **options: Any) -> TaylorAttention:
    layer = TaylorAttention(12, 4, batch_first=batch_first, decay=decay, pattern=CAUSAL, **options).double()
    if decay == "token":
        weight = gate_of(layer).weight
        assert weight is not None
        torch.nn.init.normal_(weight)
    return layer


def explained(layer: TaylorAttention, x: Tensor) -> Tensor:
    """The layer's equation for x (B, T, 12), by the oracle."""
    q, k, v = layer._heads(layer._products(x, x, x))
    learned = gate_of(layer)
    gate = learned.bias.expand(*x.shape[:2], -1)
    if learned.weight is not None:
        gate = gate + x @ learned.weight.mT
    log_decay = gate.sigmoid().log().mT
    heads = naive.taylor_attention(q, k, v, pattern=CAUSAL, log_decay=log_decay)
    assert layer.out_proj is not None
    answer: Tensor = layer.out_proj(heads.transpose(1, 2).flatten(2))
    return answer


@pytest.mark.parametrize("decay", ["head", "token"])
@pytest.mark.parametrize("groups", [2, 4])
def test_a_layer_learns_how_fast_its_keys_decay(decay: str, groups: int) -> None:
    layer = layer_of(decay, num_kv_heads=groups)
    x = torch.randn(2, 9, 12, dtype=torch.float64, requires_grad=True)
    found, wanted = layer(x)[0], explained(layer, x)
    assert worst(found, wanted, (x, *layer.parameters())) <= EXACT


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("decay", ["head", "token"])
def test_a_layer_decodes_what_one_pass_answers(decay: str, batch_first: bool) -> None:
    layer, length = layer_of(decay, batch_first), 1 if batch_first else 0
    x = torch.randn(2, 9, 12, dtype=torch.float64)
    x = x if batch_first else x.transpose(0, 1)
    answers, state = [], None
    for token in x.split(1, length):
        answer, state = layer.decode(token, state)
        answers.append(answer)
    assert relative_error(torch.cat(answers, length), layer(x)[0]) <= EXACT
    alone = x[0] if batch_first else x[:, 0]
    assert relative_error(layer(alone)[0], layer(x)[0].select(1 - length, 0)) <= EXACT


@pytest.mark.parametrize("batch_first", [False, True])
def test_a_pad_that_is_no_number_reaches_no_gradient(batch_first: bool) -> None:
    layer = layer_of("token", batch_first)
    padding = torch.arange(9) >= torch.tensor([[9], [5]])
    x = torch.randn(2, 9, 12, dtype=torch.float64).masked_fill(padding.unsqueeze(-1), torch.nan)
    y = layer(x if batch_first else x.transpose(0, 1), key_padding_mask=padding)[0]
    y = y if batch_first else y.transpose(0, 1)
    y[~padding].square().sum().backward()
    slopes = {name: weight.grad for name, weight in layer.named_parameters()}
    assert {name for name, slope in slopes.items() if slope is None or not slope.isfinite().all()} == set()
    assert relative_error(y[1, :5], layer(x[1, :5])[0]) <= EXACT


@pytest.mark.parametrize("decay", ["head", "token"])
def test_heads_start_with_memories_of_different_lengths(decay: Any) -> None:
    layer = TaylorAttention(12, 4, decay=decay)
    gate = gate_of(layer)
    lost = 1 - gate.bias.sigmoid()
    assert lost.tolist() == pytest.approx([2**-5, 2 ** (-5 - 4 / 3), 2 ** (-5 - 8 / 3), 2**-9], rel=1e-4)
    assert gate.weight is None or not gate.weight.any()
    gate.bias.data.zero_()
    layer.reset_parameters()
    assert torch.equal(1 - gate.bias.sigmoid(), lost)


def test_nothing_is_measured_against_softmax_which_does_not_decay() -> None:
    layer = TaylorAttention(12, 4, batch_first=True, decay="head", pattern=CAUSAL, warn_above=1e-9)
    layer(100 * torch.randn(2, 9, 12))
    assert layer.watch is not None
    assert layer.watch.is_due(torch.randn(1)), "the first call is still to come"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("decay", ["head", "token"])
def test_compiled_and_transformed(decay: str) -> None:
    layer = layer_of(decay)
    x = torch.randn(3, 2, 9, 12, dtype=torch.float64)
    torch.compiler.reset()
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    variables = tuple(layer.parameters())
    assert worst(compiled(x[0])[0], layer(x[0])[0], variables) <= EXACT
    mapped = torch.func.vmap(lambda one: layer(one)[0])(x)
    assert relative_error(mapped, torch.stack([layer(one)[0] for one in x])) <= EXACT
    slope = torch.func.grad(lambda one: layer(one)[0].sin().sum())(x[0])
    leaf = x[0].clone().requires_grad_()
    assert relative_error(slope, torch.autograd.grad(layer(leaf)[0].sin().sum(), leaf)[0]) <= EXACT


def test_under_autocast_steps_stay_in_float32() -> None:
    layer = layer_of("token").float()
    x = torch.randn(2, 300, 12)
    with torch.autocast("cpu", torch.bfloat16):
        answer = layer(x)[0]
    assert relative_error(answer.float(), layer(x)[0]) <= 5e-2


@pytest.mark.parametrize("length", [1, 7, 257, 600])
def test_a_pass_costs_what_is_counted(length: int) -> None:
    q, k, v = operands(length, A=4, D=4, H=5, dtype=torch.float32)
    log_decay = steps(length, 1.0, dtype=torch.float32)
    counted = count(lambda: taylor_attention(q, k, v, is_causal=True, log_decay=log_decay))
    wanted = core(4, 2, causal=True, has_decay=True).at(B=2, T=length, D=4, H=5, M=17)
    assert (counted.flops, counted.backward_flops) == (wanted["flops"], wanted["backward_flops"])
    assert (counted.saved_bytes, counted.uncounted) == (4 * wanted["saved"], {})
