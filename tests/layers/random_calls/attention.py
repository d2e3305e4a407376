"""Random calls of the attention functions: all at once, packed, and decoded in chunks."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from tests.layers.random_calls.call import Call, Leaves
from tests.layers.random_calls.draw import Draw, Operand, spoiled
from torch import Tensor

from porism.layers import (
    Pattern,
    hybrid_attention,
    hybrid_decode,
    softmax_attention,
    softmax_decode,
    taylor_attention,
    taylor_decode,
    window_attention,
    window_decode,
)
from porism.layers.attention.auto import attention
from porism.layers.attention.hybrid import naive as hybrid_naive
from porism.layers.attention.softmax import naive as softmax_naive
from porism.layers.attention.taylor import naive as taylor_naive

Settings = dict[str, Any]
FULL, CAUSAL = Pattern(), Pattern("causal")
CHANGEABLE = ("taylor", "hybrid")
"""Whose answers may be changed in place. Behind softmax, as behind the function of torch, autograd refuses it, and so
it does behind windows that reach over the whole text."""


def full_call(draw: Draw) -> Call:
    """One pass over a batch."""
    method = draw.one_of("softmax", "window", "taylor", "hybrid", "dense-softmax", "dense-taylor", "auto")
    dtype = draw.dtype()
    B, G, shared = draw.one_of(0, 1, 1, 2, 3), draw.one_of(1, 1, 2), draw.one_of(1, 1, 2)
    T = draw.one_of(0, 1, 2, 3, 7, 13, 40, 70)
    S = T if draw.happens(0.6) else draw.one_of(0, 1, 2, 5, 11, 33)
    D = draw.one_of(1, 2, 3, 5, 8)
    H = D if draw.happens(0.5) else draw.one_of(1, 2, 4, 7)
    settings = _settings(draw, method)
    operands = _operands(draw, B, G, shared, T, S, D, H, dtype)
    if draw.happens(0.4):
        settings["key_padding_mask"] = draw.bools(draw.one_of(0.2, 0.9, 1.0), B, S)
    if draw.happens(0.4):
        settings["offset"] = draw.whole(-5, 45)
    if B == 1 and S == T > 0 and "key_padding_mask" not in settings and "offset" not in settings and draw.happens(0.5):
        settings["cu_seqlens"] = _borders(draw, T)
    return _made(draw, method, operands, settings, dtype, _attend(method), _oracle(method))


def decode_call(draw: Draw) -> Call:
    """The same text in chunks, some of them empty, each continuing from the state after the one before."""
    method = draw.one_of("softmax", "window", "taylor", "hybrid")
    dtype = draw.dtype()
    B, G, shared, T = draw.whole(1, 2), draw.one_of(1, 2), draw.one_of(1, 2), draw.one_of(1, 2, 7, 13, 40)
    D, H = draw.one_of(1, 3, 8), draw.one_of(1, 4, 8)
    settings = _settings(draw, method)
    settings["pattern"] = _decodable(draw, method)
    operands = _operands(draw, B, G, shared, T, T, D, H, dtype)
    if draw.happens(0.4):
        settings["key_padding_mask"] = draw.bools(draw.one_of(0.2, 0.9, 1.0), B, T)
    cuts = sorted(draw.whole(0, T) for _ in range(draw.whole(0, 4)))

    def ours(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Tensor:
        padding, state, answers = options.pop("key_padding_mask", None), None, []
        for start, end in pairwise([0, *cuts, T]):
            pads = None if padding is None else padding[:, start:end]
            chunk = [x[:, :, start:end] for x in (q, k, v)]
            answer, state = DECODE[method](*chunk, state, key_padding_mask=pads, **_allowed(method, options))
            answers.append(answer)
        return torch.cat(answers, 2)

    def oracle(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Tensor:
        return _oracle(method)(q, k, v, **options)

    return _made(draw, method + " decode", operands, settings, dtype, ours, oracle, spoil=False)


DECODE: dict[str, Callable[..., tuple[Tensor, Any]]] = {
    "softmax": softmax_decode,
    "window": window_decode,
    "taylor": taylor_decode,
    "hybrid": hybrid_decode,
}


def _made(
    draw: Draw,
    name: str,
    operands: dict[str, Operand],
    settings: Settings,
    dtype: torch.dtype,
    ours: Callable[..., Tensor],
    oracle: Callable[..., Tensor],
    spoil: bool = True,
) -> Call:
    leaves = {name: operand.leaf for name, operand in operands.items()}
    size = 1.0
    if draw.happens(0.15):
        leaves["scale"] = draw.normal().to(dtype).double()
        size = abs(float(leaves["scale"]))
    elif draw.happens(0.4):
        settings["scale"] = draw.one_of(2.0, -0.5, 0.0, 0, 5.0)
        size = abs(settings["scale"])
    # The features of a series are sums of products that may cancel: they are of the size of (|q| |k|)^order.
    pairs = size * float(
        max(
            (leaves["q"].abs().max() * leaves["k"].abs().max() * operands["q"].leaf.shape[-1]).item()
            if min(leaves["q"].numel(), leaves["k"].numel())
            else 0.0,
            1.0,
        )
    )
    terms = (1 + pairs) ** settings.get("order", 0) if "order" in settings else 1 + pairs
    mistake = _mistake(draw, operands, settings) if spoil and draw.happens(0.2) else None
    about = ", ".join(
        [f"{name} {tuple(o.leaf.shape)} {o.layout}" for name, o in operands.items()]
        + [f"{key}={_short(value)}" for key, value in settings.items()]
        + ([f"mistake: {mistake[0]}"] if mistake else [])
    )

    def call_ours(given: Leaves) -> Tensor:
        views: dict[str, Any] = {name: operand.view(given[name]) for name, operand in operands.items()}
        options = dict(settings)
        if "scale" in given:
            options["scale"] = given["scale"]
        if mistake is not None:
            mistake[1](views, options)
        return ours(*views.values(), **options)

    def call_oracle(given: Leaves) -> Tensor:
        views = {name: operand.view(given[name]) for name, operand in operands.items()}
        options = dict(settings)
        q, k, v = views.values()
        if "scale" in given:
            q, options["scale"] = q * given["scale"], 1.0
        return oracle(q, k, v, **options)

    autocast = mistake is None and dtype in (torch.float32, torch.float64) and draw.happens(0.1)
    B, A, T = (operands["q"].view(leaves["q"]).shape)[:3]
    gradient = draw.operand((B, A, T, operands["v"].view(leaves["v"]).shape[3]), torch.bfloat16)
    in_place = draw.happens(0.1) and name.split()[0] in CHANGEABLE
    return Call(
        name, about, leaves, dtype, call_ours, call_oracle, mistake is not None, terms, in_place,
        lambda x: gradient.view(gradient.leaf.to(x.dtype)), autocast,
    )  # fmt: skip


def _operands(
    draw: Draw, B: int, G: int, shared: int, T: int, S: int, D: int, H: int, dtype: torch.dtype
) -> dict[str, Operand]:
    size = draw.one_of(1.0, 1.0, 3.0)
    shapes = {"q": (B, G * shared, T, D), "k": (B, G, S, D), "v": (B, G, S, H)}
    return {name: draw.operand(shape, dtype, size if name != "v" else 1.0) for name, shape in shapes.items()}


def _settings(draw: Draw, method: str) -> Settings:
    window, whole = draw.one_of(1, 2, 3, 5, 16, 64), draw.happens(0.5)
    sliding = Pattern(
        "sliding", window_size=window, lookahead=draw.one_of(0, 0, 1, 4), dilation=draw.one_of(1, 1, 2, 3)
    )
    block = Pattern("block", window_size=window, is_causal=whole)
    chunked = Pattern("block-causal", window_size=window)
    match method:
        case "softmax" | "dense-softmax":
            return {"pattern": draw.one_of(FULL, CAUSAL, sliding, block, chunked)}
        case "auto":
            return {"pattern": draw.one_of(FULL, CAUSAL, sliding, block)}
        case "window":
            return {"pattern": draw.one_of(sliding, block)}
        case "hybrid":
            return {"pattern": draw.one_of(FULL, CAUSAL), "window_size": window, "order": draw.one_of(2, 2, 4)}
        case _:
            return {"pattern": draw.one_of(FULL, CAUSAL, chunked), "order": draw.one_of(2, 2, 4)}


def _decodable(draw: Draw, method: str) -> Pattern:
    window = draw.one_of(1, 2, 3, 5, 16)
    sliding = Pattern("sliding", window_size=window, dilation=draw.one_of(1, 2))
    block = Pattern("block", window_size=window, is_causal=True)
    return (
        draw.one_of(sliding, block)
        if method == "window"
        else draw.one_of(CAUSAL, sliding, block)
        if method == "softmax"
        else CAUSAL
    )


def _allowed(method: str, options: Settings) -> Settings:
    """The series decodes causally, and is not told so."""
    return {key: value for key, value in options.items() if (method, key) != ("taylor", "pattern")}


def _borders(draw: Draw, T: int) -> list[int]:
    return [0, *sorted(draw.whole(0, T) for _ in range(draw.whole(0, 3))), T]


def _attend(method: str) -> Callable[..., Tensor]:
    functions: dict[str, Callable[..., Tensor]] = {
        "softmax": softmax_attention,
        "window": window_attention,
        "taylor": taylor_attention,
        "hybrid": hybrid_attention,
    }
    if method in functions:
        return functions[method]

    def named(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Tensor:
        packed = "cu_seqlens" in options
        return attention(
            q,
            k,
            v,
            mechanism="softmax"
            if packed and method == "dense-softmax"
            else "taylor"
            if packed and method == "dense-taylor"
            else method,
            **options,
        )

    return named


def _oracle(method: str) -> Callable[..., Tensor]:
    one: Callable[..., Tensor]
    if method in ("taylor", "dense-taylor"):
        one = taylor_naive.taylor_attention
    elif method == "hybrid":
        one = hybrid_naive.hybrid_attention
    else:
        one = _softmax

    def attend(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Tensor:
        borders = options.pop("cu_seqlens", None)
        if k.shape[2] == 0:
            return q.new_zeros(*q.shape[:3], v.shape[3]) + 0 * (q.sum() + k.sum() + v.sum())
        if borders is None:
            return one(q, k, v, **options)
        texts = [tuple(x[:, :, start:end] for x in (q, k, v)) for start, end in pairwise(borders)]
        return torch.cat([attend(*text, **options) for text in texts], 2)

    return attend


def _softmax(
    q: Tensor, k: Tensor, v: Tensor, pattern: Pattern, key_padding_mask: Tensor | None = None, offset: int = 0,
    scale: float | None = None,
) -> Tensor:  # fmt: skip
    seen = softmax_naive.looked_at(pattern, q, k, key_padding_mask, offset)
    return softmax_naive.softmax_attention(q, k, v, seen, scale)


def _mistake(
    draw: Draw, operands: dict[str, Operand], settings: Settings
) -> tuple[str, Callable[[dict[str, Any], Settings], None]]:
    """One thing that is wrong with a call, as a change of its operands and settings."""
    name = draw.one_of("q", "k", "v")
    B, S = operands["k"].view(operands["k"].leaf).shape[::2]
    choices: dict[str, Any] = {
        "offset": draw.one_of(1.5, True, "1", 10**30, float("nan"), torch.tensor(1)),
        "scale": draw.one_of(float("nan"), float("inf"), "1", torch.ones(2), torch.tensor(1), True),
        "key_padding_mask": draw.one_of(
            torch.zeros(B, S, dtype=torch.int64),
            torch.zeros(B, S, dtype=torch.uint8),
            torch.zeros(B, S, dtype=torch.complex64),
            torch.zeros(B + 1, S, dtype=torch.bool),
            torch.zeros(B, S, dtype=torch.bool, device="meta"),
            [[False] * S] * B,
        ),
        "cu_seqlens": draw.one_of([0, 0.5, S], [0, S + 1], [1, S], [0], [S, 0, S], torch.tensor([0.0, 1.5])),
        "dropout_p": draw.one_of(-0.1, 1.0, float("nan"), "0.1"),
        "pattern": draw.one_of("causal", [], 3),
    }
    if draw.happens(0.5):
        spoil, _ = spoiled(Draw(draw.whole(0, 10**6)), torch.zeros(1))
        seed = draw.whole(0, 10**6)

        def change(views: dict[str, Any], options: Settings) -> None:
            views[name] = spoiled(Draw(seed), views[name])[1]

        spoil, _ = spoiled(Draw(seed), torch.zeros(1, 1))
        return f"{name}: {spoil}", change
    key = draw.random.choice(sorted(choices))

    def set_option(views: dict[str, Any], options: Settings) -> None:
        options[key] = choices[key]

    return f"{key}={_short(choices[key])}", set_option


def _short(value: Any) -> str:
    return f"{tuple(value.shape)} {value.dtype} {value.device}" if isinstance(value, Tensor) else repr(value)
