"""Window attention equals the dense oracle wherever a text can be cut, and grows with the length only."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from porism.costing.counting.count import count
from porism.errors import ShapeError
from porism.layers.attention.pattern import CAUSAL, FULL, Pattern
from porism.layers.attention.reach import reach
from porism.layers.attention.window import WindowAttention, naive, window_attention
from porism.layers.attention.window.kernels.blocks import ROWS, blocks_of
from porism.testing.gradients import relative_error

pytestmark = pytest.mark.sample(54)

EXACT = 1e-12
LENGTHS = (1, 2, 7, 63, 64, 65, 257)
WINDOWS = (1, 2, 5, 64, 300)
PATTERNS = [
    *(Pattern("sliding", window_size=W) for W in WINDOWS),
    *(Pattern("sliding", window_size=W, lookahead=ahead) for W, ahead in ((1, 1), (5, 70), (64, 2), (300, 300))),
    *(
        Pattern("sliding", window_size=W, lookahead=ahead, dilation=d)
        for W, ahead, d in ((2, 0, 2), (5, 1, 3), (64, 0, 7))
    ),
    *(Pattern("block", window_size=W) for W in WINDOWS),
    *(Pattern("block", window_size=W, is_causal=True) for W in WINDOWS),
]


def operands(B: int, A: int, G: int, T: int, S: int, D: int, H: int) -> tuple[Tensor, Tensor, Tensor]:
    q, k, v = (
        torch.randn(size, dtype=torch.float64, requires_grad=True)
        for size in ((B, A, T, D), (B, G, S, D), (B, G, S, H))
    )
    return q, k, v


def assert_equals_oracle(q: Tensor, k: Tensor, v: Tensor, pattern: Pattern, **options: Any) -> None:
    found = window_attention(q, k, v, pattern=pattern, **options)
    wanted = naive.window_attention(q, k, v, pattern, **options)
    dO = torch.randn_like(wanted)
    pairs = [(found, wanted)]
    for answer in (found, wanted):
        assert answer.isfinite().all()
    pairs += zip(*(torch.autograd.grad(answer, (q, k, v), dO) for answer in (found, wanted)), strict=True)
    errors = [relative_error(*pair) for pair in pairs]
    assert max(errors) <= EXACT, dict(zip(("o", "dq", "dk", "dv"), errors, strict=True))


@pytest.fixture(autouse=True)
def _fixed_seed() -> None:
    torch.manual_seed(0)


@pytest.fixture(params=["fused", "by hand"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways that blocks can go, in small parts so that there is more than one."""
    if request.param == "by hand":
        monkeypatch.setattr("porism.layers.attention.window.method._kernel", lambda *_: "products")
    monkeypatch.setattr("porism.layers.attention.window.kernels.blocks._CACHE_BYTES", 2**16)
    return str(request.param)


@pytest.mark.sweep(1, each="pattern")
@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("pattern", PATTERNS, ids=str)
def test_equals_the_oracle(pattern: Pattern) -> None:
    for T in LENGTHS:
        assert_equals_oracle(*operands(1, 2, 2, T, T, 3, 3), pattern)
        assert_equals_oracle(*operands(2, 4, 2, T, T, 3, 5), pattern, key_padding_mask=torch.rand(2, T) < 0.4)


@pytest.mark.sweep(2, each="pattern")
@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("pattern", PATTERNS, ids=str)
@pytest.mark.parametrize(("T", "S", "offset"), [(7, 65, 0), (65, 7, 0), (65, 70, 5), (2, 257, 255), (63, 64, 33)])
def test_cross_attention_and_offsets_equal_the_oracle(pattern: Pattern, T: int, S: int, offset: int) -> None:
    padding = torch.rand(2, S) < 0.5
    assert_equals_oracle(*operands(2, 3, 1, T, S, 5, 2), pattern, offset=offset, scale=1.0)
    assert_equals_oracle(*operands(2, 2, 2, T, S, 1, 1), pattern, offset=offset, key_padding_mask=padding)


@st.composite
def sizes(draw: st.DrawFn) -> tuple[Pattern, tuple[int, ...], int, bool]:
    small = st.integers(1, 3)
    lengths = st.integers(1, 3 * ROWS)
    if draw(st.booleans()):
        pattern = Pattern("block", draw(lengths), is_causal=draw(st.booleans()))
    else:
        pattern = Pattern("sliding", draw(lengths), draw(st.integers(0, 2 * ROWS)), draw(st.integers(1, 5)))
    G, shared = draw(small), draw(small)
    shape = draw(small), G * shared, G, draw(lengths), draw(lengths), draw(small), draw(small)
    return pattern, shape, draw(st.integers(0, 2 * ROWS)), draw(st.booleans())


@settings(max_examples=60, deadline=None, derandomize=True)
@given(sizes())
def test_any_sizes_equal_the_oracle(drawn: tuple[Pattern, tuple[int, ...], int, bool]) -> None:
    pattern, shape, offset, padded = drawn
    B, _, _, _, S, _, _ = shape
    padding = torch.rand(B, S) < 0.5 if padded else None
    assert_equals_oracle(*operands(*shape), pattern, offset=offset, key_padding_mask=padding)


@pytest.mark.parametrize("pattern", PATTERNS, ids=str)
def test_texts_end_to_end_equal_each_alone(pattern: Pattern) -> None:
    q, k, v = operands(1, 4, 2, 77, 77, 3, 2)
    found = window_attention(q, k, v, pattern=pattern, cu_seqlens=[0, 3, 3, 68, 77])
    parts = [slice(0, 3), slice(3, 68), slice(68, 77)]
    wanted = torch.cat([naive.window_attention(q[:, :, p], k[:, :, p], v[:, :, p], pattern) for p in parts], 2)
    assert relative_error(found, wanted) <= EXACT


def test_who_sees_nothing_gives_zero_and_learns_nothing() -> None:
    q, k, v = operands(2, 2, 1, 70, 40, 3, 3)
    padding = torch.zeros(2, 40).bool()
    padding[0] = True
    found = window_attention(q, k, v, pattern=Pattern("sliding", window_size=5), key_padding_mask=padding)
    assert found[0].eq(0).all()
    assert found[1, :, 44:].eq(0).all()
    assert found[1, :, :44].ne(0).all()
    dq, dk, _ = torch.autograd.grad(found.sum(), (q, k, v))
    assert dq[0].eq(0).all()
    assert dk[0].eq(0).all()
    assert dq[1, :, 44:].eq(0).all()


@pytest.mark.parametrize("T", LENGTHS)
def test_every_query_is_in_one_block(T: int) -> None:
    for pattern in PATTERNS:
        for offset in (0, 3, 64) if pattern.dilation == 1 else ():
            cut = blocks_of(pattern, T, T, offset)
            assert [i for blocks in cut for i in range(T)[blocks.queries]] == list(range(T))
            parts = [part for blocks in cut for part in blocks.split(2)]
            assert [i for part in parts for i in range(T)[part.queries]] == list(range(T))
            assert max(part.count for part in parts) <= 2


@pytest.mark.parametrize(
    ("pattern", "wanted"),
    [
        (Pattern("sliding", window_size=7), CAUSAL),
        (Pattern("sliding", window_size=6), Pattern("sliding", window_size=6)),
        (Pattern("sliding", window_size=9, lookahead=6), FULL),
        (Pattern("sliding", window_size=9, lookahead=5), Pattern("sliding", window_size=7, lookahead=5)),
        (Pattern("sliding", window_size=2, lookahead=9), Pattern("sliding", window_size=2, lookahead=6)),
        (Pattern("block", window_size=7), FULL),
        (Pattern("block", window_size=6), Pattern("block", window_size=6)),
        (Pattern("block", window_size=8, is_causal=True), CAUSAL),
        (CAUSAL, CAUSAL),
    ],
    ids=str,
)
def test_a_window_over_the_whole_text_is_none(pattern: Pattern, wanted: Pattern) -> None:
    assert reach(pattern, 7, 7) == (0, 7, wanted, 0)
    assert torch.equal(pattern.mask(7, 7), wanted.mask(7, 7))


@pytest.mark.parametrize("pattern", [Pattern("sliding", window_size=5), Pattern("block", window_size=40)], ids=str)
def test_dropout_drops_weights(pattern: Pattern) -> None:
    T, keep = 70, 0.75
    q, k, _ = operands(2, 2, 1, T, T, 3, T)
    # With a value of its own for each key the answer is the weights.
    v = torch.eye(T, dtype=torch.float64).expand(2, 1, T, T).contiguous().requires_grad_()
    found = window_attention(q, k, v, pattern=pattern, dropout_p=1 - keep)
    weights = naive.window_attention(q, k, v, pattern)
    Z = torch.where(weights > 0, found / weights, 0).detach()
    assert torch.allclose(Z[Z > 0], torch.tensor(1 / keep, dtype=torch.float64), rtol=EXACT)
    seen = pattern.mask(T, T).sum() * 4
    assert abs((Z > 0).sum() / seen - keep) < 5 * (keep * (1 - keep) / seen) ** 0.5
    dO = torch.randn_like(found)
    # dV = (P Z)^T dO, the sum over the two heads that share a key
    dv = ((weights * Z).mT @ dO).sum(1, keepdim=True)
    wanted = (*torch.autograd.grad(weights * Z, (q, k), dO), dv)
    for gradient, right in zip(torch.autograd.grad(found, (q, k, v), dO), wanted, strict=True):
        assert relative_error(gradient, right) <= EXACT


@pytest.mark.parametrize("pattern", [Pattern("sliding", window_size=16), Pattern("block", window_size=16)], ids=str)
@pytest.mark.parametrize("dropout_p", [0.0, 0.1])
def test_what_is_saved_and_computed_grows_with_the_length(pattern: Pattern, dropout_p: float) -> None:
    def counted(T: int) -> tuple[int, int, int]:
        q, k, v = (torch.randn(1, 2, T, 8, requires_grad=True) for _ in range(3))
        found = count(lambda: window_attention(q, k, v, pattern=pattern, dropout_p=dropout_p))
        assert not found.uncounted
        return found.saved_bytes, found.flops, found.backward_flops

    once, twice = counted(512), counted(1024)
    assert twice == tuple(2 * number for number in once)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    ("pattern", "options"),
    [
        (Pattern("sliding", window_size=5, lookahead=1), {}),
        (Pattern("sliding", window_size=5, dilation=2), {"key_padding_mask": torch.arange(37).expand(2, -1) % 3 == 0}),
        (Pattern("block", window_size=8), {"offset": 3}),
    ],
    ids=["ahead", "dilated", "block"],
)
def test_compiles_without_a_break(pattern: Pattern, options: dict[str, Any]) -> None:
    torch.compiler.reset()
    q, k, v = operands(2, 4, 2, 37, 37, 3, 5)

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return window_attention(q, k, v, pattern=pattern, **options)

    compiled = torch.compile(attend, fullgraph=True, backend="aot_eager", dynamic=False)
    answers = compiled(q, k, v), attend(q, k, v)
    assert relative_error(*answers) <= EXACT
    found, wanted = (torch.autograd.grad(answer.sum(), (q, k, v)) for answer in answers)
    assert max(relative_error(a, b) for a, b in zip(found, wanted, strict=True)) <= EXACT


@pytest.mark.usefixtures("way")
def test_bfloat16_keeps_its_type_and_sums_in_float32() -> None:
    q, k, v = operands(1, 2, 1, 40, 40, 4, 4)
    q, k, v = low = [x.detach().bfloat16().requires_grad_() for x in (q, k, v)]
    found = window_attention(q, k, v, pattern=Pattern("sliding", window_size=6))
    q, k, v = exact = [x.detach().double().requires_grad_() for x in low]
    wanted = naive.window_attention(q, k, v, Pattern("sliding", window_size=6))
    assert found.dtype == torch.bfloat16
    assert relative_error(found.double(), wanted) < 1e-2
    for a, b in zip(torch.autograd.grad(found.sum(), low), torch.autograd.grad(wanted.sum(), exact), strict=True):
        assert a.dtype == torch.bfloat16
        assert relative_error(a.double(), b) < 2e-2


def test_autocast_chooses_the_type() -> None:
    q, k, v = (torch.randn(1, 1, 9, 4) for _ in range(3))
    with torch.autocast("cpu", torch.bfloat16):
        found = window_attention(q, k, v, pattern=Pattern("sliding", window_size=3))
    assert found.dtype == torch.bfloat16
    assert relative_error(found.float(), naive.window_attention(q, k, v, Pattern("sliding", window_size=3))) < 2e-2


def test_the_layer_takes_its_pattern_and_refuses_to_be_causal_where_that_looks_ahead() -> None:
    x = torch.randn(20, 2, 12)
    ahead = WindowAttention(12, 3, pattern=Pattern("sliding", window_size=4, lookahead=2))
    near = WindowAttention(12, 3, window_size=4)
    near.load_state_dict(ahead.state_dict())
    assert near.pattern == Pattern("sliding", window_size=4)
    assert torch.equal(near(x, is_causal=True)[0], near(x)[0])
    assert not torch.allclose(ahead(x)[0], near(x)[0])
    for layer in (ahead, WindowAttention(12, 3, pattern=Pattern("block", window_size=5))):
        with pytest.raises(ShapeError, match="pattern that attends ahead. Give a pattern that does not"):
            layer(x, is_causal=True)
    inside = WindowAttention(12, 3, pattern=Pattern("block", window_size=5, is_causal=True))
    assert torch.equal(inside(x, is_causal=True)[0], inside(x)[0])
    assert "window_size=4, lookahead=2" in repr(ahead)


def test_a_window_is_given_once_and_by_name() -> None:
    with pytest.raises(ShapeError, match=r"dropout is 64, expected a probability .* Did you mean window_size=64\?"):
        WindowAttention(12, 3, 64)
    both: dict[str, Any] = {"window_size": 4, "pattern": Pattern("sliding", window_size=4)}
    neither: dict[str, Any] = {}
    for options in (both, neither):
        with pytest.raises(ShapeError, match="expected exactly one of the two"):
            WindowAttention(12, 3, **options)
        with pytest.raises(ShapeError, match="expected exactly one of the two"):
            window_attention(*torch.zeros(3, 1, 1, 2, 2), **options)


def test_the_layer_loads_what_torch_has_learned() -> None:
    torch_layer, x = torch.nn.MultiheadAttention(12, 3, batch_first=True), torch.randn(2, 20, 12)
    layer = WindowAttention(12, 3, window_size=4, batch_first=True, dropout=0.5).eval()
    layer.load_state_dict(torch_layer.state_dict())
    wanted, _ = torch_layer(x, x, x, attn_mask=~layer.pattern.mask(20, 20), need_weights=False)
    assert torch.allclose(layer(x)[0], wanted, atol=1e-6)
    assert not torch.allclose(layer.train()(x)[0], wanted, atol=1e-6)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(
    "pattern", [Pattern("sliding", window_size=5), Pattern("sliding", window_size=2, dilation=3)], ids=str
)
@pytest.mark.parametrize("offset", [0, -3])
def test_an_answer_may_be_changed_in_place(pattern: Pattern, offset: int) -> None:
    q, k, v = operands(2, 4, 2, 40, 40, 3, 5)
    changes: list[Callable[[Tensor], Tensor]] = [Tensor.relu_, lambda y: y.mul_(2), lambda y: y[:, 1:, 3:9].zero_()]
    for change in changes:
        found = window_attention(q, k, v, pattern=pattern, offset=offset)
        wanted = naive.window_attention(q, k, v, pattern, offset=offset)
        for answer in (found, wanted):
            change(answer)
        gradients = (torch.autograd.grad(answer.sum(), (q, k, v)) for answer in (found, wanted))
        errors = [relative_error(*pair) for pair in zip(*gradients, strict=True)]
        assert max(relative_error(found, wanted), *errors) <= EXACT


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_compiled_answer_may_be_changed_in_place() -> None:
    torch.compiler.reset()
    q, k, v = operands(2, 2, 2, 40, 40, 3, 3)

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        # A pattern that is made while the compiler traces.
        return window_attention(q, k, v, pattern=Pattern("sliding", window_size=5)).mul_(2).relu_()

    answers = torch.compile(attend, fullgraph=True, backend="aot_eager")(q, k, v), attend(q, k, v)
    gradients = (torch.autograd.grad(answer.sum(), (q, k, v)) for answer in answers)
    assert max(relative_error(a, b) for a, b in zip(*gradients, strict=True)) <= EXACT


@pytest.mark.parametrize("window", [40, 64])
def test_behind_a_window_over_the_whole_text_a_change_in_place_is_refused_as_behind_softmax(window: int) -> None:
    q, k, v = operands(2, 2, 2, 40, 40, 3, 3)
    answer = window_attention(q, k, v, pattern=Pattern("sliding", window)).mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        answer.sum().backward()


@pytest.mark.parametrize("inplace", [nn.ReLU(inplace=True), nn.Dropout(0.5, inplace=True)], ids=str)
def test_modules_that_change_in_place_may_follow_the_layer(inplace: nn.Module) -> None:
    layer = WindowAttention(12, 3, window_size=4, out_proj=False, batch_first=True)
    x = torch.randn(2, 20, 12, requires_grad=True)
    torch.manual_seed(1)
    (found,) = torch.autograd.grad(inplace(layer(x)[0]).sum(), x)
    torch.manual_seed(1)
    (wanted,) = torch.autograd.grad(inplace(layer(x)[0].clone()).sum(), x)
    assert torch.equal(found, wanted)


def test_what_is_saved_is_not_kept_by_a_watch() -> None:
    # An answer that nobody holds any more goes with the backward pass, not with the graph.
    q, k, v = operands(1, 1, 1, 40, 40, 3, 3)
    answer = window_attention(q, k, v, pattern=Pattern("sliding", window_size=5))
    operation: Any = answer.grad_fn
    assert operation.watch._counter.untyped_storage().nbytes() == 0


@pytest.mark.sweep(2, each="pattern")
@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("pattern", PATTERNS, ids=str)
@pytest.mark.parametrize(("B", "T", "S"), [(0, 40, 40), (2, 0, 40), (2, 40, 0), (0, 0, 0)])
def test_nothing_to_attend_to_gives_zeros_and_no_gradient(pattern: Pattern, B: int, T: int, S: int) -> None:
    q, k, v = operands(B, 4, 2, T, S, 3, 5)
    for padding in (None, torch.zeros(B, S).bool()):
        answer = window_attention(q, k, v, pattern=pattern, key_padding_mask=padding)
        assert answer.shape == (B, 4, T, 5)
        assert not answer.any()
        assert not any(gradient.any() for gradient in torch.autograd.grad(answer.sum(), (q, k, v)))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_with_dropout_logits_are_computed_in_float32_or_better(dtype: torch.dtype) -> None:
    # Sums of q k and dO v beyond what float16 holds.
    q, k, v = (torch.full((1, 1, 9, 64), size, dtype=dtype, requires_grad=True) for size in (40.0, 40.0, 60.0))
    answer = window_attention(q, k, v, pattern=Pattern("sliding", window_size=3), scale=1e-3, dropout_p=0.25)
    gradients = torch.autograd.grad(answer, (q, k, v), torch.full_like(answer, 30.0))
    assert answer.isfinite().all()
    assert all(gradient.isfinite().all() for gradient in gradients)


def test_dropout_in_any_layout() -> None:
    T = 40
    q, k, v = operands(2, 4, 2, T, T, 3, 5)
    for pattern in (Pattern("sliding", window_size=5), Pattern("block", window_size=8)):
        dO = torch.randn(2, 4, T, 5, dtype=torch.float64)
        found = []
        for layout in (lambda x: x, lambda x: x.mT.contiguous().mT, lambda x: torch.stack([x, -x], -1)[..., 0]):
            torch.manual_seed(3)
            parts: list[Any] = [layout(x.detach()).requires_grad_() for x in (q, k, v)]
            answer = window_attention(parts[0], parts[1], parts[2], None, 0.3, pattern=pattern)
            found.append([answer, *torch.autograd.grad(answer, parts, layout(dO))])
        for other in found[1:]:
            assert max(relative_error(a, b) for a, b in zip(found[0], other, strict=True)) <= EXACT


def test_float64_is_left_alone_by_autocast() -> None:
    q, k, v = operands(1, 2, 1, 40, 40, 3, 5)
    wanted = window_attention(q, k, v, pattern=Pattern("sliding", window_size=3))
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(window_attention(q, k, v, pattern=Pattern("sliding", window_size=3)), wanted)


def test_a_window_far_beyond_the_text_takes_no_memory() -> None:
    q, k, v = operands(1, 1, 1, 5, 5, 2, 2)
    far = 2**31 - 1
    for pattern in (Pattern("sliding", far), Pattern("sliding", 3, far, far), Pattern("block", far)):
        for offset in (0, far, -far, 2):
            assert_equals_oracle(q, k, v, pattern, offset=offset)
