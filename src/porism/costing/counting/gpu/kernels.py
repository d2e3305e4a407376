"""The kernels that torch runs on an NVIDIA GPU where it runs others on a CPU: dropout, attention, norms, recurrences.

torch chooses them inside of C++ by the device of a tensor, and autograd on a device that is not there ends the process.
So the tensors stay on the CPU as far as C++ can tell, and the functions that choose are replaced by ones that choose as
on a GPU of compute capability 8. Where cuDNN comes first, on 9.0 and 10.0, attention keeps other statistics and masks.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten

HALF = (torch.float16, torch.bfloat16)
LARGEST_FLASH_HEAD = 256
RNN_MODES = {"rnn_relu": 0, "rnn_tanh": 1, "lstm": 2, "gru": 3}
UNKNOWN_ON_GPU = frozenset({"_cudnn_rnn"})
"""Operators that keep memory of a size that only the GPU's library tells: cuDNN's reserve space."""


def dropout(input: Tensor, p: float, train: bool) -> Any:
    """One kernel that keeps a mask of one byte a number, where the CPU keeps the noise in full."""
    if train and 0 < p < 1 and input.numel():
        return aten.native_dropout(input, p, train)[0]
    return _on_cpu(aten.dropout.default, input, p, train)


def dropout_(input: Tensor, p: float, train: bool) -> Any:
    # In place there is no kernel that keeps a mask only.
    return _on_cpu(aten.dropout_.default, input, p, train)


def rms_norm(input: Tensor, normalized_shape: list[int], weight: Tensor | None = None, eps: float | None = None) -> Any:
    if input.is_complex() or (weight is not None and weight.dtype != input.dtype):
        return _on_cpu(aten.rms_norm.default, input, normalized_shape, weight, eps)
    return _RMSNorm.apply(input, normalized_shape, weight, eps)  # type: ignore[no-untyped-call]


class _RMSNorm(torch.autograd.Function):
    """The fused kernel: it keeps its input, its weight and one number in float32 for each row."""

    @staticmethod
    def forward(ctx: Any, input: Tensor, shape: list[int], weight: Tensor | None, eps: float | None) -> Tensor:
        output: Tensor = aten._fused_rms_norm.default.decompose(input, shape, weight, eps)[0]
        rows = [*input.shape[: input.dim() - len(shape)], *(1 for _ in shape)]
        ctx.save_for_backward(input, weight, torch.empty(rows, dtype=torch.promote_types(input.dtype, torch.float32)))
        return output

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        input, weight, _ = ctx.saved_tensors
        (gradient,) = gradients
        return gradient * input, None, None if weight is None else torch.empty_like(weight), None


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """Flash attention, memory-efficient attention, or plain products, as torch chooses by default."""
    # torch asks the mask as it was given: one that was spread or turned may lie in rows once it is made numbers.
    has_rows = attn_mask is None or attn_mask.stride(-1) == 1
    if attn_mask is not None and attn_mask.dtype is torch.bool:
        zero = torch.zeros((), dtype=query.dtype)
        attn_mask = torch.where(attn_mask, zero, torch.full_like(zero, -torch.inf))
    if not has_rows or not _are_fused(query, key, value):
        return _products(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
    if _is_flash(query, key, value, attn_mask, is_causal, enable_gqa):
        width = query.shape[-1]
        scale = width**-0.5 if scale is None else scale
        query, key, value = (_padded(x, 8) for x in (query, key, value))
        return aten._scaled_dot_product_flash_attention(query, key, value, dropout_p, is_causal, scale=scale)[0][
            ..., :width
        ]
    if _is_efficient(query, key, value, attn_mask, enable_gqa):
        needs_gradient = torch.is_grad_enabled() and any(x.requires_grad for x in (query, key, value))
        bias = None if attn_mask is None else _bias(attn_mask, query, key)
        return aten._scaled_dot_product_efficient_attention(
            query, key, value, bias, needs_gradient, dropout_p, is_causal, scale=scale
        )[0]
    return _products(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)


def _are_fused(query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Whether fused kernels take such tensors: batches of heads, one dtype, rows in one piece."""
    tensors = (query, key, value)
    return (
        all(x.dim() == 4 and x.stride(-1) == 1 and x.shape[0] and x.shape[2] for x in tensors)
        and query.dtype == key.dtype == value.dtype
        and query.shape[0] == key.shape[0] == value.shape[0]
        and query.shape[-1] == key.shape[-1]
        and key.shape[1] == value.shape[1]
    )


def _is_flash(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, is_causal: bool, gqa: bool) -> bool:
    heads = query.shape[1] % key.shape[1] == 0 if gqa else query.shape[1] == key.shape[1]
    square = query.shape[2] == key.shape[2] or not is_causal
    return (
        heads
        and square
        and mask is None
        and query.dtype in HALF
        and query.shape[-1] == value.shape[-1] <= LARGEST_FLASH_HEAD
    )


def _is_efficient(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, gqa: bool) -> bool:
    aligned = 8 if query.dtype in HALF else 4
    return (
        query.dtype in (*HALF, torch.float32)
        and query.shape[1] == key.shape[1]
        and not (gqa and query.shape[1] != key.shape[1])
        and query.shape[-1] % aligned == 0
        and value.shape[-1] % aligned == 0
        and (mask is None or mask.dtype == query.dtype)
    )


def _padded(x: Tensor, multiple: int) -> Tensor:
    missing = -x.shape[-1] % multiple
    return torch.nn.functional.pad(x, (0, missing)) if missing else x


def _bias(mask: Tensor, query: Tensor, key: Tensor) -> Tensor:
    """A mask as the kernel reads it: for every head, rows that begin at multiples of 8 numbers."""
    shape = (*query.shape[:2], query.shape[2], key.shape[2])
    if mask.shape[-1] % 8 or any(
        step % 8 for step, size in zip(mask.stride()[:-1], mask.shape, strict=False) if size > 1
    ):
        mask = _padded(mask, 8)[..., : mask.shape[-1]]
    return mask.expand(shape)


def _products(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    gqa: bool,
) -> Any:
    return aten._scaled_dot_product_attention_math(
        query, key, value, mask, dropout_p, is_causal, scale=scale, enable_gqa=gqa
    )[0]


def _recurrence(kind: str) -> Callable[..., Any]:
    def run(
        input: Tensor,
        hx: Any,
        params: list[Tensor],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> Any:
        h, c = hx if kind == "lstm" else (hx, None)
        width = c.shape[-1] if c is not None else h.shape[-1]
        projected = h.shape[-1] if h.shape[-1] != width else 0
        each = (4 if has_biases else 2) + bool(projected)
        # The weights lie in one piece, which is theirs: none is kept beside it.
        output, h, c, _, _ = aten._cudnn_rnn(
            *(input, params, each, params[0].detach(), h, c, RNN_MODES[kind], width, projected, num_layers),
            *(batch_first, dropout, train, bidirectional, [], None),
        )
        return (output, h, c) if kind == "lstm" else (output, h)

    return run


def cudnn_rnn_backward(
    input: Tensor,
    weight: list[Tensor],
    weight_stride0: int,
    weight_buf: Tensor,
    hx: Tensor,
    cx: Tensor | None,
    *rest: Any,
) -> Any:
    """The shapes of the gradients, which torch has no rule for."""
    state = torch.empty_like(hx if cx is None else cx)
    return torch.empty_like(input), torch.empty_like(hx), state, [torch.empty_like(part) for part in weight]


def _on_cpu(operator: Any, *args: Any) -> Any:
    return operator.decompose(*args)


REPLACED: dict[str, Callable[..., Any]] = {
    "dropout": dropout,
    "dropout_": dropout_,
    "rms_norm": rms_norm,
    "scaled_dot_product_attention": scaled_dot_product_attention,
    **{f"{kind}.input": _recurrence(kind) for kind in RNN_MODES},
}
"""By the name of the operator whose choice it makes."""
SHAPES: dict[str, Callable[..., Any]] = {"_cudnn_rnn_backward": cudnn_rnn_backward}
"""The shapes of what operators of a GPU give, where torch knows none without one."""
