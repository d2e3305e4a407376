"""Softmax attention equals the oracle that writes every pair out, whatever limits what a query looks at."""

from collections.abc import Callable
from itertools import pairwise, product
from typing import Any

import pytest
import torch
from torch import Tensor

from porism.costing.counting.count import count
from porism.errors import ShapeError
from porism.layers import Attention, softmax_attention
from porism.layers.attention.pattern import CAUSAL, FULL, Pattern
from porism.layers.attention.softmax import naive, softmax_decode
from porism.layers.attention.softmax.cost import core, cost
from porism.layers.attention.softmax.gradient import gradient
from porism.layers.attention.softmax.method import all_weights
from porism.testing.gradients import relative_error

pytestmark = pytest.mark.sample(54)

EXACT = 1e-12
PATTERNS = {
    "full": FULL,
    "causal": CAUSAL,
    "sliding": Pattern("sliding", window_size=3),
    "ahead": Pattern("sliding", window_size=2, lookahead=2, dilation=3),
    "block": Pattern("block", window_size=4),
    "block causal inside": Pattern("block", window_size=4, is_causal=True),
    "block-causal": Pattern("block-causal", window_size=4),
}
each_pattern = pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS)
FLASH = "_scaled_dot_product_flash_attention_for_cpu"


@pytest.fixture(autouse=True)
def _fixed_seed() -> None:
    torch.manual_seed(0)


def operands(
    T: int, S: int, B: int = 2, A: int = 4, G: int = 4, D: int = 5, H: int = 5, dtype: torch.dtype = torch.float64
) -> tuple[Tensor, Tensor, Tensor]:
    q, k, v = (torch.randn(size, dtype=dtype) for size in ((B, A, T, D), (B, G, S, D), (B, G, S, H)))
    return q.requires_grad_(), k.requires_grad_(), v.requires_grad_()


def errors(found: Tensor, wanted: Tensor, variables: tuple[Tensor, ...]) -> list[float]:
    """Of the answer, and of the gradients of a weighted sum of it, the weights fixed and all different."""
    weights = torch.linspace(-1, 2, wanted.numel(), dtype=wanted.dtype).view_as(wanted)
    both = [[y, *torch.autograd.grad((y * weights).sum(), variables)] for y in (found, wanted)]
    return [relative_error(ours, theirs) for ours, theirs in zip(*both, strict=True)]


def assert_same(found: Tensor, wanted: Tensor, variables: tuple[Tensor, ...]) -> None:
    assert max(errors(found, wanted, variables)) <= EXACT


@pytest.mark.sweep(4)
@each_pattern
@pytest.mark.parametrize("T", [1, 2, 7, 63, 64, 65, 257])
def test_equals_the_oracle_forward_and_backward(pattern: Pattern, T: int) -> None:
    worst = {}
    for G, H, S, padded in product((2, 1), (3, 2, 5), (T, T + 6, max(1, T - 2)), (False, True)):
        q, k, v = operands(T, S, A=2, G=G, D=3, H=H)
        # One text is all padding, so that some queries have nothing to look at.
        padding = torch.stack([torch.ones(S).bool(), torch.rand(S) < 0.4]) if padded else None
        found = softmax_attention(q, k, v, pattern=pattern, key_padding_mask=padding)
        wanted = naive.softmax_attention(q, k, v, naive.looked_at(pattern, q, k, padding))
        assert not found[0].any() or not padded
        worst[G, H, S, padded] = max(errors(found, wanted, (q, k, v)))
    assert {case: error for case, error in worst.items() if not error <= EXACT} == {}


@pytest.mark.parametrize("offset", [1, 4, 8, 20])
def test_the_first_query_may_stand_later_in_the_text(offset: int) -> None:
    q, k, v = operands(7, 9)
    for pattern in PATTERNS.values():
        found = softmax_attention(q, k, v, pattern=pattern, offset=offset, scale=0.7)
        mask = naive.looked_at(pattern, q, k, offset=offset)
        assert_same(found, naive.softmax_attention(q, k, v, mask, scale=0.7), (q, k, v))


def test_large_logits_do_not_overflow() -> None:
    # Whole numbers, so that logits in the thousands are exact and no rounding of theirs shows in the weights.
    q, k, v = (x.detach().mul(2).round().requires_grad_() for x in operands(7, 7))
    found = softmax_attention(q, k, v, pattern=CAUSAL, scale=512.0)
    assert_same(found, naive.softmax_attention(q, k, v, naive.looked_at(CAUSAL, q, k), scale=512.0), (q, k, v))


def test_no_keys_at_all_give_zero() -> None:
    q, k, v = operands(3, 0)
    answer = softmax_attention(q, k, v)
    assert answer.shape == (2, 4, 3, 5)
    assert not answer.any()


@pytest.mark.parametrize("size", [(7, 9), (9,), (4, 7, 9), (2, 1, 7, 9), (2, 4, 1, 9)], ids=str)
def test_a_mask_of_ones_own(size: tuple[int, ...]) -> None:
    q, k, v = operands(7, 9)
    padding = torch.rand(2, 9) < 0.3
    seen = torch.rand(size) < 0.5
    mask = naive.looked_at(CAUSAL, q, k, padding) & seen
    found = softmax_attention(q, k, v, pattern=CAUSAL, key_padding_mask=padding, attn_mask=seen)
    assert_same(found, naive.softmax_attention(q, k, v, mask), (q, k, v))
    hidden = torch.zeros(size, dtype=torch.float64).masked_fill(~seen, -torch.inf)
    found = softmax_attention(q, k, v, pattern=CAUSAL, key_padding_mask=padding, attn_mask=hidden)
    assert_same(found, naive.softmax_attention(q, k, v, mask), (q, k, v))


def test_numbers_that_are_added_to_the_logits_can_be_learned() -> None:
    q, k, v = operands(7, 7, D=5)
    bias = torch.randn(4, 7, 7, dtype=torch.float64, requires_grad=True)
    found = softmax_attention(q, k, v, pattern=CAUSAL, attn_mask=bias)
    # The same logits from wider queries and keys: one more column for each key, with the bias in the queries.
    columns = torch.eye(7, dtype=torch.float64).expand(2, 4, 7, 7)
    wide_q, wide_k = torch.cat([q * 5**-0.5, bias.expand(2, 4, 7, 7)], -1), torch.cat([k, columns], -1)
    wanted = naive.softmax_attention(wide_q, wide_k, v, naive.looked_at(CAUSAL, q, k), scale=1.0)
    assert_same(found, wanted, (q, k, v, bias))


@each_pattern
@pytest.mark.parametrize("borders", [[0, 7], [0, 1, 3, 3, 10], [0, 63, 65]], ids=str)
def test_texts_end_to_end_do_not_see_each_other(pattern: Pattern, borders: list[int]) -> None:
    T = borders[-1]
    q, k, v = operands(T, T, B=1, G=2, H=3)
    alone = [
        naive.softmax_attention(q[:, :, i:j], k[:, :, i:j], v[:, :, i:j], pattern.mask(j - i, j - i))
        for i, j in pairwise(borders)
        if j > i
    ]
    found = softmax_attention(q, k, v, pattern=pattern, cu_seqlens=borders)
    assert torch.equal(found, softmax_attention(q, k, v, pattern=pattern, cu_seqlens=torch.tensor(borders)))
    assert_same(found, torch.cat(alone, 2), (q, k, v))


def test_dropout_takes_weights_out_and_scales_the_rest() -> None:
    S, p = 400, 0.25
    q, k, _ = operands(50, S, A=1, G=1)
    v = torch.eye(S, dtype=torch.float64).expand(2, 1, S, S)  # the answer is the weights
    weights, dropped = (softmax_attention(q, k, v, dropout_p=part, pattern=FULL) for part in (0.0, p))
    kept = dropped != 0
    assert relative_error(dropped[kept], weights[kept] / (1 - p)) <= EXACT
    assert abs(kept.double().mean().item() - (1 - p)) < 5 * (p * (1 - p) / kept.numel()) ** 0.5


@pytest.mark.parametrize("name", ["causal", "sliding", "block causal inside"])
@pytest.mark.parametrize("lengths", [[1] * 7, [7], [3, 1, 3], [1, 6]], ids=str)
@pytest.mark.parametrize("padded", ["never", "first", "later"])
def test_decoding_equals_one_pass(name: str, lengths: list[int], padded: str) -> None:
    pattern = PATTERNS[name]
    q, k, v = operands(7, 7, G=2, H=3)
    padding = torch.zeros(2, 7).bool()
    padding[1, : {"never": 0, "first": 2, "later": 0}[padded]] = True
    padding[0, {"never": 7, "first": 7, "later": 4}[padded] :] = True
    state, answers = None, []
    parts = (*(x.split(lengths, 2) for x in (q, k, v)), padding.split(lengths, 1))
    for new_q, new_k, new_v, pads in zip(*parts, strict=True):
        key_padding = pads if pads.any() else None
        answer, state = softmax_decode(
            new_q, new_k, new_v, state, pattern=pattern, scale=0.5, key_padding_mask=key_padding
        )
        answers.append(answer)
    wanted = naive.softmax_attention(q, k, v, naive.looked_at(pattern, q, k, padding), scale=0.5)
    assert_same(torch.cat(answers, 2), wanted, (q, k, v))
    assert state is not None
    assert torch.equal(state.k, k)
    assert (state.padding is None) == (padded == "never")


def test_what_cannot_be_decoded_is_refused() -> None:
    q, k, v = operands(1, 1)
    for name in ("full", "ahead", "block", "block-causal"):
        with pytest.raises(
            ShapeError, match="attends to tokens that are not there yet, so it cannot be decoded. Choose"
        ):
            softmax_decode(q, k, v, pattern=PATTERNS[name])
    _, state = softmax_decode(q, k, v)
    with pytest.raises(
        ShapeError, match=r"the state has keys of \(2, 4, 1, 5\), the new ones are \(1, 4, 1, 5\)\. Pass the state"
    ):
        softmax_decode(q[:1], k[:1], v[:1], state)
    with pytest.raises(ShapeError, match=r"the state has values of \(2, 4, 1, 5\), the new ones are \(2, 4, 1, 3\)"):
        softmax_decode(q, k, v[..., :3], state)


def test_types_that_differ_are_refused_and_autocast_settles_them() -> None:
    q, k, v = operands(3, 3, dtype=torch.float32)
    with pytest.raises(ShapeError, match="query is torch.float32, key is torch.bfloat16, expected one type"):
        softmax_attention(q, k.bfloat16(), v)
    with torch.autocast("cpu", torch.bfloat16):
        assert softmax_attention(q, k.bfloat16(), v).dtype == torch.bfloat16


@pytest.mark.parametrize("G", [4, 2])
@pytest.mark.parametrize("H", [5, 3, 8])
def test_sixteen_bits_accumulate_in_more(G: int, H: int) -> None:
    q, k, v = operands(7, 7, G=G, H=H, dtype=torch.bfloat16)
    found = softmax_attention(q, k, v, pattern=CAUSAL)
    wanted = naive.softmax_attention(q.double(), k.double(), v.double(), naive.looked_at(CAUSAL, q, k))
    assert found.dtype == torch.bfloat16
    # One rounding to eight bits, and a few on the way.
    assert relative_error(found.double(), wanted) <= 2**-7


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"pattern": CAUSAL},
        {"pattern": CAUSAL, "offset": 63},
        {"pattern": PATTERNS["sliding"]},
        {"key_padding_mask": torch.zeros(2, 64).bool()},
    ],
    ids=["full", "causal", "behind all", "sliding", "padded"],
)
@pytest.mark.parametrize("sizes", [(2, 4, 4, 5, 5), (2, 4, 2, 5, 5), (2, 4, 4, 8, 5), (2, 4, 1, 5, 16)], ids=str)
def test_the_fused_kernel_is_never_left(options: dict[str, Any], sizes: tuple[int, int, int, int, int]) -> None:
    q, k, v = operands(64, 64, *sizes)
    counted = count(lambda: softmax_attention(q, k, v, **options))
    assert list(counted.forward[""]) == [FLASH]
    assert list(counted.backward[""]) == [f"{FLASH}_backward"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    "options",
    [
        {"pattern": CAUSAL},
        {"pattern": PATTERNS["block-causal"], "key_padding_mask": torch.tensor([[True] * 7, [False] * 7])},
        {"attn_mask": torch.zeros(7, 7, dtype=torch.float64)},
    ],
    ids=["causal", "padded blocks", "mask"],
)
def test_compiles_without_a_break(options: dict[str, Any]) -> None:
    torch.compiler.reset()
    q, k, v = operands(7, 7, G=2, H=3)

    def call(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return softmax_attention(q, k, v, **options)

    compiled: Callable[..., Tensor] = torch.compile(call, fullgraph=True, backend="aot_eager")
    assert_same(compiled(q, k, v), call(q, k, v), (q, k, v))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_texts_end_to_end_and_a_step_of_decoding_compile() -> None:
    torch.compiler.reset()
    q, k, v = operands(7, 7, B=1)

    def call(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        _, state = softmax_decode(q[:, :, :6], k[:, :, :6], v[:, :, :6])
        last, _ = softmax_decode(q[:, :, 6:], k[:, :, 6:], v[:, :, 6:], state)
        return softmax_attention(q, k, v, cu_seqlens=[0, 3, 7]) + last

    compiled: Callable[..., Tensor] = torch.compile(call, fullgraph=True, backend="aot_eager")
    assert_same(compiled(q, k, v), call(q, k, v), (q, k, v))


def test_gradient_by_hand_equals_the_kernel_s() -> None:
    q, k, v = operands(65, 63, G=2, H=3)
    padding = torch.rand(2, 63) < 0.4
    padding[0] = True
    answer = softmax_attention(q, k, v, pattern=CAUSAL, key_padding_mask=padding)
    dO = torch.randn_like(answer)
    by_hand = gradient(dO, q, k, v, naive.looked_at(CAUSAL, q, k, padding))
    for hand, kernel in zip(by_hand, torch.autograd.grad(answer, (q, k, v), dO), strict=True):
        assert relative_error(hand, kernel) <= EXACT


@pytest.mark.parametrize(
    "options", [{}, {"num_kv_heads": 2}, {"bias": False}, {"out_proj": False, "num_kv_heads": 1}], ids=str
)
def test_cost_equals_the_count(options: dict[str, Any]) -> None:
    B, T, A, D = 3, 7, 4, 5
    layer = Attention(A * D, A, batch_first=True, **options)
    counted = count(layer, torch.randn(B, T, A * D, requires_grad=True))
    wanted = cost(heads=A, **options).at(B=B, T=T, D=D)
    assert counted.parameters.count == wanted["parameters"]
    assert counted.flops == wanted["flops"]
    assert counted.backward_flops == wanted["backward_flops"]
    assert counted.saved_bytes == 4 * wanted["saved"]


@pytest.mark.parametrize(("G", "H"), [(4, 5), (2, 5), (4, 3), (4, 8)])
def test_cost_of_the_core_equals_the_count(G: int, H: int) -> None:
    q, k, v = operands(7, 7, G=G, H=H)
    counted = count(softmax_attention, q, k, v)
    wanted = core(heads=4, num_kv_heads=G).at(B=2, T=7, D=max(5, H))
    assert counted.flops == wanted["flops"]
    assert counted.backward_flops == wanted["backward_flops"]
    assert counted.saved_bytes == 8 * wanted["saved"] or H != 5


def test_the_number_of_heads_changes_no_products() -> None:
    one, many = (cost().at(B=2, T=7, A=heads, D=12 // heads) for heads in (1, 3))
    for kind in ("parameters", "flops", "backward_flops"):
        assert one[kind] == many[kind]


def test_a_change_in_place_is_refused_as_behind_the_function_of_torch() -> None:
    q, k, v = operands(7, 7)
    for attend in (softmax_attention, torch.nn.functional.scaled_dot_product_attention):
        answer = attend(q, k, v).mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            answer.sum().backward()


@pytest.mark.filterwarnings("ignore")  # of torch.compile, and of the anomaly that it finds
@pytest.mark.parametrize("attend", [softmax_attention, torch.nn.functional.scaled_dot_product_attention])
@pytest.mark.parametrize("inside", [True, False])
def test_a_change_in_place_of_what_was_compiled_is_refused_too(attend: Any, inside: bool) -> None:
    torch.compiler.reset()
    q, k, v = operands(7, 7)

    def call(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        answer: Tensor = attend(q, k, v)
        return answer.mul_(2) if inside else answer

    with pytest.raises(Exception, match="modified by an inplace operation"):
        torch.compile(call, fullgraph=True, backend="aot_eager")(q, k, v).mul_(2).sum().backward()


@pytest.mark.parametrize("attend", [softmax_attention, torch.nn.functional.scaled_dot_product_attention])
def test_a_second_derivative_is_refused_by_the_kernel_of_torch(attend: Any) -> None:
    q, k, v = operands(7, 7)
    slopes = torch.autograd.grad(attend(q, k, v).sum(), (q, k, v), create_graph=True)
    for slope in slopes:
        with pytest.raises(RuntimeError, match="derivative for .*attention.* is not implemented"):
            torch.autograd.grad(slope.sum(), q, retain_graph=True)


@pytest.mark.sweep(1)
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("pattern", [FULL, CAUSAL, Pattern("sliding", window_size=2)], ids=lambda pattern: pattern.kind)
def test_where_torch_has_no_kernel_there_are_second_derivatives(pattern: Pattern) -> None:
    q, k, v = operands(3, 3)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        assert torch.autograd.gradgradcheck(lambda *x: softmax_attention(*x, pattern=pattern), (q, k, v))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_weights_are_computed_in_float32_or_better(dtype: torch.dtype) -> None:
    # Logits of 100 and a bit: half of them would be rounded to whole numbers.
    q, k, _ = operands(7, 7, D=16, dtype=torch.float32)
    q, k = (8 * q.detach()).to(dtype), (8 * k.detach()).to(dtype)
    wanted = all_weights(q.double(), k.double(), None, 0.3)
    for autocast in (False, True):
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            found = all_weights(q, k, None, 0.3)
        assert found.dtype == torch.float32
        assert (found - wanted).abs().max() <= 1e-4


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_a_layer_s_weights_have_the_dtype_of_what_comes(dtype: torch.dtype) -> None:
    layer, x = Attention(8, 2, batch_first=True, dtype=dtype), torch.randn(2, 3, 8).to(dtype)
    y, weights = layer(x, need_weights=True)
    assert weights is not None
    assert y.dtype == weights.dtype == dtype
    assert (weights.float().sum(-1) - 1).abs().max() <= torch.finfo(dtype).eps
    with torch.autocast("cpu", torch.bfloat16):
        y, weights = layer.float()(x.float(), need_weights=True)
    assert weights is not None
    assert (y.dtype, weights.dtype) == (torch.bfloat16, torch.float32)


@each_pattern
@pytest.mark.parametrize(("B", "T", "S"), [(0, 7, 7), (2, 0, 7), (2, 7, 0), (0, 0, 0), (0, 7, 0)])
def test_nothing_to_attend_to_gives_zeros_and_no_gradient(pattern: Pattern, B: int, T: int, S: int) -> None:
    for G, H in ((4, 5), (2, 3)):
        q, k, v = operands(T, S, B=B, G=G, H=H)
        for padding in (None, torch.zeros(B, S).bool()):
            answer = softmax_attention(q, k, v, pattern=pattern, key_padding_mask=padding)
            assert answer.shape == (B, 4, T, H)
            assert not answer.any()
            assert not any(gradient.any() for gradient in torch.autograd.grad(answer.sum(), (q, k, v)))


def test_a_mask_of_numbers_may_be_of_another_width() -> None:
    q, k, v = operands(7, 7)
    bias = torch.randn(7, 7, dtype=torch.float32)
    assert torch.equal(softmax_attention(q, k, v, attn_mask=bias), softmax_attention(q, k, v, attn_mask=bias.double()))


def test_float64_is_left_alone_by_autocast() -> None:
    q, k, v = operands(7, 7, G=2, H=3)
    wanted = softmax_attention(q, k, v, pattern=CAUSAL)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(softmax_attention(q, k, v, pattern=CAUSAL), wanted)
