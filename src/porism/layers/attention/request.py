"""What attention is asked for, checked once: queries, keys, values, their layout, scale and padding."""

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from porism.errors import ShapeError
from porism.layers.attention.masks import sees_all
from porism.layers.attention.pattern import Pattern
from porism.layers.attention.reach import reach
from porism.layers.autocast import autocast_dtype
from porism.layers.operands import MOST, check_dropout, check_operands, check_whole, readable

LEAST_SCALE = 2.0**-126
"""The smallest scale that is not rounded to 0 in float32."""


class AttentionRequest(NamedTuple):
    """Operands that a kernel may read: one device, one floating dtype, dense along the width, autocast applied.

    The scale is above 0: a negative one, 0 and one that is a tensor are multiplied into the queries.

    Shapes: q (B, A, T, D), k (B, G, S, D), v (B, G, S, H) with G heads that divide A; key_padding (B, S), True: a pad.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    scale: float
    key_padding: Tensor | None

    @classmethod
    def make(
        cls,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        pattern: Pattern,
        scale: float | Tensor | None = None,
        key_padding: Tensor | None = None,
        dropout_p: float = 0.0,
        offset: int = 0,
        layer: str = "attention",
    ) -> Self:
        """The request, or a refusal that says what is wrong.

        Of a scale that is a tensor, such as a learned parameter, autograd gives the gradient.
        """
        check_operands(layer, q=q, k=k, v=v)
        _check_shapes(layer, q, k, v)
        if key_padding is not None:
            _check_padding(layer, key_padding, k)
        if not isinstance(pattern, Pattern):
            raise ShapeError(f"{layer}: the pattern is {pattern!r}, wanted a Pattern, such as Pattern('causal').")
        check_dropout(layer, "dropout_p", dropout_p)
        check_whole(layer, "offset", offset, -MOST)
        if (chosen := autocast_dtype(q, k, v)) is not None:
            q, k, v = (x.to(chosen) for x in (q, k, v))
        q, factor = _scaled(layer, q, scale)
        return cls(readable(q), readable(k), readable(v), factor, key_padding)


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
                f"{layer}: scale is a tensor {tuple(scale.shape)} of {scale.dtype}, wanted one floating number."
            )
    elif type(scale) is not float and (not isinstance(scale, (Real, torch.SymFloat)) or isinstance(scale, bool)):
        raise ShapeError(f"{layer}: scale is {scale!r}, wanted a number, or None for 1 / sqrt(D).")
    elif not _is_finite(scale):
        raise ShapeError(f"{layer}: scale is {scale!r}, wanted a finite number, or None for 1 / sqrt(D).")


def _is_finite(number: Any) -> bool:
    # math.isfinite does not take the compiler's variables.
    try:
        return abs(float(number)) < math.inf
    except OverflowError:
        return False


def _scaled(layer: str, q: Tensor, scale: float | Tensor | None) -> tuple[Tensor, float]:
    """The queries, times what kernels cannot multiply with, and the number above 0 that is left to them.

    Kernels hide a key by a logit of -inf and then multiply, which shows it if the scale is negative and gives NaN if it
    is 0, also where it is too small for float32.
    """
    check_scale(layer, scale)
    if isinstance(scale, Tensor):
        if scale.device != q.device:
            raise ShapeError(
                f"{layer}: scale is on {scale.device}, q on {q.device}, wanted one device. "
                f"Move it with scale.to({str(q.device)!r})."
            )
        # With a dimension of its own it takes part in the choice of type: a learned scale is float32 where queries are
        # half, and so are the products and their sum, its gradient.
        return (q * scale.reshape(1)).to(q.dtype), 1.0
    number = float(scale_of(q, scale))
    if number < 0:
        q, number = -q, -number
    return (q, number) if number >= LEAST_SCALE else (q * number, 1.0)


def _check_shapes(layer: str, q: Tensor, k: Tensor, v: Tensor) -> None:
    shapes = q.shape, k.shape, v.shape
    for name, shape in zip("qkv", shapes, strict=True):
        if len(shape) != 4:
            raise ShapeError(
                f"{layer}: {name} is {tuple(shape)}, wanted 4 sizes: batch, heads, length, width. "
                "Add those that are missing with unsqueeze."
            )
        if shape[3] == 0:
            raise ShapeError(f"{layer}: {name} is {tuple(shape)}, width 0, wanted a width from 1 on.")
    (B, A, _, D), (key_batch, G, S, key_width), (value_batch, value_heads, values, _) = shapes
    if key_batch != B or key_width != D:
        raise ShapeError(
            f"{layer}: k is {tuple(k.shape)}, wanted batch {B} and width {D} as in q {tuple(q.shape)}. "
            "Keys and queries meet in a product."
        )
    if value_batch != B or value_heads != G or values != S:
        raise ShapeError(
            f"{layer}: v is {tuple(v.shape)}, wanted {tuple(k.shape[:3])} and any width, as in k {tuple(k.shape)}. "
            "Every key has one value."
        )
    if G == 0 or A == 0 or A % G:
        raise ShapeError(
            f"{layer}: {A} query heads do not share {G} key heads evenly. Give key heads whose number divides {A}."
        )


def _check_padding(layer: str, key_padding: Tensor, k: Tensor) -> None:
    B, _, S, _ = k.shape
    if not isinstance(key_padding, Tensor) or key_padding.dtype != torch.bool or key_padding.shape != (B, S):
        came = (
            f"{tuple(key_padding.shape)} of {key_padding.dtype}"
            if isinstance(key_padding, Tensor)
            else f"a {type(key_padding).__name__}"
        )
        raise ShapeError(
            f"{layer}: key_padding is {came}, wanted ({B}, {S}) of bool, True where a key is only padding."
        )
    if key_padding.device != k.device:
        raise ShapeError(
            f"{layer}: key_padding is on {key_padding.device}, k on {k.device}, wanted one device. "
            f"Move it with key_padding.to({str(k.device)!r})."
        )


@dataclass(frozen=True, kw_only=True)
class Question:
    """Which way of attending is the cheapest for q (B, A, T, D), k (B, G, S, D) and v (B, G, S, H)?"""

    B: int
    A: int
    T: int
    S: int
    D: int
    H: int
    pattern: Pattern
    offset: int = 0
    padded: bool = False
    """Whether keys may be padding."""
    ragged: bool = False
    """Whether texts lie end to end; B and T are then those of the padded batch that they stand for."""
    keeps_all: bool = True
    """Whether no weight is dropped."""
    backward: bool = True
    """Whether a backward pass follows."""
    order: int | None = None
    """The order from which on a series may stand in for the exponential; None where all has to be exact."""
    window: int | None = None
    """The keys near a query for which the exponential has to be exact all the same."""
    device: str = "cpu"
    dtype: torch.dtype = torch.float32
    threads: int = 1
    hollow: bool = False
    """Whether tensors only stand in for others, so that nothing may be measured."""

    @property
    def heads(self) -> int:
        """Of all texts together."""
        return self.B * self.A

    @property
    def is_limited(self) -> bool:
        """Whether some query may not look at some key."""
        return self.padded or not sees_all(self.pattern, self.S, self.offset)

    @property
    def is_masked(self) -> bool:
        """Whether fused kernels need a dense mask. They know a causal limit by name, if it is alone."""
        alone = self.pattern.kind == "causal" and self.offset == 0 and not self.padded
        return self.is_limited and not alone


def simplest(pattern: Pattern, T: int, S: int, offset: int) -> tuple[Pattern, int]:
    """The pattern and offset that show the same pairs of T queries and S keys, without a window if it reaches over all.

    >>> simplest(Pattern("sliding", window=100), T=64, S=64, offset=0)[0].kind
    'causal'
    """
    near = reach(pattern, T, S, offset)
    # Where some query looks at no key, those that do are told apart by whoever answers.
    return (near.pattern, near.offset) if near.is_whole(T) else (pattern, offset)
