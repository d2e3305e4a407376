"""One call of attention, checked once: queries, keys, values and everything that says how they attend."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from numbers import Real
from operator import index
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from porism.errors import ShapeError
from porism.layers.attention.masks import Mask, attention_mask, dense_mask, padding_of, without_padding
from porism.layers.attention.packed import pack, starts, unpack
from porism.layers.attention.pattern import FULL, Pattern
from porism.layers.autocast import autocast_dtype
from porism.layers.operands import FLOATS, MOST, check_dropout, check_operands, check_whole, readable

LEAST_SCALE = 2.0**-126
"""The smallest scale that is not rounded to 0 in float32."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AttentionRequest:
    """Operands that a kernel may read: one device, one floating dtype, dense along the width, autocast applied.

    >>> q, k, v = torch.randn(2, 8, 10, 64), torch.randn(2, 2, 10, 64), torch.randn(2, 2, 10, 32)
    >>> request = AttentionRequest.make(q, k, v, is_causal=True)
    >>> request.pattern.kind, request.scale
    ('causal', 0.125)

    `make` holds all checks; who takes a request makes none. The scale is above 0: a negative one, 0 and one that is a
    tensor are multiplied into the queries.
    """

    q: Tensor
    """(B, A, T, D)"""
    k: Tensor
    """(B, G, S, D), G divides A; finite for pads"""
    v: Tensor
    """(B, G, S, H); finite for pads"""
    pattern: Pattern
    scale: float
    key_padding_mask: Tensor | None
    """(B, S) of bool, True for a pad"""
    attn_mask: Tensor | None
    """(1 or B, 1 or A, 1 or T, 1 or S), True attends, numbers are added to the logits"""
    cu_seqlens: tuple[int, ...] | None
    """Where each packed sequence starts, and the end"""
    dropout_p: float
    offset: int
    """The position of the first query"""
    order: int | None
    """Of the series that may stand in for the exponential; None where all has to be exact"""
    window_size: int | None
    """The keys near a query for which the exponential has to be exact all the same"""
    feature_map: str | None
    log_decay: Tensor | None = None
    """(B, G, S), what the logarithm of a weight loses at a step, 0 for a pad; None where nothing decays"""

    @classmethod
    def make(
        cls,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        *,
        scale: float | Tensor | None = None,
        enable_gqa: bool = True,
        pattern: Pattern | None = None,
        key_padding_mask: Tensor | None = None,
        cu_seqlens: Sequence[int] | Tensor | None = None,
        offset: int = 0,
        order: int | None = None,
        window_size: int | None = None,
        feature_map: str | None = None,
        log_decay: Tensor | None = None,
        decoding: bool = False,
        pads_are_finite: bool = False,
        layer: str = "attention",
    ) -> Self:
        """The request, or a refusal that says what is wrong.

        Of a scale that is a tensor, such as a learned parameter, autograd gives the gradient. `decoding` asks for new
        tokens that continue a text: a pattern that attends to none after them, and a key for each. `pads_are_finite`
        says that keys and values have been looked at.
        """
        q, k, v = query, key, value
        if not _is_plain(q, k, v):
            check_operands(layer, query=q, key=k, value=v)
            if (chosen := autocast_dtype(q, k, v)) is not None:
                q, k, v = (x.to(chosen) for x in (q, k, v))
        _check_shapes(layer, query, key, value, enable_gqa)
        if pattern is None:
            pattern = FULL
        elif not isinstance(pattern, Pattern):
            raise ShapeError(f"{layer}: the pattern is {pattern!r}, expected a Pattern, such as Pattern('causal').")
        if is_causal is not False:
            pattern = _causal(layer, pattern, is_causal)
        if dropout_p != 0.0 or type(dropout_p) is not float:
            check_dropout(layer, "dropout_p", dropout_p)
        if offset != 0 or type(offset) is not int:
            check_whole(layer, "offset", offset, -MOST)
            # NumPy's numbers hold 64 bits, and sums of Python's hold any.
            offset = offset if isinstance(offset, (int, torch.SymInt)) else int(offset)
        if key_padding_mask is not None:
            key_padding_mask = padding_of(layer, key_padding_mask, k.shape[0], k.shape[2], k)
            if not pads_are_finite:
                k, v = without_padding(k, key_padding_mask), without_padding(v, key_padding_mask)
        if attn_mask is not None:
            attn_mask = attention_mask(layer, attn_mask, q, k)
        packed = None
        if cu_seqlens is not None:
            packed = tuple(starts(cu_seqlens, q.shape[2]))
            _check_packed(layer, q, k, key_padding_mask, attn_mask, offset)
        if decoding:
            _check_decoding(layer, q, k, pattern)
        if log_decay is not None:
            log_decay = _decay(layer, log_decay, q, k, pattern, offset, key_padding_mask)
        q, factor = _scaled(layer, q, scale)
        return cls(
            q=readable(q),
            k=readable(k),
            v=readable(v),
            pattern=pattern,
            scale=factor,
            key_padding_mask=key_padding_mask,
            attn_mask=attn_mask,
            cu_seqlens=packed,
            dropout_p=dropout_p,
            offset=offset,
            order=order,
            window_size=window_size,
            feature_map=feature_map,
            log_decay=log_decay,
        )

    def sizes(self) -> "RequestSizes":
        """What there is to know of the request without a look into its tensors."""
        # A size that the compiler holds for a variable becomes a constant by this.
        B, A, T, D = (index(size) for size in self.q.shape)
        S, H = index(self.k.shape[2]), index(self.v.shape[3])
        if self.cu_seqlens is not None:
            lengths = [end - start for start, end in pairwise(self.cu_seqlens)]
            B, T, S = len(lengths), max(lengths), max(lengths)
        packed = self.cu_seqlens is not None
        needs_gradient = self.q.requires_grad or self.k.requires_grad or self.v.requires_grad
        return RequestSizes(
            *(B, A, T, S, D, H),
            pattern=self.pattern,
            offset=index(self.offset),
            padded=self.key_padding_mask is not None or (packed and not self.pattern.is_decodable),
            packed=packed,
            attn_mask=self.attn_mask is not None,
            # As a branch, which is a constant of the compiler also where the number is a variable.
            dropout=True if self.dropout_p else False,  # noqa: SIM210
            backward=torch.is_grad_enabled() and needs_gradient,
            order=self.order,
            window_size=self.window_size,
            device=str(self.q.device),
            dtype=self.q.dtype,
            has_values=not (isinstance(self.q, FakeTensor) or self.q.is_meta),
        )

    def padded(self) -> tuple[Self, Callable[[Tensor], Tensor]]:
        """Packed sequences as the padded batch that they stand for, and the way back for its answer."""
        if self.cu_seqlens is None:
            return self, _unchanged
        borders = self.cu_seqlens
        (q, padding), (k, _), (v, _) = (unpack(x, borders) for x in (self.q, self.k, self.v))
        log_decay = None if self.log_decay is None else unpack(self.log_decay.unsqueeze(-1), borders)[0].squeeze(-1)
        batch = replace(self, q=q, k=k, v=v, key_padding_mask=padding, log_decay=log_decay, cu_seqlens=None)
        return batch, lambda answer: pack(answer, borders)

    def dense_mask(self) -> Mask | None:
        """All limits as one mask that fits (B, A, T, S); None where there are none."""
        return dense_mask(self.q, self.k, self.pattern, self.offset, self.key_padding_mask, self.attn_mask)


class RequestSizes(NamedTuple):
    """What decides how much work a request is: plain values, which a cache can take for its key.

    Of packed sequences B, T and S are those of the padded batch that they stand for.
    """

    B: int
    A: int
    T: int
    S: int
    D: int
    H: int
    pattern: Pattern = FULL
    offset: int = 0
    padded: bool = False
    """Whether keys may be padding."""
    packed: bool = False
    attn_mask: bool = False
    dropout: bool = False
    backward: bool = True
    """Whether a backward pass follows."""
    order: int | None = None
    window_size: int | None = None
    device: str = "cpu"
    dtype: torch.dtype = torch.float32
    has_values: bool = True
    """Whether tensors hold numbers, so that something can be measured; else they only stand in for others."""
    threads: int = 1

    @property
    def heads(self) -> int:
        """Of all texts together."""
        return self.B * self.A

    @property
    def is_limited(self) -> bool:
        """Whether some query may not attend to some key."""
        return self.padded or self.attn_mask or not self.pattern.attends_to_all(self.S, self.offset)

    @property
    def is_masked(self) -> bool:
        """Whether fused kernels need a dense mask. They know a causal limit by name, if it is alone."""
        alone = self.pattern.kind == "causal" and self.offset == 0 and not self.padded and not self.attn_mask
        return self.is_limited and not alone


def share(x: Tensor, A: int) -> Tensor:
    """Keys or values (B, G, S, D), each head repeated for the query heads that share it: (B, A, S, D)."""
    G = x.shape[1]
    return x if A == G else x.repeat_interleave(A // G, dim=1)


def scale_of(q: Tensor, scale: float | None) -> float:
    """The scale that was given, or 1 / sqrt(D) for queries (B, A, T, D)."""
    return float(q.shape[-1] ** -0.5) if scale is None else scale


def check_scale(layer: str, scale: Any) -> None:
    """Refuses a scale that is no finite number and no tensor of one floating number."""
    if scale is None:
        return
    if isinstance(scale, Tensor):
        if scale.numel() != 1 or not scale.is_floating_point():
            raise ShapeError(
                f"{layer}: scale is a tensor {tuple(scale.shape)} of {scale.dtype}, expected one floating number."
            )
    elif type(scale) is not float and (not isinstance(scale, (Real, torch.SymFloat)) or isinstance(scale, bool)):
        raise ShapeError(f"{layer}: scale is {scale!r}, expected a number, or None for 1 / sqrt(D).")
    elif not _is_finite(scale):
        raise ShapeError(f"{layer}: scale is {scale!r}, expected a finite number, or None for 1 / sqrt(D).")


def _unchanged(answer: Tensor) -> Tensor:
    return answer


def _is_finite(number: Any) -> bool:
    # math.isfinite does not take the compiler's variables.
    try:
        return abs(float(number)) < math.inf
    except OverflowError:
        return False


def _is_plain(q: Any, k: Any, v: Any) -> bool:
    """Whether these are dense tensors of one floating dtype on the CPU, and no autocast is on: nothing to refuse."""
    if not type(q) is type(k) is type(v) is Tensor or torch.is_autocast_enabled("cpu"):
        return False
    dtype = q.dtype
    return (
        dtype in FLOATS
        and k.dtype is dtype
        and v.dtype is dtype
        and q.is_cpu
        and k.is_cpu
        and v.is_cpu
        and q.layout is k.layout is v.layout is torch.strided
        and not (q.is_nested or k.is_nested or v.is_nested)
    )


def _scaled(layer: str, q: Tensor, scale: float | Tensor | None) -> tuple[Tensor, float]:
    """The queries, times what kernels cannot multiply with, and the number above 0 that is left to them.

    Kernels hide a key by a logit of -inf and then multiply, which shows it if the scale is negative and gives NaN if it
    is 0, also where it is too small for float32.
    """
    if scale is None:
        return q, float(q.shape[-1] ** -0.5)
    check_scale(layer, scale)
    if isinstance(scale, Tensor):
        if scale.device != q.device:
            raise ShapeError(
                f"{layer}: scale is on {scale.device}, query on {q.device}, expected one device. "
                f"Move it with scale.to({str(q.device)!r})."
            )
        # With a dimension of its own it takes part in the choice of type: a learned scale is float32 where queries are
        # half, and so are the products and their sum, its gradient.
        return (q * scale.reshape(1)).to(q.dtype), 1.0
    number = float(scale)
    if number < 0:
        q, number = -q, -number
    return (q, number) if number >= LEAST_SCALE else (q * number, 1.0)


def _causal(layer: str, pattern: Pattern, is_causal: Any) -> Pattern:
    if not isinstance(is_causal, bool):
        raise ShapeError(f"{layer}: is_causal is {is_causal!r}, expected True or False.")
    return pattern.causal(layer)


def _check_shapes(layer: str, q: Tensor, k: Tensor, v: Tensor, enable_gqa: bool) -> None:
    if not isinstance(enable_gqa, bool):
        raise ShapeError(f"{layer}: enable_gqa is {enable_gqa!r}, expected True or False.")
    shapes = q.shape, k.shape, v.shape
    if not len(shapes[0]) == len(shapes[1]) == len(shapes[2]) == 4:
        _refuse_dimensions(layer, shapes)
    (B, A, _, D), (key_batch, G, S, key_width), (value_batch, value_heads, values, H) = shapes
    if D == 0 or key_width == 0 or H == 0:
        _refuse_dimensions(layer, shapes)
    if key_batch != B or key_width != D:
        raise ShapeError(
            f"{layer}: key is {tuple(k.shape)}, expected batch {B} and width {D} as in query {tuple(q.shape)}. "
            "Keys and queries meet in a product."
        )
    if value_batch != B or value_heads != G or values != S:
        raise ShapeError(
            f"{layer}: value is {tuple(v.shape)}, expected {tuple(k.shape[:3])} and any width, as in key "
            f"{tuple(k.shape)}. Every key has one value."
        )
    if G == 0 or A == 0 or A % G:
        raise ShapeError(
            f"{layer}: {A} query heads do not share {G} key heads evenly. Give key heads whose number divides {A}."
        )
    if not enable_gqa and A != G:
        raise ShapeError(
            f"{layer}: {A} query heads came with {G} key heads, and enable_gqa is {enable_gqa!r}. "
            "Set enable_gqa=True, or give as many key heads."
        )


def _refuse_dimensions(layer: str, shapes: tuple[torch.Size, ...]) -> None:
    for name, shape in zip(("query", "key", "value"), shapes, strict=True):
        if len(shape) != 4:
            raise ShapeError(
                f"{layer}: {name} is {tuple(shape)}, expected 4 sizes: batch, heads, length, width. "
                "Add those that are missing with unsqueeze."
            )
        if shape[3] == 0:
            raise ShapeError(f"{layer}: {name} is {tuple(shape)}, width 0, expected a width from 1 on.")


def _check_packed(
    layer: str, q: Tensor, k: Tensor, key_padding_mask: Tensor | None, attn_mask: Tensor | None, offset: int
) -> None:
    if key_padding_mask is not None or attn_mask is not None or offset:
        raise ShapeError(
            f"{layer}: cu_seqlens came with key_padding_mask, attn_mask or an offset. Packed sequences need none."
        )
    if q.shape[2] != k.shape[2]:
        raise ShapeError(
            f"{layer}: with cu_seqlens each sequence attends to itself, and {q.shape[2]} queries came with "
            f"{k.shape[2]} keys. Pad the sequences with key_padding_mask."
        )
    if q.shape[0] != 1:
        raise ShapeError(
            f"{layer}: with cu_seqlens the batch is 1, and query is {tuple(q.shape)}. Put sequences end to end."
        )


def _check_decoding(layer: str, q: Tensor, k: Tensor, pattern: Pattern) -> None:
    """Refuses what does not continue a text token by token."""
    if not pattern.is_decodable:
        raise ShapeError(
            f"{layer}: this {pattern.kind} pattern attends to tokens that are not there yet, so it cannot be decoded. "
            "Choose causal, sliding without lookahead, or block with is_causal."
        )
    if k.shape[2] != q.shape[2]:
        raise ShapeError(
            f"{layer}: decoding takes a key for each new token, and {q.shape[2]} queries came with {k.shape[2]} keys. "
            "Give those of the new tokens only: the state has the others."
        )


def _decay(
    layer: str, log_decay: Tensor, q: Tensor, k: Tensor, pattern: Pattern, offset: int, padding: Tensor | None
) -> Tensor:
    """(B, G, S), 0 for pads, from what is given for each key head or for each of its steps too; or a refusal."""
    check_operands(layer, log_decay=log_decay)
    B, G, S = k.shape[:3]
    if log_decay.device != k.device:
        raise ShapeError(
            f"{layer}: log_decay is on {log_decay.device}, key on {k.device}, expected one device. "
            f"Move it with log_decay.to({str(k.device)!r})."
        )
    if tuple(log_decay.shape) not in ((G,), (B, G, S)):
        raise ShapeError(
            f"{layer}: log_decay is {tuple(log_decay.shape)}, expected {(G,)}, one for each key head, or {(B, G, S)}, "
            "one for each of its steps too."
        )
    if pattern.kind != "causal" or offset or q.shape[2] != S:
        raise ShapeError(
            f"{layer}: log_decay came with a {pattern.kind} pattern, offset {offset}, {q.shape[2]} queries and {S} "
            "keys, expected a causal pass over as many queries as keys, since keys decay from step to step. "
            "Set is_causal=True."
        )
    steps = log_decay.to(torch.promote_types(log_decay.dtype, torch.float32))
    steps = steps if steps.dim() == 3 else steps[:, None].expand(B, G, S)
    return steps if padding is None else steps.masked_fill(padding[:, None], 0)
