"""Random calls of the attention layers, as nn.MultiheadAttention is called."""

import warnings
from typing import Any

import torch
from tests.layers.random_calls.attention import CAUSAL, CHANGEABLE, FULL
from tests.layers.random_calls.call import Call, Leaves
from tests.layers.random_calls.draw import Draw, spoiled
from torch import Tensor, nn
from torch.nn.functional import linear

from porism.layers import Attention, HybridAttention, Pattern, TaylorAttention, WindowAttention
from porism.layers.attention.heads import Heads
from porism.layers.attention.hybrid import naive as hybrid_naive
from porism.layers.attention.softmax import naive as softmax_naive
from porism.layers.attention.taylor import naive as taylor_naive

KINDS = ("softmax", "window", "taylor", "hybrid")


def layer_call(draw: Draw) -> Call:
    kind, dtype = draw.one_of(*KINDS), draw.dtype()
    layer = _layer(draw, kind, dtype)
    B, T = draw.one_of(0, 1, 2, 3), draw.one_of(0, 1, 2, 7, 20)
    S = T if draw.happens(0.5) else draw.one_of(1, 2, 5, 11)
    unbatched, itself = draw.happens(0.15), draw.happens(0.5) and layer.kdim == layer.vdim == layer.embed_dim

    def shape(length: int, width: int) -> tuple[int, ...]:
        if unbatched:
            return length, width
        return (B, length, width) if layer.batch_first else (length, B, width)

    batch, S = 1 if unbatched else B, T if itself else S
    operands = {"query": draw.operand(shape(T, layer.embed_dim), dtype)}
    if not itself:
        operands["key"] = draw.operand(shape(S, layer.kdim), dtype)
        operands["value"] = draw.operand(shape(S, layer.vdim), dtype)
    options: dict[str, Any] = {"is_causal": draw.happens(0.3)}
    looks_ahead = layer.pattern.kind != "full" and not layer.pattern.is_decodable
    seen = torch.ones(batch, 1, T, S, dtype=torch.bool, device=draw.device)
    added: Tensor | None = None
    if draw.happens(0.4):
        padding = draw.bools(draw.one_of(0.2, 0.9), batch, S)
        seen = seen & ~padding[:, None, None]
        shown = padding if draw.happens(0.5) else torch.where(padding, -torch.inf, 0.0).to(dtype)
        options["key_padding_mask"] = shown[0] if unbatched else shown
    if kind == "softmax" and draw.happens(0.4):
        shape_ = (T, S) if draw.happens(0.5) else (batch * layer.num_heads, T, S)
        mask = draw.bools(0.3, *shape_)
        fitted = mask if len(shape_) == 2 else mask.view(batch, layer.num_heads, T, S)
        if draw.happens(0.5):
            options["attn_mask"] = mask
            seen = seen & ~fitted
        else:
            numbers = draw.normal(*shape_).to(dtype)
            options["attn_mask"] = numbers
            added = numbers.double().view(fitted.shape)
    if kind == "softmax":
        options["need_weights"] = draw.happens(0.3)
    leaves = {name: operand.leaf for name, operand in operands.items()}
    parameters = {name: parameter.detach().double() for name, parameter in layer.named_parameters()}
    mistake = _mistake(draw, T, S, batch) if draw.happens(0.15) else None

    def ours(given: Leaves) -> Tensor:
        views: dict[str, Any] = {name: operand.view(given[name]) for name, operand in operands.items()}
        asked = dict(options)
        if mistake is not None:
            mistake[1](views, asked)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            answer: Tensor
            answer, _ = torch.func.functional_call(
                layer, {name: given[name] for name in parameters}, tuple(views.values()), asked
            )
        return answer

    def oracle(given: Leaves) -> Tensor:
        views = [operand.view(given[name]) for name, operand in operands.items()]
        query, key, value = views * 3 if itself else views
        return _by_hand(layer, kind, given, query, key, value, seen, added, options["is_causal"])

    about = ", ".join(
        [repr(layer)]
        + [f"{name} {tuple(o.leaf.shape)} {o.layout}" for name, o in operands.items()]
        + [f"{name}={value.dtype if isinstance(value, Tensor) else value}" for name, value in options.items()]
        + ([f"mistake: {mistake[0]}"] if mistake else [])
    )
    autocast = mistake is None and dtype in (torch.float32, torch.float64) and draw.happens(0.15)
    refused = mistake is not None or (looks_ahead and options["is_causal"])
    return Call(
        f"{kind} layer", about, leaves | parameters, dtype, ours, oracle, refused, terms=16.0,
        autocast=autocast, in_place=draw.happens(0.1) and kind in CHANGEABLE,
    )  # fmt: skip


def _layer(draw: Draw, kind: str, dtype: torch.dtype) -> Heads:
    A = draw.one_of(1, 2, 3)
    embed_dim = A * draw.one_of(1, 2, 4)
    options: dict[str, Any] = {
        "bias": draw.happens(0.7),
        "batch_first": draw.happens(0.5),
        "num_kv_heads": draw.one_of(None, 1),
        "head_dim": draw.one_of(None, 3),
        "v_head_dim": draw.one_of(None, 5),
        "kdim": draw.one_of(None, None, 4),
        "vdim": draw.one_of(None, None, 3),
        "out_proj": draw.happens(0.8),
        "scale": draw.one_of(None, None, 0.7, -0.5, 0.0),
        "dtype": dtype,
        "device": draw.device,
    }
    if draw.happens(0.15):
        options["scale"] = nn.Parameter(torch.tensor(0.6, dtype=dtype, device=draw.device))
    window = draw.one_of(1, 2, 3, 8)
    match kind:
        case "softmax":
            layer: Heads = Attention(embed_dim, A, **options)
        case "window":
            form: dict[str, Any] = draw.one_of(
                {"lookahead": 1}, {}, {"dilation": 2}, {"kind": "block"}, {"kind": "block", "is_causal": True}
            )
            near = Pattern(**{"kind": "sliding", "window_size": window, **form})
            layer = WindowAttention(embed_dim, A, pattern=near, **options)
        case "taylor":
            pattern = draw.one_of(FULL, CAUSAL)
            layer = TaylorAttention(embed_dim, A, pattern=pattern, warn_above=None, **options)
        case _:
            layer = HybridAttention(embed_dim, A, window_size=window, pattern=draw.one_of(FULL, CAUSAL), **options)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(draw.normal(*parameter.shape) * 0.5)
    return layer


def _by_hand(
    layer: Heads,
    kind: str,
    weights: Leaves,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    seen: Tensor,
    added: Tensor | None,
    is_causal: bool,
) -> Tensor:
    """The layer's answer from its parameters, pair by pair."""
    unbatched = query.dim() == 2
    if unbatched:
        query, key, value = (x[None] for x in (query, key, value))
    elif not layer.batch_first:
        query, key, value = (x.transpose(0, 1) for x in (query, key, value))
    A, G = layer.num_heads, layer.num_kv_heads
    widths = A * layer.head_dim, G * layer.head_dim, G * layer.v_head_dim
    if "in_proj_weight" in weights:
        projections = weights["in_proj_weight"].split(widths)
    else:
        projections = tuple(weights[f"{name}_proj_weight"] for name in "qkv")
    biases = weights["in_proj_bias"].split(widths) if "in_proj_bias" in weights else (None,) * 3
    q, k, v = (
        linear(x, weight, bias).unflatten(-1, (heads, -1)).transpose(1, 2)
        for x, weight, bias, heads in zip((query, key, value), projections, biases, (A, G, G), strict=True)
    )
    scale: Any = weights.get("scale", layer.scale)
    if isinstance(scale, Tensor):
        q, scale = q * scale, 1.0
    heads = _attend(layer, kind, q, k, v, seen, added, is_causal, scale)
    joined = heads.transpose(1, 2).flatten(-2)
    if layer.out_proj is not None:
        joined = linear(joined, weights["out_proj.weight"], weights.get("out_proj.bias"))
    if unbatched:
        return joined[0]
    return joined if layer.batch_first else joined.transpose(0, 1)


def _attend(
    layer: Heads,
    kind: str,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    seen: Tensor,
    added: Tensor | None,
    is_causal: bool,
    scale: Any,
) -> Tensor:
    if k.shape[2] == 0:
        return q.new_zeros(*q.shape[:3], v.shape[3])
    padding = ~seen[:, 0, 0] if seen.shape[2] else seen.new_zeros(seen.shape[0], seen.shape[3])
    pattern = layer.pattern.causal() if is_causal else layer.pattern
    match kind:
        case "taylor":
            return taylor_naive.taylor_attention(q, k, v, pattern=pattern, scale=scale, key_padding_mask=padding)
        case "hybrid":
            window: int = layer.window_size  # type: ignore[assignment]
            return hybrid_naive.hybrid_attention(
                q, k, v, window_size=window, pattern=pattern, scale=scale, key_padding_mask=padding
            )
        case _:
            mask = seen & softmax_naive.looked_at(pattern, q, k)
    number = q.shape[-1] ** -0.5 if scale is None else scale
    keys, values = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    logits = number * (q @ keys.mT) + (0 if added is None else added)
    mask = mask.expand(logits.shape)
    weights = torch.softmax(logits.masked_fill(~mask, -torch.inf), -1).masked_fill(~mask, 0)
    return weights @ values


def _mistake(draw: Draw, T: int, S: int, batch: int) -> tuple[str, Any]:
    choices: dict[str, Any] = {
        "key_padding_mask": draw.one_of(
            torch.zeros(batch, S, dtype=torch.int64),
            torch.zeros(batch + 1, S, dtype=torch.bool),
            torch.zeros(batch, S, dtype=torch.bool, device="meta"),
        ),
        "attn_mask": draw.one_of(torch.zeros(T + 1, S), torch.zeros(T, S, dtype=torch.int64)),
    }
    if draw.happens(0.6):
        seed = draw.whole(0, 10**6)

        def change(views: dict[str, Any], options: dict[str, Any]) -> None:
            views["query"] = spoiled(Draw(seed), views["query"])[1]

        return f"query: {spoiled(Draw(seed), torch.zeros(1, 1))[0]}", change
    name = draw.random.choice(sorted(choices))

    def set_option(views: dict[str, Any], options: dict[str, Any]) -> None:
        options[name] = choices[name]

    return f"{name} {choices[name].dtype} {tuple(choices[name].shape)}", set_option
