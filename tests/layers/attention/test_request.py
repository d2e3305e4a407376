"""Whatever attends is asked through one door: what no kernel may read is refused, and the rest is made readable."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from tests.layers.attention.auto.conftest import device  # noqa: F401  # nothing is measured here
from torch import nn

from porism.errors import ShapeError
from porism.layers import Pattern, softmax_attention, window_attention, window_decode
from porism.layers.attention.auto import attention, choose_attention
from porism.layers.attention.request import AttentionRequest
from porism.layers.attention.softmax import naive
from porism.layers.attention.softmax.functional import softmax_decode

B, A, T, D = 2, 2, 7, 4
CAUSAL, NEAR = Pattern("causal"), Pattern("sliding", window_size=3)
FORMS: dict[str, Callable[..., Any]] = {
    "softmax": softmax_attention,
    "window": lambda *operands, pattern=NEAR, **options: window_attention(*operands, pattern=pattern, **options),
    "dense-softmax": partial(attention, mechanism="dense-softmax"),
    "dense-taylor": partial(attention, mechanism="dense-taylor"),
    "auto": attention,
    "auto window": lambda *operands, pattern=NEAR, **options: attention(
        *operands, mechanism="window", pattern=pattern, **options
    ),
}
DECODING: dict[str, Callable[..., Any]] = {
    "softmax decode": lambda *operands, **options: softmax_decode(*operands, **options)[0],
    "window decode": lambda *operands, pattern=NEAR, **options: window_decode(*operands, pattern=pattern, **options)[0],
}
each_form = pytest.mark.parametrize("form", (FORMS | DECODING).values(), ids=FORMS | DECODING)


@pytest.fixture(autouse=True)
def _fixed_seed() -> None:
    torch.manual_seed(0)


def operands(dtype: torch.dtype = torch.float64) -> list[Any]:
    return [torch.randn(B, A, T, D, dtype=dtype, requires_grad=True) for _ in range(3)]


@each_form
@pytest.mark.parametrize("place", range(3))
def test_operands_on_two_devices_are_refused(form: Callable[..., Any], place: int) -> None:
    given = operands()
    given[place] = given[place].to("meta")
    with pytest.raises(ShapeError, match=r"is on (meta|cpu), query on (meta|cpu), expected one device\. Move it with"):
        form(*given)


@each_form
@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.complex128, torch.uint8], ids=str)
def test_operands_are_real_numbers(form: Callable[..., Any], dtype: torch.dtype) -> None:
    with pytest.raises(ShapeError, match=rf"query is {dtype}, expected one of float32, bfloat16, float16, float64"):
        form(*(x.detach().to(dtype) for x in operands()))


PADDINGS: dict[str, Any] = {
    "uint8": torch.ones(B, T).to(torch.uint8),
    "int32": torch.ones(B, T).int(),
    "int64": 2 * torch.ones(B, T).long(),
    "float": torch.ones(B, T),
    "meta": torch.zeros(B, T, device="meta").bool(),
    "size": torch.zeros(B, T + 1).bool(),
    "list": [[False] * T] * B,
}


@each_form
@pytest.mark.parametrize("padding", PADDINGS.values(), ids=PADDINGS)
def test_padding_is_of_bool_or_minus_infinity(form: Callable[..., Any], padding: Any) -> None:
    with pytest.raises(ShapeError, match=r"^attention: key_padding_mask (is|adds) .*, expected "):
        form(*operands(), key_padding_mask=padding)
    if form is attention:
        with pytest.raises(ShapeError, match=r"^attention: key_padding_mask (is|adds) .*, expected "):
            choose_attention(*operands(), key_padding_mask=padding)


SCALES: dict[str, Any] = {
    "nan": float("nan"),
    "inf": -float("inf"),
    "text": "0.5",
    "bool": True,
    "complex": 1j,
    "beyond floats": 10**400,
    "several": torch.ones(2),
    "none": torch.ones(0),
    "whole": torch.tensor(1),
    "meta": torch.tensor(1.0, device="meta"),
    "list": [0.5],
}


@each_form
@pytest.mark.parametrize("scale", SCALES.values(), ids=SCALES)
def test_a_scale_is_one_finite_number(form: Callable[..., Any], scale: Any) -> None:
    with pytest.raises(ShapeError, match=r"^attention: scale is .*, expected "):
        form(*operands(), scale=scale)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("offset", [1.5, True, "1", float("nan"), torch.tensor(1), None, 2**31], ids=repr)
def test_an_offset_is_a_whole_number(form: Callable[..., Any], offset: Any) -> None:
    with pytest.raises(ShapeError, match=r"^attention: offset is .*\. Give a whole number from -2147483647"):
        form(*operands(), offset=offset)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_an_offset_of_numpy_is_taken(form: Callable[..., Any]) -> None:
    given = operands()
    assert torch.equal(form(*given, offset=np.int64(2)), form(*given, offset=2))


BORDERS: dict[str, Any] = {
    "floats": [0.0, float(T)],
    "bools": [False, T],
    "nested": [[0, T]],
    "a tensor of floats": torch.tensor([0.0, T]),
    "a tensor of bools": torch.tensor([False, True]),
    "a nested tensor": torch.tensor([[0, T]]),
    "a number": T,
    "a tensor of one": torch.tensor(T),
    "meta": torch.tensor([0, T], device="meta"),
    "negative": [0, -1, T],
    "text": "07",
    "nothing": [0, None, T],
}


@pytest.mark.parametrize("name", ["softmax", "window", "auto", "auto window"])
@pytest.mark.parametrize("borders", BORDERS.values(), ids=BORDERS)
def test_cumulative_lengths_are_whole_numbers(name: str, borders: Any) -> None:
    with pytest.raises(ShapeError, match=r"^attention: (one of )?cu_seqlens (is|are) "):
        FORMS[name](*(x[:1] for x in operands()), cu_seqlens=borders)


@pytest.mark.sweep(2, each="name")
@pytest.mark.parametrize("name", [name for name in FORMS | DECODING if name != "dense-taylor"])
@pytest.mark.parametrize("number", [0.6, -0.6, 0.0, -2.0, 1e-45], ids=str)
@pytest.mark.parametrize("causal", [False, True])
def test_any_scale_is_right(name: str, number: float, causal: bool) -> None:
    given, exact = operands(), operands()
    for one, other in zip(given, exact, strict=True):
        other.data = one.data.clone()
    pattern = CAUSAL if causal or "decode" in name else NEAR
    if name == "auto window":
        pattern = NEAR if causal else Pattern("block", window_size=3)
    q, k, v = exact
    wanted = naive.softmax_attention(q, k, v, pattern.mask(T, T), number)
    found = (FORMS | DECODING)[name](*given, pattern=pattern, scale=number)
    weights = torch.randn_like(wanted)
    ours = found, *torch.autograd.grad(found, given, weights)
    theirs = wanted, *torch.autograd.grad(wanted, exact, weights)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-11)


def test_of_a_scale_of_zero_the_answer_is_the_mean() -> None:
    q, k, v = operands()
    means = v.cumsum(2) / torch.arange(1, T + 1)[:, None]
    torch.testing.assert_close(softmax_attention(q, k, v, pattern=CAUSAL, scale=0.0), means)


def test_a_large_scale_takes_the_largest() -> None:
    q, k, v = operands(torch.float32)
    wanted = naive.softmax_attention(q.double(), k.double(), v.double(), CAUSAL.mask(T, T), 1e30)
    for name in ("softmax", "window", "dense-softmax", "auto"):
        found = FORMS[name](q, k, v, pattern=CAUSAL, scale=1e30)
        torch.testing.assert_close(found.double(), wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", [*FORMS, *DECODING])
@pytest.mark.parametrize("start", [0.6, -0.6, 0.0], ids=str)
def test_a_scale_is_learned(name: str, start: float) -> None:
    given = operands()
    form = (FORMS | DECODING)[name]
    scale = nn.Parameter(torch.tensor(start, dtype=torch.float64))
    weights = torch.randn(B, A, T, D, dtype=torch.float64)
    (found,) = torch.autograd.grad(form(*given, scale=scale), scale, weights)
    step = 1e-6
    with torch.no_grad():
        above, below = ((form(*given, scale=start + sign * step) * weights).sum() for sign in (1, -1))
    torch.testing.assert_close(found, (above - below) / (2 * step), rtol=1e-6, atol=1e-6)
    assert torch.equal(form(*given, scale=scale), form(*given, scale=scale.view(1, 1)))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_a_scale_learns_from_half_precision(dtype: torch.dtype) -> None:
    # Many tokens: their parts of the gradient add up in float32, as the scale is.
    texts, W = 80, 50
    low: list[Any] = [torch.randn(1, 1, texts * W, D).to(dtype) for _ in range(4)]
    q, k, v, weights = (x.double().view(texts, 1, W, D) for x in low)
    scale, exact = nn.Parameter(torch.tensor(0.5)), torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    answer = window_attention(*low[:3], pattern=Pattern("block", window_size=W), scale=scale)
    (found,) = torch.autograd.grad(answer, scale, low[3])
    wanted = naive.softmax_attention(exact * q, k, v, torch.ones(W, W).bool(), 1.0)
    (slope,) = torch.autograd.grad(wanted, exact, weights)
    assert (answer.dtype, found.dtype) == (dtype, torch.float32)
    assert abs(float(found) - float(slope)) <= 2**-6 * abs(float(slope))


def test_the_request_has_a_scale_above_zero() -> None:
    q, k, v = operands()
    scales: list[Any] = [None, 2, -2, 0, 0.0, -0.0, 1e-320, -1e-39, np.float32(-3), torch.tensor(-1.0)]
    for scale in scales:
        request = AttentionRequest.make(q, k, v, pattern=CAUSAL, scale=scale)
        assert request.scale >= 2.0**-126
        assert type(request.scale) is float
        number = 0.5 if scale is None else float(scale)
        torch.testing.assert_close(request.scale * request.q, number * q, rtol=1e-15, atol=0)
    # A usual one is left to the kernel.
    assert AttentionRequest.make(q, k, v, pattern=CAUSAL, scale=0.3).q is q


@pytest.mark.parametrize("value", ["no", 1, None], ids=repr)
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_sharing_of_key_heads_is_true_or_false(form: Callable[..., Any], value: Any) -> None:
    with pytest.raises(ShapeError, match=f"^attention: enable_gqa is {value!r}, expected True or False.$"):
        form(*operands(), enable_gqa=value)
