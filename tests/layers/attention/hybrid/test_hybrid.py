"""The hybrid against its oracle, against its two parts, and token by token."""

from typing import Any

import pytest
import torch
from tests.layers.closeness import attention_errors
from torch import Tensor

from porism.costing.counting.count import count
from porism.errors import ShapeError
from porism.layers.attention.hybrid import HybridAttention, HybridState, hybrid_attention, hybrid_decode, naive
from porism.layers.attention.hybrid.cost import core
from porism.layers.attention.hybrid.kernels import spans as walks
from porism.layers.attention.pattern import CAUSAL, FULL, Pattern
from porism.layers.attention.softmax import softmax_attention
from porism.layers.attention.taylor.naive import taylor_attention as series_alone
from porism.testing.gradients import relative_error

pytestmark = pytest.mark.sample(24)

EXACT = 1e-12


@pytest.fixture(autouse=True)
def _fixed_seed() -> None:
    torch.manual_seed(0)


def draw(T: int, S: int | None = None, B: int = 2, A: int = 2, G: int = 2, D: int = 3, H: int = 5) -> list[Any]:
    S = T if S is None else S
    sizes = (B, A, T, D), (B, G, S, D), (B, G, S, H)
    return [torch.randn(size, dtype=torch.float64, requires_grad=True) for size in sizes]


def with_gradients(answer: Tensor, operands: list[Any]) -> list[Any]:
    weights = torch.linspace(-1, 2, answer.numel(), dtype=answer.dtype).view_as(answer)
    return [answer, *torch.autograd.grad((answer * weights).sum(), operands)]


def assert_equal(found: Tensor, wanted: Tensor, operands: list[Any], tolerance: float = EXACT) -> None:
    """Answers, and the gradients of the operands."""
    errors = attention_errors(found, wanted, operands)
    assert all(error <= tolerance for error in errors), errors


def assert_equals_naive(operands: list[Any], **options: Any) -> None:
    found, wanted = (attend(*operands, **options) for attend in (hybrid_attention, naive.hybrid_attention))
    assert_equal(found, wanted, operands)


@pytest.mark.sweep(2, each="T")
@pytest.mark.parametrize("pattern", [CAUSAL, FULL], ids=lambda pattern: pattern.kind)
@pytest.mark.parametrize("window", [1, 2, 5, 64])
@pytest.mark.parametrize("T", [1, 2, 7, 63, 64, 65, 257])
def test_equals_the_oracle_with_all_gradients(T: int, window: int, pattern: Pattern) -> None:
    padding = torch.rand(2, T) < 0.3
    padding[0, :3] = True  # causal queries that look at no key
    assert_equals_naive(draw(T), window_size=window, pattern=pattern)
    assert_equals_naive(draw(T, A=6, H=1), window_size=window, pattern=pattern, key_padding_mask=padding, order=4)


@pytest.mark.sweep(12)
@pytest.mark.parametrize("pattern", [CAUSAL, FULL], ids=lambda pattern: pattern.kind)
@pytest.mark.parametrize("window", [1, 3, 4, 11])
@pytest.mark.parametrize(("T", "S", "offset"), [(23, 23, 0), (9, 30, 0), (30, 9, 0), (5, 30, 17), (30, 30, -7)])
def test_many_spans_cross_attention_and_an_offset(
    T: int, S: int, offset: int, window: int, pattern: Pattern, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walks, "LENGTH", 4)
    padded: dict[str, Any] = {"key_padding_mask": torch.rand(2, S) < 0.3, "scale": 1.5}
    for options in ({}, padded):
        assert_equals_naive(draw(T, S, A=4), window_size=window, pattern=pattern, offset=offset, **options)


def test_an_odd_order_on_request() -> None:
    for order in (1, 3):
        operands = draw(17)
        found = hybrid_attention(*operands, window_size=5, order=order, allow_odd=True, scale=0.1)
        wanted = naive.hybrid_attention(*operands, window_size=5, order=order, scale=0.1)
        assert_equal(found, wanted, operands)


def test_texts_end_to_end_equal_each_alone() -> None:
    operands, lengths = draw(12, B=1), [3, 0, 7, 2]
    found = hybrid_attention(*operands, window_size=2, pattern=CAUSAL, cu_seqlens=[0, 3, 3, 10, 12])
    texts = zip(*(x.split(lengths, 2) for x in operands), strict=True)
    alone = [naive.hybrid_attention(*text, window_size=2, pattern=CAUSAL) for text in texts if text[0].shape[2]]
    assert_equal(found, torch.cat(alone, 2), operands)


def test_a_window_as_long_as_the_text_is_softmax() -> None:
    for pattern in (CAUSAL, FULL):
        operands = draw(70)
        wanted = softmax_attention(*operands, pattern=pattern)
        assert relative_error(hybrid_attention(*operands, window_size=70, pattern=pattern), wanted) <= EXACT


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_large_logits_overflow_nowhere(dtype: torch.dtype) -> None:
    q, k, v = ((30 * x).detach().to(dtype).requires_grad_() for x in draw(40))
    found = with_gradients(hybrid_attention(q, k, v, window_size=5, pattern=CAUSAL), [q, k, v])
    assert all(x.isfinite().all() for x in found)
    # What a pad holds reaches nobody, however large: not even through what keeps exponents small.
    padding = torch.zeros(2, 40, dtype=torch.bool)
    padding[:, 7] = True
    loud = k.detach().clone()
    loud[:, :, 7] *= 1e4
    answers = [hybrid_attention(q, x, v, window_size=5, key_padding_mask=padding) for x in (k, loud)]
    assert torch.equal(*answers)


@pytest.mark.parametrize("window", [1, 2, 5, 64])
@pytest.mark.parametrize("steps", [[1] * 9, [4, 1, 3, 1], [70, 1, 130, 2]], ids=str)
def test_decoding_equals_the_full_pass_with_all_gradients(window: int, steps: list[int]) -> None:
    operands = draw(sum(steps), A=4)
    padding = torch.rand(2, sum(steps)) < 0.2
    for pads in (None, padding):
        state: HybridState | None = None
        answers, done = [], 0
        for step in steps:
            new = slice(done, done + step)
            part = None if pads is None else pads[:, new]
            q, k, v = (x[:, :, new] for x in operands)
            answer, state = hybrid_decode(q, k, v, state, window_size=window, key_padding_mask=part)
            answers.append(answer)
            done += step
        assert state is not None
        assert state.near.length == min(done, window - 1)
        wanted = naive.hybrid_attention(*operands, window_size=window, pattern=CAUSAL, key_padding_mask=pads)
        assert_equal(torch.cat(answers, 2), wanted, operands)


def test_the_layer_decodes_as_its_causal_pass() -> None:
    layer = HybridAttention(12, 4, window_size=3, num_kv_heads=2, qk_norm=True, batch_first=True).double()
    x = torch.randn(2, 9, 12, dtype=torch.float64)
    wanted, _ = layer(x, is_causal=True)
    answers: list[Tensor] = []
    state: Any = None
    for token in x.split(1, 1):
        answer, state = layer.decode(token, state)
        answers.append(answer)
    assert relative_error(torch.cat(answers, 1), wanted) <= EXACT
    # A state takes as much memory as its size tells, and no more.
    assert all(part.untyped_storage().nbytes() == part.nbytes for part in (state.near.k, state.near.v))


def errors_against_softmax(deviation: float, order: int, W: int = 32, seeds: int = 4) -> dict[str, dict[str, float]]:
    """Of hybrid, window and series: the answer's relative error, and how far the weights are, half the sum of |dw|."""
    T, D = 256, 16
    errors: dict[str, dict[str, float]] = {"answer": {}, "weights": {}}
    for seed in range(seeds):
        torch.manual_seed(seed)
        q, k, v = torch.randn(3, 1, 2, T, D, dtype=torch.float64).unbind()
        q = q * deviation  # the logits of random vectors deviate by 1 at the usual scale
        # Weights and answer side by side: the weights are what attention makes of values that are one-hot.
        values = torch.cat([torch.eye(T, dtype=torch.float64).expand(1, 2, T, T), v], -1)
        wanted = softmax_attention(q, k, values, pattern=CAUSAL)
        answers = {
            # The oracle, since order 6 has C(22, 6) features. Other tests show that both give the same.
            "hybrid": naive.hybrid_attention(q, k, values, window_size=W, order=order, pattern=CAUSAL),
            "window": softmax_attention(q, k, values, pattern=Pattern("sliding", window_size=W)),
            "series": series_alone(q, k, values, order=order, pattern=CAUSAL),
        }
        for name, answer in answers.items():
            difference = (answer - wanted).split([T, D], -1)
            far_off = float(difference[0].abs().sum(-1).mean() / 2)
            relative = float(difference[1].norm() / wanted[..., T:].norm())
            for kind, error in (("weights", far_off), ("answer", relative)):
                errors[kind][name] = errors[kind].get(name, 0.0) + error / seeds
    return errors


@pytest.mark.parametrize("deviation", [0.25, 0.5, 1.0, 2.0, 4.0])
def test_weights_are_closer_to_softmax_than_those_of_the_window_and_the_series_alone(deviation: float) -> None:
    error = errors_against_softmax(deviation, order=2)["weights"]
    assert error["hybrid"] < min(error["window"], error["series"]), error


# Beyond a deviation of 2 the window has to be a quarter of the text: the README says why.
@pytest.mark.parametrize(
    ("deviation", "W", "order"), [(0.25, 32, 2), (0.5, 32, 2), (1.0, 32, 2), (2.0, 32, 2), (3.0, 64, 2), (4.0, 64, 6)]
)
def test_answers_are_closer_to_softmax_than_those_of_the_window_and_the_series_alone(
    deviation: float, W: int, order: int
) -> None:
    error = errors_against_softmax(deviation, order, W)["answer"]
    assert error["hybrid"] < min(error["window"], error["series"]), error


@pytest.mark.parametrize("order", [2, 4, 6])
def test_no_answer_is_further_off_than_the_weights_allow(order: int) -> None:
    torch.manual_seed(0)
    q, k = 2 * torch.randn(2, 1, 2, 64, 4, dtype=torch.float64)
    weights, values = torch.eye(64, dtype=torch.float64).expand(1, 2, 64, 64), torch.rand(1, 2, 64, 5).double()
    by_weights, by_values = (
        (hybrid_attention(q, k, v, window_size=7, order=order) - softmax_attention(q, k, v)).abs()
        for v in (weights, values)
    )
    assert (by_values <= by_weights.sum(-1, keepdim=True) / 2 + 1e-12).all()


@pytest.mark.sweep(2)
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("T", "window"), [(7, 3), (128, 3), (129, 64), (300, 1), (300, 200), (520, 140)])
def test_cost_equals_the_count_over_many_spans(T: int, window: int, causal: bool) -> None:
    operands = draw(T, B=1, A=4)
    pattern = CAUSAL if causal else FULL

    def run() -> Tensor:
        return hybrid_attention(*operands, window_size=window, pattern=pattern)

    wanted = core(4, 2, window_size=window, causal=causal).at(B=1, T=T, D=3, H=5)
    with torch.no_grad():
        assert count(run, backward=False).flops == wanted["flops"]
    found = count(run)
    assert found.flops + found.backward_flops == wanted["flops"] + wanted["backward_flops"]


def test_compiles_without_a_break_over_many_spans() -> None:
    operands = draw(257)

    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return hybrid_attention(q, k, v, window_size=5, pattern=CAUSAL)

    compiled = torch.compile(run, fullgraph=True, backend="aot_eager", dynamic=False)
    assert_equal(compiled(*operands), run(*operands), operands)


def test_bfloat16_sums_in_float32() -> None:
    operands = [x.detach().bfloat16() for x in draw(9)]
    q, k, v = operands
    found, state = hybrid_decode(q, k, v, window_size=3)
    assert (found.dtype, state.far.sums.dtype) == (torch.bfloat16, torch.float32)
    wanted = naive.hybrid_attention(*(x.double() for x in operands), window_size=3, pattern=CAUSAL)
    assert relative_error(found.double(), wanted) <= 1e-2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"window_size": 0}, r"hybrid: window_size is 0\. Give a whole number from 1 on\."),
        ({"window_size": 2.0}, r"hybrid: window_size is 2\.0\. Give"),
        ({"order": 3}, r"order 3 is odd, and an odd series falls below zero"),
        ({"dropout_p": 0.1}, r"hybrid: dropout_p is 0\.1, and the series has no single weights to drop"),
        ({"pattern": Pattern("sliding", window_size=3)}, r"the pattern is sliding, expected full or causal"),
        (
            {"pattern": Pattern("block-causal", window_size=3)},
            r"block-causal, expected full or causal.*TaylorAttention",
        ),
    ],
)
def test_refuses(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ShapeError, match=message) as caught:
        hybrid_attention(*draw(7), **{"window_size": 3, **options})
    assert "\n" not in str(caught.value)


def test_it_speaks_in_its_own_name() -> None:
    q, k, v = draw(7)
    _, state = hybrid_decode(q, k, v, window_size=3)
    for wrong in (
        lambda: hybrid_attention(q, k, v, window_size=3, order=3),
        lambda: hybrid_attention(q, k, v, window_size=3, order=0),
        lambda: hybrid_attention(q[:1], k[:1], v[:1], window_size=3, cu_seqlens=[0, 7], offset=1),
        lambda: hybrid_attention(q[:1], k[:1, :, :5], v[:1, :, :5], window_size=3, cu_seqlens=[0, 7]),
        lambda: hybrid_decode(q, k, v, state, window_size=3, order=4),
        lambda: hybrid_decode(q[:1], k[:1], v[:1], state, window_size=3),
    ):
        with pytest.raises(ShapeError, match="^hybrid: "):
            wrong()


def test_refuses_to_decode_what_looks_ahead_and_the_state_of_another() -> None:
    q, k, v = draw(7)
    with pytest.raises(ShapeError, match=r"this full pattern attends to tokens that are not there yet.*Choose causal"):
        hybrid_decode(q, k, v, window_size=3, pattern=FULL)
    with pytest.raises(ShapeError, match=r"a key for each new token, and 1 queries came with 7 keys"):
        hybrid_decode(q[:, :, :1], k, v, window_size=3)
    _, state = hybrid_decode(q, k, v, window_size=3)
    with pytest.raises(ShapeError, match=r"the state is of window_size 3, and window_size is 2\. Pass"):
        hybrid_decode(q, k, v, state, window_size=2)
    with pytest.raises(ShapeError, match=r"has 2 near tokens, and window_size 2 keeps up to 1"):
        hybrid_decode(q, k, v, state._replace(window_size=None), window_size=2)
    with pytest.raises(ShapeError, match=r"the state is \(2, 2, 10, 5\) and \(2, 2, 10\), expected \(1, 2, 10, 5\)"):
        hybrid_decode(q[:1], k[:1], v[:1], state, window_size=3)
    with pytest.raises(ShapeError, match=r"batch, key heads, features, value width"):
        hybrid_decode(q, k, v, state, window_size=3, order=4)
