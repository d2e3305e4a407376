"""Attention by the series equals the oracle that writes every pair out."""

import subprocess
import sys
from itertools import pairwise, product
from typing import Any

import pytest
import torch
from tests.layers.closeness import attention_errors
from torch import Tensor

from porism.costing.counting.count import count
from porism.errors import ShapeError
from porism.layers.attention.pattern import CAUSAL, FULL, Pattern
from porism.layers.attention.taylor import TaylorAttention, TaylorState, naive, taylor_attention, taylor_decode
from porism.testing.gradients import relative_error

pytestmark = pytest.mark.sample(48)

EXACT = 1e-12
PATTERNS = {
    "full": FULL,
    "causal": CAUSAL,
    "blocks of 5": Pattern("block-causal", window_size=5),
    "blocks of 100": Pattern("block-causal", window_size=100),
    "blocks of 270": Pattern("block-causal", window_size=270),
}
MAPS = [("rolled", 2), ("exact", 2), ("exact", 4), ("ordered", 2), ("exact", 3)]
each_pattern = pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS)


@pytest.fixture(autouse=True)
def _fixed_seed() -> None:
    torch.manual_seed(0)


def operands(
    T: int, S: int, B: int = 2, A: int = 2, G: int = 2, D: int = 3, H: int = 3, dtype: torch.dtype = torch.float64
) -> tuple[Tensor, Tensor, Tensor]:
    q, k, v = (torch.randn(size, dtype=dtype) for size in ((B, A, T, D), (B, G, S, D), (B, G, S, H)))
    return q.requires_grad_(), k.requires_grad_(), v.requires_grad_()


def error(found: Tensor, wanted: Tensor, variables: tuple[Tensor, ...]) -> float:
    """The largest of the answer's and the gradients' errors; NaN counts."""
    return float(torch.tensor(attention_errors(found, wanted, variables)).max())


def padding_of(S: int) -> Tensor:
    """The first text is all padding, so that some queries have nothing to look at."""
    return torch.stack([torch.ones(S).bool(), torch.rand(S) < 0.4])


@pytest.mark.sweep(2, each="T")
@each_pattern
@pytest.mark.parametrize("T", [1, 2, 7, 63, 64, 65, 257])
def test_equals_the_oracle_forward_and_backward(pattern: Pattern, T: int) -> None:
    worst = {}
    for G, H, S, padded in product((2, 1), (1, 5), (T, T + 6, max(1, T - 2)), (False, True)):
        q, k, v = operands(T, S, G=G, H=H)
        options: dict[str, Any] = {"pattern": pattern, "key_padding_mask": padding_of(S) if padded else None}
        found = taylor_attention(q, k, v, **options)
        assert not padded or not found[0].any()
        worst[G, H, S, padded] = error(found, naive.taylor_attention(q, k, v, **options), (q, k, v))
    assert {case: worse for case, worse in worst.items() if not worse <= EXACT} == {}


@each_pattern
@pytest.mark.parametrize(("map", "order"), MAPS)
def test_every_map_and_order(pattern: Pattern, map: str, order: int) -> None:
    for D, T in ((4, 7), (3, 260)):
        q, k, v = operands(T, T, A=4, D=D)
        found = taylor_attention(q, k, v, pattern=pattern, feature_map=map, order=order, allow_odd=True)
        # An odd order can come near 0 / 0, where any rounding is large.
        tolerance = EXACT if order % 2 == 0 else 1e-8
        assert error(found, naive.taylor_attention(q, k, v, pattern=pattern, order=order), (q, k, v)) <= tolerance


@each_pattern
def test_the_diagonal_map_equals_its_own_oracle(pattern: Pattern) -> None:
    q, k, v = operands(260, 260, G=1)
    # Small logits, so that no sum of weights comes near 0.
    options: dict[str, Any] = {"feature_map": "diagonal", "pattern": pattern, "scale": 0.1}
    assert error(taylor_attention(q, k, v, **options), naive.taylor_attention(q, k, v, **options), (q, k, v)) <= EXACT


@each_pattern
@pytest.mark.parametrize("offset", [1, 4, 263, 600, -3])
def test_the_first_query_may_stand_elsewhere_in_the_text(pattern: Pattern, offset: int) -> None:
    q, k, v = operands(265, 530)
    found = taylor_attention(q, k, v, pattern=pattern, offset=offset, scale=0.7)
    assert error(found, naive.taylor_attention(q, k, v, pattern=pattern, offset=offset, scale=0.7), (q, k, v)) <= EXACT


def test_no_keys_and_no_queries() -> None:
    q, k, v = operands(3, 0)
    answer = taylor_attention(q, k, v)
    answer.sum().backward()
    assert answer.shape == (2, 2, 3, 3)
    assert not answer.any()
    assert q.grad is not None
    assert not q.grad.any()
    assert taylor_attention(*operands(0, 3), pattern=CAUSAL).shape == (2, 2, 0, 3)


def test_any_layout_in_memory() -> None:
    wide = torch.randn(2, 260, 2, 9, dtype=torch.float64, requires_grad=True)
    q, k, v = wide.transpose(1, 2).split(3, dim=-1)
    found = taylor_attention(q, k, v, pattern=CAUSAL)
    assert error(found, naive.taylor_attention(q, k, v, pattern=CAUSAL), (wide,)) <= EXACT
    # A projection after it reads tokens with their heads side by side: no copy.
    assert found.transpose(1, 2).is_contiguous()


@each_pattern
@pytest.mark.parametrize("borders", [[0, 7], [0, 1, 3, 3, 10], [0, 260, 262]], ids=str)
def test_texts_end_to_end_do_not_see_each_other(pattern: Pattern, borders: list[int]) -> None:
    T = borders[-1]
    q, k, v = operands(T, T, B=1, A=4)
    alone = [
        naive.taylor_attention(q[:, :, i:j], k[:, :, i:j], v[:, :, i:j], pattern=pattern)
        for i, j in pairwise(borders)
        if j > i
    ]
    found = taylor_attention(q, k, v, pattern=pattern, cu_seqlens=borders)
    assert torch.equal(found, taylor_attention(q, k, v, pattern=pattern, cu_seqlens=torch.tensor(borders)))
    assert error(found, torch.cat(alone, 2), (q, k, v)) <= EXACT


@pytest.mark.parametrize("lengths", [[1] * 7, [260], [3, 1, 258], [1, 257]], ids=str)
@pytest.mark.parametrize(("map", "order", "padded"), [(None, 2, False), (None, 2, True), ("exact", 4, False)])
def test_decoding_equals_one_pass(lengths: list[int], map: str | None, order: int, padded: bool) -> None:
    T = sum(lengths)
    q, k, v = operands(T, T, A=4)
    padding = padding_of(T) if padded else torch.zeros(2, T).bool()
    state, answers = None, []
    parts = (*(x.split(lengths, 2) for x in (q, k, v)), padding.split(lengths, 1))
    for new_q, new_k, new_v, pads in zip(*parts, strict=True):
        answer, state = taylor_decode(
            new_q,
            new_k,
            new_v,
            state,
            feature_map=map,
            order=order,
            scale=0.5,
            key_padding_mask=pads if padded else None,
        )
        answers.append(answer)
    wanted = naive.taylor_attention(q, k, v, pattern=CAUSAL, order=order, scale=0.5, key_padding_mask=padding)
    # Through the state too: each answer's gradient reaches all tokens before it.
    assert error(torch.cat(answers, 2), wanted, (q, k, v)) <= EXACT


@each_pattern
def test_any_pass_may_start_from_a_state_and_give_one(pattern: Pattern) -> None:
    # Every pattern has a border at 2700, so that later queries look at all keys before it.
    q, k, v = operands(2700 + 13, 2700 + 13, B=1, D=2, H=1)
    before: list[Any] = [x[:, :, :2700] for x in (q, k, v)]
    after: list[Any] = [x[:, :, 2700:] for x in (q, k, v)]
    first, state = taylor_attention(*before, pattern=pattern, output_final_state=True)
    later, last = taylor_attention(*after, pattern=pattern, initial_state=state, output_final_state=True)
    wanted = naive.taylor_attention(after[0], k, v, pattern=pattern, offset=2700)
    assert error(later, wanted, (q, k, v)) <= EXACT
    assert torch.equal(later, taylor_attention(*after, pattern=pattern, initial_state=state))
    _, whole = taylor_attention(q, k, v, pattern=pattern, output_final_state=True)
    assert all(relative_error(*pair) <= EXACT for pair in zip(last[:2], whole[:2], strict=True))
    assert torch.equal(first, taylor_attention(*before, pattern=pattern))


def test_the_state_is_the_sum_over_keys_and_never_grows() -> None:
    q, k, v = operands(260, 260, B=1, A=2, G=1, D=2)
    _, state = taylor_decode(q, k, v, feature_map="ordered")
    x = k.mT
    phi = torch.cat([torch.ones_like(x[:, :, :1]), x, (x[:, :, :, None] * x[:, :, None]).flatten(2, 3) * 0.5**0.5], 2)
    assert torch.allclose(state.sums, phi @ v, rtol=EXACT)
    assert torch.allclose(state.weights, phi.sum(-1), rtol=EXACT)
    assert state.sums.shape == (1, 1, 7, 3)
    _, later = taylor_decode(q, k, v, state, feature_map="ordered")
    assert [part.shape for part in later[:2]] == [part.shape for part in state[:2]]
    assert torch.allclose(later.sums, 2 * state.sums, rtol=EXACT)


def test_a_loss_on_the_state_reaches_keys_and_values() -> None:
    q, k, v = operands(260, 260, D=2)
    answer, state = taylor_decode(q, k, v, feature_map="ordered")
    x = k.mT
    phi = torch.cat([torch.ones_like(x[:, :, :1]), x, (x[:, :, :, None] * x[:, :, None]).flatten(2, 3) * 0.5**0.5], 2)
    wanted = naive.taylor_attention(q, k, v, pattern=CAUSAL).sum() + (phi @ v).pow(2).sum() + phi.sum(-1).pow(3).sum()
    found = answer.sum() + state.sums.pow(2).sum() + state.weights.pow(3).sum()
    assert error(found.view(1), wanted.view(1), (q, k, v)) <= EXACT


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.bfloat16, 2**-8), (torch.float32, 2**-20)], ids=str)
def test_sums_are_in_full_precision(dtype: torch.dtype, tolerance: float) -> None:
    q, k, v = operands(7, 7, dtype=dtype)
    answer, state = taylor_decode(q, k, v)
    assert answer.dtype == dtype
    assert {part.dtype for part in state[:2]} == {torch.float32}
    gradients = torch.autograd.grad(answer.sum(), (q, k, v))
    assert {part.dtype for part in gradients} == {dtype}
    wanted = naive.taylor_attention(q.double(), k.double(), v.double(), pattern=CAUSAL)
    # bfloat16 has eight bits: one rounding of the answer and no other.
    assert relative_error(answer.double(), wanted) <= tolerance


def test_autocast_settles_types() -> None:
    q, k, v = operands(3, 3, dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        answer, state = taylor_decode(q, k.bfloat16(), v)
    assert (answer.dtype, state.sums.dtype) == (torch.bfloat16, torch.float32)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch.compile itself calls what torch deprecates
@pytest.mark.parametrize(
    "options",
    [{"pattern": CAUSAL}, {"pattern": PATTERNS["blocks of 5"], "offset": 2}, {"order": 4, "key_padding_mask": True}],
    ids=["causal", "block-causal", "padded"],
)
def test_compiles_as_one_operator(options: dict[str, Any]) -> None:
    torch.compiler.reset()
    q, k, v = operands(260, 260, A=4)
    if options.get("key_padding_mask"):
        options = options | {"key_padding_mask": padding_of(260)}
    compiled = torch.compile(taylor_attention, fullgraph=True, backend="aot_eager", dynamic=False)
    assert error(compiled(q, k, v, **options), taylor_attention(q, k, v, **options), (q, k, v)) == 0


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_decoding_compiles() -> None:
    torch.compiler.reset()
    q, k, v = operands(3, 3)
    first = TaylorState(torch.rand(2, 2, 10, 3).double().requires_grad_(), torch.rand(2, 2, 10).double())
    compiled = torch.compile(taylor_decode, fullgraph=True, backend="aot_eager", dynamic=False)
    found, wanted = (decode(q, k, v, first) for decode in (compiled, taylor_decode))
    assert error(found[0], wanted[0], (q, k, v, first.sums)) == 0
    assert all(torch.equal(*pair) for pair in zip(found[1][:2], wanted[1][:2], strict=True))
    assert found[1][2:] == wanted[1][2:] == (2, "rolled")


@each_pattern
def test_memory_is_linear_in_the_length(pattern: Pattern) -> None:
    def kept(T: int) -> int:
        q, k, v = operands(T, T, B=1, D=4, H=5)
        return count(lambda: taylor_attention(q, k, v, pattern=pattern)).saved_bytes

    # q, k, v, the answer and a sum of weights: nothing of the width of the features.
    assert kept(300) == 8 * 2 * 300 * (4 + 4 + 5 + 5 + 1)
    assert kept(600) == 2 * kept(300)


def test_a_long_text_needs_no_more_than_its_operands_beside_it() -> None:
    script = """
import resource, torch
from porism.layers.attention.taylor import taylor_attention
from porism.layers.attention.pattern import CAUSAL
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
def run(T):
    q, k, v = (torch.randn(1, 1, T, width, requires_grad=True) for width in (4, 4, 8))
    taylor_attention(q, k, v, pattern=CAUSAL).sum().backward()
run(128)
before = peak()
run(2**15)
print((peak() - before) / 2**15 / 4)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    # Floats a token: operands 16, answer 8, their gradients 24, a sum of weights; a row of all pairs would be 2^15.
    assert float(done.stdout) < 2 * (16 + 8 + 24 + 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"order": 3}, r"order 3 is odd, .*\. Choose 2 or 4, or set allow_odd=True"),
        ({"feature_map": "turned"}, r"there is no map 'turned'\. Choose from exact, rolled, ordered, diagonal\."),
        ({"feature_map": "rolled", "order": 4}, r"the rolled map is of order 2, and order is 4"),
        (
            {"pattern": Pattern("sliding", window_size=3)},
            r"a sliding pattern forgets keys.*WindowAttention.*HybridAttention",
        ),
        ({"pattern": Pattern("block", window_size=3)}, r"a block pattern forgets keys, and a running sum cannot\. Use"),
        ({"dropout_p": 0.1}, r"dropout_p is 0\.1, and the series has no single weights to drop"),
        (
            {"cu_seqlens": [0, 3, 6]},
            r"cu_seqlens are \[0, 3, 6\], expected numbers that rise from 0 to 7",
        ),
        ({"cu_seqlens": [0, 7], "offset": 1}, r"cu_seqlens came with key_padding_mask, attn_mask or an offset"),
        ({"cu_seqlens": [0, 7], "output_final_state": True}, r"cu_seqlens came with a state, and every sequence"),
        (
            {"key_padding_mask": torch.zeros(2, 6).bool()},
            r"key_padding_mask is \(2, 6\), expected \(2, 7\)",
        ),
    ],
    ids=lambda value: None if isinstance(value, str) else "-".join(value),
)
def test_a_mistake_is_explained(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ShapeError, match=message) as caught:
        taylor_attention(*operands(7, 7), **options)
    assert "\n" not in str(caught.value)


def test_a_text_end_to_end_attends_to_itself() -> None:
    with pytest.raises(ShapeError, match=r"attends to itself, and 7 queries came with 6 keys\. Pad the sequences"):
        taylor_attention(*operands(7, 6, B=1), cu_seqlens=[0, 7])
    with pytest.raises(ShapeError, match=r"with cu_seqlens the batch is 1, and query is \(2, 2, 7, 3\)"):
        taylor_attention(*operands(7, 7), cu_seqlens=[0, 7])


def test_a_state_that_does_not_fit_is_refused() -> None:
    q, k, v = operands(2, 2)
    _, state = taylor_decode(q, k, v)
    wanted = (
        r"the state is \(2, 2, 10, 3\) and \(2, 2, 10\), expected \(2, 2, 35, 3\) and \(2, 2, 35\): batch, key heads"
    )
    with pytest.raises(ShapeError, match=wanted):
        taylor_decode(q, k, v, state, order=4)
    with pytest.raises(
        ShapeError, match=r"the state is \(2, 2, 10, 2\) and \(2, 2, 10\), expected \(2, 2, 10, 3\) and"
    ):
        taylor_decode(q, k, v, state._replace(sums=state.sums[..., :2]))
    with pytest.raises(ShapeError, match=r"a key for each new token, and 2 queries came with 1 keys"):
        taylor_decode(q, k[:, :, :1], v[:, :, :1], state)


def test_a_layer_follows_its_pattern() -> None:
    x = torch.randn(2, 9, 12)
    full, causal, blocks = (
        TaylorAttention(12, 3, batch_first=True, pattern=pattern, warn_above=None)
        for pattern in (FULL, CAUSAL, Pattern("block-causal", window_size=4))
    )
    causal.load_state_dict(full.state_dict())
    blocks.load_state_dict(full.state_dict())
    assert torch.equal(full(x, is_causal=True)[0], causal(x)[0])
    cut = blocks(x[:, :8])[0]
    assert torch.allclose(blocks(x)[0][:, :8], cut, atol=1e-6)
    assert not torch.allclose(full(x)[0][:, :8], full(x[:, :8])[0], atol=1e-6)
    with pytest.raises(
        ShapeError, match=r"is_causal or decoding came with a block-causal pattern that attends ahead\."
    ):
        blocks(x, is_causal=True)
    with pytest.raises(
        ShapeError, match=r"is_causal or decoding came with a block-causal pattern that attends ahead\."
    ):
        blocks.decode(x)


@pytest.mark.parametrize(
    "options", [{}, {"qk_norm": True}, {"num_kv_heads": 1, "order": 4}], ids=["", "norm", "shared"]
)
def test_a_layer_decodes_as_it_reads(options: dict[str, Any]) -> None:
    layer = TaylorAttention(12, 3, head_dim=2, v_head_dim=5, batch_first=True, warn_above=None, **options).double()
    x = torch.randn(2, 9, 12, dtype=torch.float64)
    wanted, _ = layer(x, is_causal=True)
    state, answers = None, []
    for token in x.split(1, dim=1):
        answer, state = layer.decode(token, state)
        answers.append(answer)
    assert torch.allclose(torch.cat(answers, 1), wanted, rtol=0, atol=1e-12)


def test_a_layer_refuses_what_the_series_cannot() -> None:
    with pytest.raises(ShapeError, match=r"dropout is 0\.1, and the series has no single weights to drop"):
        TaylorAttention(12, 3, dropout=0.1)
    with pytest.raises(ShapeError, match=r"order 3 is odd"):
        TaylorAttention(12, 3, order=3)
    with pytest.raises(ShapeError, match=r"warn_above is 0\. Give an error above 0"):
        TaylorAttention(12, 3, warn_above=0)
    with pytest.raises(ShapeError, match=r"TaylorAttention never holds all pairs, and need_weights=True asks"):
        TaylorAttention(12, 3)(torch.zeros(2, 7, 12), need_weights=True)
