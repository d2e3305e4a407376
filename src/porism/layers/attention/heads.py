"""What every attention layer shares: projections into heads and back, called as torch.nn.MultiheadAttention is."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, normalize

from porism.errors import ShapeError
from porism.layers.attention.decay import DecayGate
from porism.layers.attention.masks import check_mask, is_causal_mask, is_finite, is_looked_at, padding_of
from porism.layers.attention.method import Method
from porism.layers.attention.pattern import FULL, Pattern
from porism.layers.attention.request import AttentionRequest, check_scale
from porism.layers.operands import check_dropout, check_operands, check_whole, has_values


class Heads(nn.Module):
    """Queries, keys and values in heads, and the way back. A layer that derives from it has the method that attends.

    o = attend(x W_Q, x W_K, x W_V) W_O

    >>> layer = Attention(512, 8, batch_first=True)                 # or WindowAttention, TaylorAttention, ...
    >>> y, _ = layer(torch.randn(2, 100, 512))                      # B T A*D -> B T A*D
    >>> layer.load_state_dict(nn.MultiheadAttention(512, 8).state_dict())
    <All keys matched successfully>

    It is called as `torch.nn.MultiheadAttention` is, has the same parameters, and starts from the same weights. It
    differs where that one cannot be followed or should not be: `key` and `value` may be left out, `need_weights` is off
    unless requested, `is_causal` needs no mask beside it, and a query that attends to no key gives 0 instead of NaN.

    A mask beside `is_causal` holds as well. If it is the causal one, as nn.TransformerEncoder gives it, it is left out,
    since kernels know that limit by name. Only a CPU can tell without waiting: on a GPU, and where the layer is
    compiled, both hold, in the time that a mask takes. Leave it out there.

    - `add_bias_kv`, `add_zero_attn`: a learned key and value, and zeros, that every query attends to as well; these two
      need all pairs, so that only `Attention` takes them
    - `num_kv_heads`: fewer key and value heads than query heads, each shared by several
    - `head_dim`, `v_head_dim`: widths of a head's keys and values; embed_dim / num_heads by default
    - `out_proj=False`: no W_O; the heads side by side, num_heads * v_head_dim wide, are the answer
    - `scale`: what logits are multiplied by; 1 / sqrt(head_dim) by default. An nn.Parameter is learned
    - `qk_norm`: q and k are divided by their L2 norms, and a learned temperature for each head takes the place of the
      scale. It starts at sqrt(head_dim), where the logits of random vectors deviate by 1, as they do without it.

    Shapes: query (T, B, embed_dim), key (S, B, kdim), value (S, B, vdim) -> (T, B, embed_dim); batch_first swaps the
    first two, and the batch may be missing. Masks are those of nn.MultiheadAttention: True is left out.
    """

    # nn.TransformerEncoderLayer takes the weights past the layer if this says they are those of plain attention.
    _qkv_same_embed_dim = False

    method: ClassVar[Method]
    takes_attn_mask: ClassVar[bool] = False
    """Whether the method may hold all pairs, so that a mask of them can be followed."""

    pattern: Pattern = FULL
    order: int | None = None
    window_size: int | None = None
    feature_map: str | None = None
    gate: DecayGate | None

    q_proj_weight: nn.Parameter
    k_proj_weight: nn.Parameter
    v_proj_weight: nn.Parameter
    bias_k: nn.Parameter | None
    bias_v: nn.Parameter | None

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        num_kv_heads: int | None = None,
        head_dim: int | None = None,
        v_head_dim: int | None = None,
        out_proj: bool = True,
        scale: float | Tensor | None = None,
        qk_norm: bool = False,
    ) -> None:
        super().__init__()
        _check_sizes(
            embed_dim=embed_dim,
            num_heads=num_heads,
            kdim=kdim,
            vdim=vdim,
            num_kv_heads=num_kv_heads,
            head_dim=head_dim,
            v_head_dim=v_head_dim,
        )
        check_dropout("attention", "dropout", dropout)
        check_scale("attention", scale)
        flags = {"bias": bias, "add_bias_kv": add_bias_kv, "add_zero_attn": add_zero_attn, "batch_first": batch_first}
        for name, flag in (flags | {"out_proj": out_proj, "qk_norm": qk_norm}).items():
            if not isinstance(flag, bool):
                raise ShapeError(f"attention: {name} is {flag!r}. Give True or False.")
        if qk_norm and scale is not None:
            raise ShapeError(
                f"attention: qk_norm has a learned temperature, and scale is {scale}. Leave out one of the two."
            )
        self.embed_dim = int(embed_dim)
        self.num_heads = int(num_heads)
        self.dropout = float(dropout)
        self.kdim = int(embed_dim if kdim is None else kdim)
        self.vdim = int(embed_dim if vdim is None else vdim)
        self.batch_first = batch_first
        self.add_zero_attn = add_zero_attn
        self.num_kv_heads = int(num_heads if num_kv_heads is None else num_kv_heads)
        self.head_dim = int(embed_dim // num_heads if head_dim is None else head_dim)
        self.v_head_dim = int(embed_dim // num_heads if v_head_dim is None else v_head_dim)
        A, G, D, H = self.num_heads, self.num_kv_heads, self.head_dim, self.v_head_dim
        self._widths = A * D, G * D, G * H

        def parameter(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(shape, device=device, dtype=dtype))

        if self.kdim == self.vdim == self.embed_dim:
            self.in_proj_weight = parameter(sum(self._widths), self.embed_dim)
        else:
            for name, out, width in zip("qkv", self._widths, (self.embed_dim, self.kdim, self.vdim), strict=True):
                self.register_parameter(f"{name}_proj_weight", parameter(out, width))
        self.in_proj_bias = parameter(sum(self._widths)) if bias else None
        self.temperature = parameter(A) if qk_norm else None
        self.out_proj = nn.Linear(A * H, self.embed_dim, bias, device, dtype) if out_proj else None
        self.bias_k = parameter(1, 1, G * D) if add_bias_kv else None
        self.bias_v = parameter(1, 1, G * H) if add_bias_kv else None
        self._set_scale(1.0 if qk_norm else scale)
        self.gate = None
        self.reset_parameters()

    def _set_scale(self, scale: float | Tensor | None) -> None:
        self.scale: float | Tensor | None
        if not isinstance(scale, Tensor):
            self.scale = scale
            return
        like = next(self.parameters())
        if scale.device != like.device:
            raise ShapeError(
                f"attention: scale is on {scale.device}, the weights on {like.device}, expected one device. "
                f"Move it with scale.to({str(like.device)!r})."
            )
        if has_values(scale) and not scale.isfinite().all():
            raise ShapeError(f"attention: scale is a tensor of {scale.item()}, expected a finite number.")
        if isinstance(scale, nn.Parameter):
            self.scale = scale
        else:
            # It goes with the layer to other devices, and is no part of what the layer learned.
            self.register_buffer("scale", scale, persistent=False)

    def reset_parameters(self) -> None:
        """As nn.MultiheadAttention: Glorot-uniform weights, zero biases. W_O has its own way, that of nn.Linear."""
        for name, weight in self.named_parameters(recurse=False):
            if name.endswith("proj_weight"):
                nn.init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            nn.init.zeros_(self.in_proj_bias)
        if self.out_proj is not None and self.out_proj.bias is not None:
            nn.init.zeros_(self.out_proj.bias)
        for added in (self.bias_k, self.bias_v):
            if added is not None:
                nn.init.xavier_normal_(added)
        if self.temperature is not None:
            nn.init.constant_(self.temperature, self.head_dim**0.5)

    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = False,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
        *,
        cu_seqlens: Sequence[int] | Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """The answer, and None or the weights (B, T, S), those of every head unless averaged: (B, A, T, S)."""
        key = query if key is None else key
        value = key if value is None else value
        self._check_inputs(query, key, value)
        unbatched = query.dim() == 2
        lost, finite = None, False
        if key_padding_mask is None:
            q, k, v = self._heads(self._products(query, key, value))
        else:
            key_padding_mask = self._padding(key_padding_mask, key)
            q, k, v, lost, finite = self._padded_heads(query, key, value, key_padding_mask)
        if attn_mask is not None:
            attn_mask = self._heads_mask(attn_mask, q, k, is_causal)
        if need_weights and cu_seqlens is not None:
            raise ShapeError("attention: cu_seqlens came with need_weights. Pad the sequences with key_padding_mask.")
        padding = {"key_padding_mask": key_padding_mask, "pads_are_finite": finite}
        log_decay = None if self.gate is None else self.gate(key, key_padding_mask)
        options = {"cu_seqlens": cu_seqlens, "log_decay": log_decay, **padding}
        request = self._request(q, k, v, attn_mask, is_causal, **options)
        self.observe(request)
        weights = None
        if need_weights:
            heads, weights = self.attend_with_weights(request)
            if lost is not None:
                weights = weights.masked_fill(self._split(lost, 1), torch.nan)
            weights = (weights.mean(1) if average_attn_weights else weights).to(query.dtype)
            weights = weights.squeeze(0) if unbatched else weights
        else:
            heads = self.method.attend(request)
        output = self._join(heads, unbatched)
        return output if lost is None else output.masked_fill(lost, torch.nan), weights

    if TYPE_CHECKING:
        __call__ = forward

    def decode(self, input: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        """New tokens that continue a text, and the state after those before: the answer equals the causal pass.

        >>> state = None
        >>> for token in torch.randn(10, 1, 1, 512):                # T B A*D, one at a time
        ...     y, state = layer.decode(token, state)
        """
        self._check_inputs(input, input, input)
        q, k, v = self._heads(self._products(input, input, input))
        log_decay = None if self.gate is None else self.gate(input)
        request = self._request(q, k, v, None, True, log_decay=log_decay, decoding=True)
        heads, state = self.method.decode(request, self.initial_state(request) if state is None else state)
        return self._join(heads, unbatched=input.dim() == 2), state

    def observe(self, request: AttentionRequest) -> None:
        """Sees each request of a whole pass before it is answered. A layer may measure it; here nothing is done."""

    def initial_state(self, request: AttentionRequest) -> Any:
        """What decoding starts from, before any token; None for none."""
        return None

    def attend_with_weights(self, request: AttentionRequest) -> tuple[Tensor, Tensor]:
        """The answer (B, A, T, H), and all weights (B, A, T, S)."""
        raise self._no_pairs("need_weights=True")

    def _request(
        self, q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None, is_causal: bool, **options: Any
    ) -> AttentionRequest:
        return AttentionRequest.make(
            q,
            k,
            v,
            attn_mask,
            self.dropout if self.training else 0.0,
            is_causal,
            scale=self.scale,
            pattern=self.pattern,
            order=self.order,
            window_size=self.window_size,
            feature_map=self.feature_map,
            **options,
        )

    def _heads_mask(self, mask: Tensor, q: Tensor, k: Tensor, is_causal: bool) -> Tensor | None:
        """nn.MultiheadAttention's mask, True is left out, as scaled_dot_product_attention takes it, True attends.

        None where it says no more than `is_causal` does.
        """
        check_mask("attention", "attn_mask", mask, q)
        (B, A, T, _), S = q.shape, k.shape[2]
        if tuple(mask.shape) not in ((T, S), (B * A, T, S)):
            raise ShapeError(
                f"attention: attn_mask is {tuple(mask.shape)}, expected {(T, S)} for all or {(B * A, T, S)} for each "
                "head. Give a row for each query and a column for each key."
            )
        if is_causal and has_values(mask) and is_causal_mask(mask):
            return None
        if not self.takes_attn_mask:
            if not is_causal or has_values(mask):
                raise self._no_pairs("attn_mask, which is not the causal one," if is_causal else "attn_mask")
            # It may be the causal one, as nn.TransformerEncoderLayer gives it. The check runs with the kernels.
            torch._assert_async(is_causal_mask(mask), "attention: attn_mask came beside is_causal and is another.")
            return None
        mask = ~mask if mask.dtype == torch.bool else mask
        per_head: Tensor = mask if mask.dim() == 2 else mask.unflatten(0, (B, A))
        return per_head

    def _no_pairs(self, what: str) -> ShapeError:
        return ShapeError(
            f"attention: {type(self).__name__} never holds all pairs, and {what} asks for them. "
            "Leave it out, or take Attention."
        )

    def _padding(self, mask: Tensor, key: Tensor) -> Tensor:
        """key_padding_mask of a batch, (B, S) of bool, True for a pad."""
        if key.dim() == 2:
            return padding_of("attention", _batch_of_one(mask), 1, key.shape[0], key)
        B, S = key.shape[:2] if self.batch_first else key.shape[1::-1]
        return padding_of("attention", mask, B, S, key)

    def _padded_heads(
        self, query: Tensor, key: Tensor, value: Tensor, padding: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor | None, bool]:
        """Heads, the queries that `_without_padding` gives up, and whether all keys and values are known to be finite.

        A NaN or an infinity among the inputs makes its products so. Where these can be looked at they come first, and
        mostly nothing has to be replaced.
        """
        if is_looked_at(key):
            products = self._products(query, key, value)
            # One product holds the queries too.
            if all(is_finite(product) for product in products[-2:]):
                return *self._heads(products), None, True
        query, key, value, lost = self._without_padding(query, key, value, padding)
        return *self._heads(self._products(query, key, value)), lost, False

    def _without_padding(
        self, query: Tensor, key: Tensor, value: Tensor, padding: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """The inputs without the NaN and infinities of pads, which would reach the gradients of all weights.

        A gradient of 0 times NaN is NaN. Where queries, keys and values are one, pads are queries too, and keep their
        finite numbers. Of those that had others there is no answer: the last tensor, (B, T, 1), is True for them.
        """
        # (B, S) as the inputs have these sizes, with one more for the width.
        pads = padding.mT if query.dim() == 2 else (padding if self.batch_first else padding.mT).unsqueeze(-1)
        if query is key is value:
            lost = pads & ~query.isfinite().all(-1, keepdim=True)
            clean = query.masked_fill(lost, 0)
            return clean, clean, clean, lost
        keys = key.masked_fill(pads, 0)
        return query, keys, keys if value is key else value.masked_fill(pads, 0), None

    def _products(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        """The inputs by their weights: one product for all three where the inputs are one, else one for each."""
        if "in_proj_weight" in self._parameters and query is key and key is value:
            return (linear(query, self.in_proj_weight, self.in_proj_bias),)
        if "in_proj_weight" in self._parameters:
            weights = self.in_proj_weight.split(self._widths)
        else:
            weights = self.q_proj_weight, self.k_proj_weight, self.v_proj_weight
        biases = (None,) * 3 if self.in_proj_bias is None else self.in_proj_bias.split(self._widths)
        return tuple(linear(x, *parts) for x, *parts in zip((query, key, value), weights, biases, strict=True))

    def _heads(self, products: tuple[Tensor, ...]) -> tuple[Tensor, Tensor, Tensor]:
        """Products as heads: (B, A, T, D), (B, G, S, D), (B, G, S, H)."""
        q, k, v = products[0].split_with_sizes(self._widths, -1) if len(products) == 1 else products
        q, k, v = self._split(q, self.num_heads), self._split(k, self.num_kv_heads), self._split(v, self.num_kv_heads)
        if self.temperature is not None:
            # Under autocast the temperature is of a wider type than the products.
            q, k = (
                (normalize(q, dim=-1) * self.temperature[:, None, None]).to(v.dtype),
                normalize(k, dim=-1).to(v.dtype),
            )
        return q, k, v

    def _split(self, x: Tensor, heads: int) -> Tensor:
        """(B, T, A*D), (T, B, A*D) or (T, A*D) as (B, A, T, D)."""
        x = x.view(*x.shape[:-1], heads, x.shape[-1] // heads)
        if x.dim() == 3:
            return x.transpose(0, 1).unsqueeze(0)
        return x.transpose(1, 2) if self.batch_first else x.permute(1, 2, 0, 3)

    def _join(self, heads: Tensor, unbatched: bool) -> Tensor:
        """(B, A, T, H) as the input had its sizes, with W_O where there is one."""
        first = self.batch_first or unbatched
        x = (heads.transpose(1, 2) if first else heads.permute(2, 0, 1, 3)).flatten(-2)
        x = x.squeeze(0) if unbatched else x
        if self.out_proj is None:
            return x
        output: Tensor = self.out_proj(x)
        return output

    def _check_inputs(self, query: Tensor, key: Tensor, value: Tensor) -> None:
        others = {} if query is key is value else {"key": key, "value": value}
        check_operands("attention", query=query, **others, **self._weights())
        widths = {"query": self.embed_dim, "key": self.kdim, "value": self.vdim}
        order = "(B, T, width), batch_first," if self.batch_first else "(T, B, width)"
        for (name, width), x in zip(widths.items(), (query, key, value), strict=True):
            shape = tuple(x.shape)
            if len(shape) not in (2, 3) or len(shape) != query.dim():
                raise ShapeError(
                    f"attention: {name} is {shape}, {len(shape)} dimensions, expected {order} or (T, width) without a "
                    "batch, for query, key and value alike. Add the missing dimension with unsqueeze."
                )
            if shape[-1] != width:
                raise ShapeError(
                    f"attention: {name} is {shape}, width {shape[-1]}, expected width {width}. "
                    f"Build the layer for {shape[-1]}, or project {name} first."
                )
        batch = 0 if self.batch_first else 1
        if key.shape[:-1] != value.shape[:-1] or (query.dim() == 3 and query.shape[batch] != key.shape[batch]):
            raise ShapeError(
                f"attention: query is {tuple(query.shape)}, key {tuple(key.shape)} and value {tuple(value.shape)}, "
                "expected one batch, and a value for every key. Give those of the same texts."
            )

    def _weights(self) -> dict[str, Tensor | None]:
        """All that inputs are multiplied with. A scale and a temperature may be of another type."""
        weights: dict[str, Tensor | None] = {
            name: weight for name, weight in self._parameters.items() if name not in ("scale", "temperature")
        }
        if isinstance(self.out_proj, nn.Linear):
            weights |= {"out_proj.weight": self.out_proj.weight, "out_proj.bias": self.out_proj.bias}
        return weights

    def kernel(self) -> str:
        """Which code answers where the layer is now, at its precision: "triton" for a kernel of ours, else "torch"."""
        weight = next(weight for weight in self._weights().values() if weight is not None)
        return self.kernel_for(weight.new_empty(0, self.num_heads, 0, self.head_dim))

    def kernel_for(self, q: Tensor) -> str:
        """The same for queries like these, (B, A, T, D)."""
        return "torch"

    def extra_repr(self) -> str:
        options = ("dropout", "kdim", "vdim", "batch_first", "num_kv_heads", "head_dim", "v_head_dim")
        settings = [f"{option}={getattr(self, option)!r}" for option in options]
        scale = type(self.scale).__name__ if isinstance(self.scale, Tensor) else repr(self.scale)
        settings.append(f"scale={scale}")
        settings.append(f"kernel={self.kernel()!r}")
        return ", ".join([str(self.embed_dim), str(self.num_heads), *settings])


def _batch_of_one(mask: Tensor) -> Tensor:
    return mask.unsqueeze(0) if isinstance(mask, Tensor) and not mask.is_nested else mask


def refuse_added_keys(layer: str, add_bias_kv: bool, add_zero_attn: bool) -> None:
    """Refuses the two options that only `Attention` has."""
    for name, flag in (("add_bias_kv", add_bias_kv), ("add_zero_attn", add_zero_attn)):
        if flag:
            raise ShapeError(
                f"attention: {layer} has no place for a key that every query attends to, and {name} is {flag!r}. "
                "Leave it out, or take Attention."
            )


def divisors(number: int) -> list[int]:
    """Every number that divides it, from 1 up."""
    small = [part for part in range(1, math.isqrt(number) + 1) if number % part == 0]
    return sorted({*small, *(number // part for part in small)})


def _check_sizes(**sizes: int | None) -> None:
    for name, size in sizes.items():
        if size is not None or name in ("embed_dim", "num_heads"):
            check_whole("attention", name, size)
    width, A, G = sizes["embed_dim"], sizes["num_heads"], sizes["num_kv_heads"]
    assert width is not None
    assert A is not None
    if width % A and (sizes["head_dim"] is None or sizes["v_head_dim"] is None):
        raise ShapeError(
            f"attention: embed_dim {width} is not divisible by num_heads {A}. "
            f"Choose num_heads from {', '.join(map(str, divisors(width)))}, or give head_dim and v_head_dim."
        )
    if G is not None and A % G:
        raise ShapeError(
            f"attention: {A} query heads do not share {G} key heads evenly. Choose num_kv_heads from {divisors(A)}."
        )
