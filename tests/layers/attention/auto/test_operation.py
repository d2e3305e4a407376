"""Whatever "auto" chooses, the numbers are those asked for; and what cannot be is refused."""

from typing import Any

import pytest
import torch
from tests.layers.attention.auto.conftest import EXACT, SERIES, SLIDING, Device, operands
from torch import Tensor, nn

from porism.errors import ShapeError
from porism.layers import (
    choose_attention,
    hybrid_attention,
    softmax_attention,
    taylor_attention,
    window_attention,
)
from porism.layers.attention import auto as operation
from porism.layers.attention.auto import Choice, attention, decide
from porism.layers.attention.hybrid import naive as hybrid_naive
from porism.layers.attention.pattern import CAUSAL, FULL, Pattern
from porism.layers.attention.request import AttentionRequest, RequestSizes
from porism.layers.attention.softmax import naive as softmax_naive
from porism.layers.attention.taylor import naive as taylor_naive
from porism.testing.gradients import relative_error

pytestmark = pytest.mark.sample(80)

SAME = 1e-12


PATTERNS = {
    "full": FULL,
    "causal": CAUSAL,
    "sliding": SLIDING,
    "ahead": Pattern("sliding", window_size=3, lookahead=2),
    "dilated": Pattern("sliding", window_size=3, lookahead=1, dilation=2),
    "all but one": Pattern("sliding", window_size=6),
    "wide": Pattern("sliding", window_size=100),
    "block": Pattern("block", window_size=4),
    "causal inside": Pattern("block", window_size=4, is_causal=True),
    "one block": Pattern("block", window_size=100),
    "block-causal": Pattern("block-causal", window_size=4),
}


each_pattern = pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS)


def assert_same(found: Tensor, wanted: Tensor, variables: tuple[Tensor, ...]) -> None:
    weights = torch.linspace(-1, 2, wanted.numel(), dtype=wanted.dtype).view_as(wanted)
    both = [[y, *torch.autograd.grad((y * weights).sum(), variables)] for y in (found, wanted)]
    assert max(relative_error(ours, theirs) for ours, theirs in zip(*both, strict=True)) <= SAME


def oracle(q: Tensor, k: Tensor, v: Tensor, pattern: Pattern, padding: Tensor | None = None, offset: int = 0) -> Tensor:
    return softmax_naive.softmax_attention(q, k, v, softmax_naive.looked_at(pattern, q, k, padding, offset))


@each_pattern
@pytest.mark.parametrize("favourite", EXACT)
def test_whatever_is_chosen_equals_the_oracle(device: Device, favourite: str, pattern: Pattern) -> None:
    device.prefer(favourite)
    for T, S, offset, padded in ((1, 1, 0, False), (7, 7, 0, True), (63, 63, 0, False), (7, 12, 3, False)):
        q, k, v = operands(T, S)
        padding = torch.rand(2, S) < 0.3 if padded else None
        found = attention(q, k, v, pattern=pattern, key_padding_mask=padding, offset=offset)
        assert_same(found, oracle(q, k, v, pattern, padding, offset), (q, k, v))


@each_pattern
@pytest.mark.parametrize("favourite", EXACT)
def test_texts_end_to_end_attend_to_themselves(device: Device, favourite: str, pattern: Pattern) -> None:
    device.prefer(favourite)
    q, k, v = operands(12, B=1)
    borders = [0, 5, 5, 12]
    found = attention(q, k, v, pattern=pattern, cu_seqlens=borders)
    parts = [slice(0, 5), slice(5, 12)]
    wanted = torch.cat([oracle(q[:, :, n], k[:, :, n], v[:, :, n], pattern) for n in parts], dim=2)
    assert_same(found, wanted, (q, k, v))


@pytest.mark.parametrize("pattern", [FULL, CAUSAL, Pattern("block-causal", window_size=4)], ids=lambda p: p.kind)
@pytest.mark.parametrize("favourite", SERIES)
@pytest.mark.parametrize("mechanism", ["series", "auto"])
def test_the_series_is_one_whichever_way_it_is_taken(
    device: Device, mechanism: str, favourite: str, pattern: Pattern
) -> None:
    device.prefer(favourite)
    q, k, v = operands(63)
    padding = torch.rand(2, 63) < 0.3
    padding[0, :3] = True  # in a causal pattern nobody is there for the first queries
    assert (
        choose_attention(q, k, v, mechanism=mechanism, pattern=pattern, key_padding_mask=padding, order=4).name
        == favourite
    )
    found = attention(q, k, v, mechanism=mechanism, pattern=pattern, key_padding_mask=padding, order=4)
    assert_same(
        found, taylor_naive.taylor_attention(q, k, v, order=4, pattern=pattern, key_padding_mask=padding), (q, k, v)
    )


def test_the_hybrid_is_the_hybrid(device: Device) -> None:
    device.prefer("hybrid")
    q, k, v = operands(63)
    found = attention(q, k, v, pattern=CAUSAL, order=2, window_size=5)
    assert_same(found, hybrid_naive.hybrid_attention(q, k, v, window_size=5, order=2, pattern=CAUSAL), (q, k, v))


def test_a_mechanism_that_is_named_is_the_function_of_that_name() -> None:
    q, k, v = operands(63, dtype=torch.float32)
    pairs: dict[str, tuple[Pattern, dict[str, Any], Tensor]] = {
        "softmax": (CAUSAL, {}, softmax_attention(q, k, v, pattern=CAUSAL)),
        "window": (SLIDING, {}, window_attention(q, k, v, pattern=SLIDING)),
        "taylor": (CAUSAL, {}, taylor_attention(q, k, v, order=2, pattern=CAUSAL)),
        "hybrid": (FULL, {"window_size": 9, "order": 4}, hybrid_attention(q, k, v, window_size=9, order=4)),
    }
    for name, (pattern, settings, wanted) in pairs.items():
        assert torch.equal(attention(q, k, v, mechanism=name, pattern=pattern, **settings), wanted), name


def test_what_is_chosen_is_the_named_one_bit_for_bit(device: Device) -> None:
    q, k, v = operands(63, dtype=torch.float32)
    for name in EXACT:
        device.prefer(name)
        found = attention(q, k, v, pattern=SLIDING)
        assert torch.equal(found, attention(q, k, v, mechanism=name, pattern=SLIDING)), name


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch.compile itself calls what torch deprecates
@pytest.mark.parametrize("dynamic", [None, True])
def test_compiles_without_breaks_and_chooses_by_sizes(device: Device, dynamic: bool | None) -> None:
    def near(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        # A pattern that is made while the compiler traces.
        return attention(q, k, v, pattern=Pattern("sliding", window_size=5))

    device.prefer("window")
    asked: list[RequestSizes] = []

    def spy(asks: RequestSizes, mechanism: str) -> Choice:
        asked.append(asks)
        return decide(asks, mechanism)

    device.monkeypatch.setattr(operation, "decide", spy)
    compiled = torch.compile(near, fullgraph=True, backend="eager", dynamic=dynamic)
    for T in (3, 40, 65):
        q, k, v = operands(T, dtype=torch.float32)
        found = compiled(q, k, v)
        traced = asked[-1]
        assert torch.equal(found, near(q, k, v))
        assert (traced.T, traced.pattern) == (T, CAUSAL if T == 3 else SLIDING)
    torch._dynamo.reset()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"mechanism": "flash"},
            "there is no mechanism 'flash'. Choose from 'auto', 'series', 'softmax', 'window', 'dense-softmax', ",
        ),
        ({"mechanism": "window"}, "mechanism 'window' came with a full pattern, which has no window. Give a sliding"),
        (
            {"mechanism": "window", "pattern": Pattern("block-causal", window_size=4)},
            "mechanism 'window' came with a block-causal pattern, which has no window.",
        ),
        ({"mechanism": "taylor", "pattern": SLIDING}, "a sliding pattern forgets keys, and a running sum cannot."),
        ({"mechanism": "series", "pattern": SLIDING}, "a sliding pattern forgets keys, and a running sum cannot."),
        (
            {"mechanism": "dense-taylor", "pattern": SLIDING},
            "a sliding pattern forgets keys, and a running sum cannot.",
        ),
        ({"mechanism": "series", "dropout_p": 0.1}, "dropout_p is 0.1, and the series has no single weights to drop"),
        ({"mechanism": "hybrid"}, "hybrid: window_size is None. Give window_size=64 or so"),
        (
            {"mechanism": "hybrid", "window_size": 4, "pattern": SLIDING},
            "the pattern is sliding, expected full or causal",
        ),
        ({"mechanism": "dense-softmax", "dropout_p": 0.1}, "'dense-softmax' does not take cu_seqlens or dropout_p."),
        ({"mechanism": "softmax", "order": 2}, "order is 2, and mechanism 'softmax' has no series. Leave it out, or"),
        ({"order": 3}, "order 3 is odd"),
        (
            {"mechanism": "window", "window_size": 4},
            "window_size is 4, and mechanism 'window' has none beside its pattern's.",
        ),
        (
            {"window_size": 4},
            "window_size is 4 without an order, so there is no series beyond it. Give order=2 too, or",
        ),
        ({"window_size": 0, "order": 2}, "window_size is 0. Give a whole number from 1 on."),
        ({"window_size": 2.5, "order": 2}, "window_size is 2.5. Give a whole number from 1 on."),
        ({"window_size": True, "order": 2}, "window_size is True. Give a whole number from 1 on."),
        (
            {"mechanism": "window", "pattern": SLIDING, "attn_mask": torch.ones(7, 7, dtype=torch.bool)},
            "attn_mask came, and window attention never holds all pairs.",
        ),
        (
            {"mechanism": "series", "attn_mask": torch.ones(7, 7, dtype=torch.bool)},
            "attn_mask came, and the series never holds all pairs.",
        ),
        (
            {"mechanism": "taylor", "window_size": 4},
            "mechanism 'taylor' does not take a window_size.",
        ),
        ({"is_causal": True, "pattern": Pattern("block", window_size=4)}, "block pattern that attends ahead."),
        ({"is_causal": 1}, "is_causal is 1, expected True or False."),
        ({"enable_gqa": False}, "4 query heads came with 2 key heads, and enable_gqa is False."),
        ({"dropout_p": 1.5}, "dropout_p is 1.5. Give the probability of dropping"),
    ],
)
def test_what_cannot_be_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ShapeError, match=message.replace("(", r"\(")) as refused:
        attention(*operands(), **settings)
    assert "\n" not in str(refused.value)


def test_wrong_shapes_are_refused_by_name() -> None:
    q, k, v = operands()
    with pytest.raises(ShapeError, match="attention: key is .*, expected 4 sizes: batch, heads, length, width."):
        attention(q, k[0], v)
    with pytest.raises(ShapeError, match="Keys and queries meet in a product."):
        attention(q, k[..., :2], v)
    with pytest.raises(ShapeError, match="mechanism 'taylor' leaves nothing to choose. Give 'auto' or 'series'."):
        choose_attention(q, k, v, mechanism="taylor")


@pytest.mark.sweep(4, each="favourite")
@each_pattern
@pytest.mark.parametrize("favourite", EXACT)
@pytest.mark.parametrize("scale", [-0.5, 0.0, 3.0])
def test_whatever_is_chosen_is_right_for_any_offset_and_scale(
    device: Device, favourite: str, pattern: Pattern, scale: float
) -> None:
    device.prefer(favourite)
    for T, S, offset in ((7, 7, -2), (40, 40, -5), (7, 12, 30), (12, 7, -20), (3, 3, 2**31 - 1)):
        q, k, v = operands(T, S)
        found = attention(q, k, v, pattern=pattern, offset=offset, scale=scale)
        mask = softmax_naive.looked_at(pattern, q, k, None, offset)
        assert_same(found, softmax_naive.softmax_attention(q, k, v, mask, scale), (q, k, v))


@pytest.mark.parametrize("favourite", EXACT)
def test_whatever_is_chosen_reads_any_layout(device: Device, favourite: str) -> None:
    device.prefer(favourite)
    pattern = Pattern("block", window_size=16)
    for layout in (lambda x: x.mT.contiguous().mT, lambda x: torch.stack([x, -x], -1)[..., 0], lambda x: x[:1]):
        q, k, v = (layout(x.detach()).requires_grad_() for x in operands(64))
        assert choose_attention(q, k, v, pattern=pattern).name == favourite
        assert_same(attention(q, k, v, pattern=pattern), oracle(q, k, v, pattern), (q, k, v))


@pytest.mark.parametrize("favourite", [*EXACT, *SERIES])
def test_a_scale_is_learned_whatever_is_chosen(device: Device, favourite: str) -> None:
    device.prefer(favourite)
    q, k, v = operands(12)
    scale = nn.Parameter(torch.tensor(0.3, dtype=torch.float64))
    options: dict[str, Any] = {"pattern": SLIDING} if favourite in EXACT else {"mechanism": "series"}
    (found,) = torch.autograd.grad(attention(q, k, v, scale=scale, **options).square().sum(), scale)
    with torch.no_grad():
        above, below = (attention(q, k, v, scale=0.3 + step, **options).square().sum() for step in (1e-6, -1e-6))
    assert float(found) == pytest.approx(float(above - below) / 2e-6, rel=1e-6)


@pytest.mark.sweep(5, each="favourite")
@each_pattern
@pytest.mark.parametrize("favourite", EXACT)
@pytest.mark.parametrize(("B", "T", "S"), [(0, 7, 7), (2, 0, 7), (2, 7, 0), (0, 0, 0)])
def test_nothing_to_attend_to_gives_zeros(
    device: Device, favourite: str, pattern: Pattern, B: int, T: int, S: int
) -> None:
    device.prefer(favourite)
    q, k, v = operands(T, S, B=B)
    found = attention(q, k, v, pattern=pattern)
    assert found.shape == (B, 4, T, 5)
    assert not any(x.any() for x in (found, *torch.autograd.grad(found.sum(), (q, k, v))))


def test_the_dense_series_of_no_keys_is_zero() -> None:
    q, k, v = operands(7, 0)
    for pattern in (FULL, CAUSAL):
        found = attention(q, k, v, mechanism="dense-taylor", pattern=pattern)
        assert not any(x.any() for x in (found, *torch.autograd.grad(found.sum(), (q, k, v))))


def test_operands_are_checked_and_copied_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    make = AttentionRequest.make

    def spy(*args: Any, **options: Any) -> AttentionRequest:
        made.append(options)
        return make(*args, **options)

    monkeypatch.setattr(AttentionRequest, "make", spy)
    for name in EXACT:
        attention(*operands(12), mechanism=name, pattern=SLIDING)
        assert len(made) == 1
        made.clear()


def test_a_choice_refuses_what_attention_refuses() -> None:
    q, k, v = operands()
    wrong: list[dict[str, Any]] = [
        {"key": k.to("meta")},
        {"query": q.long()},
        {"key_padding_mask": torch.zeros(2, 7).int()},
        {"offset": 1.5},
        {"pattern": "causal"},
        {"dropout_p": 1.0},
        {"cu_seqlens": [0.0, 7.0]},
    ]
    for options in wrong:
        given: dict[str, Any] = {"query": q, "key": k, "value": v} | options
        for function in (attention, choose_attention):
            with pytest.raises(ShapeError, match="^attention: "):
                function(**given)
