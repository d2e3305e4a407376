"""Softmax attention over any pattern, through the fused kernels of torch."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import dropout, pad, scaled_dot_product_attention

from porism.errors import ShapeError
from porism.layers.attention.cache import Cache
from porism.layers.attention.mask import Mask, dense_mask
from porism.layers.derivative import first_derivative_only
from porism.layers.heads import Heads
from porism.layers.operands import check, scale_of, share
from porism.layers.pattern import CAUSAL, FULL, Pattern
from porism.layers.ragged import pack, starts, unpack

__all__ = ["Attention", "Cache", "softmax_attention", "softmax_decode"]


def softmax_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    pattern: Pattern = FULL,
    scale: float | None = None,
    key_padding: Tensor | None = None,
    cumulative_lengths: Sequence[int] | Tensor | None = None,
    mask: Tensor | None = None,
    dropout_p: float = 0.0,
    offset: int = 0,
) -> Tensor:
    """softmax(scale q k^T) v over the keys that each query looks at.

    >>> q, k, v = torch.randn(2, 8, 10, 64), torch.randn(2, 2, 10, 64), torch.randn(2, 2, 10, 32)
    >>> softmax_attention(q, k, v, pattern=Pattern("causal")).shape     # 8 query heads share 2 key heads
    torch.Size([2, 8, 10, 32])

    Full and causal patterns run in the fused kernel without any mask; others build a dense one, T S of memory, where
    `porism.layers.window_attention` needs T W. A query that looks at no key gives 0.

    - `key_padding`: (B, S), True for a key that is only padding
    - `cumulative_lengths`: where texts start that lie end to end in a batch of 1, and the end
    - `mask`: fit for (B, A, T, S), True for a pair to look at, or numbers to add to the logits
    - `dropout_p`: the probability of dropping a weight
    - `offset`: the place of the first query

    Shapes: q (B, A, T, D), k (B, G, S, D), v (B, G, S, H) with G heads that divide A -> (B, A, T, H).
    """
    check(q, k, v, key_padding)
    if not 0 <= dropout_p < 1:
        raise ShapeError(f"attention: dropout_p is {dropout_p!r}. Give the probability of dropping, from 0 to below 1.")
    if cumulative_lengths is not None:
        if key_padding is not None or mask is not None or offset:
            raise ShapeError(
                "attention: cumulative_lengths came with key_padding, a mask or an offset. Texts end to end need none."
            )
        return _ragged(q, k, v, pattern, scale, cumulative_lengths, dropout_p)
    # The fused kernels know this one limit by name, and only if it is alone.
    causal = pattern.kind == "causal" and offset == 0 and key_padding is None and mask is None
    limits = dense_mask(q, k, FULL if causal else pattern, offset, key_padding, mask)
    return _fused(q, k, v, limits, causal, scale_of(q, scale), dropout_p)


def softmax_decode(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    state: Cache | None = None,
    *,
    pattern: Pattern = CAUSAL,
    scale: float | None = None,
    key_padding: Tensor | None = None,
) -> tuple[Tensor, Cache]:
    """New tokens that continue a text: what the whole text in one pass would answer for them, and the longer cache.

    >>> q, k, v = torch.randn(3, 2, 8, 10, 64)                      # three times B A T D
    >>> y, cache = softmax_decode(q[:, :, :9], k[:, :, :9], v[:, :, :9])
    >>> y, cache = softmax_decode(q[:, :, 9:], k[:, :, 9:], v[:, :, 9:], cache)
    >>> cache.k.shape
    torch.Size([2, 8, 10, 64])

    `key_padding` is that of the new tokens, (B, T).
    """
    check(q, k, v, key_padding)
    if pattern.looks_ahead:
        raise ShapeError(
            f"attention: a {pattern.kind} pattern looks at tokens that are not there yet, so it cannot be decoded. "
            "Choose causal, sliding without ahead, or block with causal_inside."
        )
    tokens = Cache(k, v, key_padding).behind(state)
    before = tokens.length - k.shape[2]
    answer = softmax_attention(
        q, tokens.k, tokens.v, pattern=pattern, scale=scale, key_padding=tokens.padding, offset=before
    )
    return answer, tokens


class Attention(Heads):
    """Multi-head softmax attention.

    o = concat over heads of softmax(q_a k_a^T / sqrt(D)) v_a, times W_O, with q_a = x W_Qa, and so for k_a and v_a

    >>> layer = Attention(512, 8, batch_first=True)
    >>> y, _ = layer(torch.randn(2, 100, 512), is_causal=True)      # B T A*D -> B T A*D
    >>> y, weights = layer(torch.randn(2, 100, 512), need_weights=True)
    >>> weights.shape                                               # the mean over heads
    torch.Size([2, 100, 100])

    `Heads` tells the options. The state of `decode` is a `Cache`, which grows with the text.
    """

    def attend(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        key_padding: Tensor | None,
        cumulative_lengths: Sequence[int] | Tensor | None,
        is_causal: bool,
    ) -> Tensor:
        return softmax_attention(
            q,
            k,
            v,
            pattern=CAUSAL if is_causal else FULL,
            scale=self.scale,
            key_padding=key_padding,
            cumulative_lengths=cumulative_lengths,
            dropout_p=self.dropout if self.training else 0.0,
        )

    def attend_densely(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        key_padding: Tensor | None,
        attn_mask: Tensor | None,
        is_causal: bool,
        need_weights: bool,
    ) -> tuple[Tensor, Tensor | None]:
        check(q, k, v, key_padding)
        # nn.MultiheadAttention marks what is left out, scaled_dot_product_attention what takes part.
        mask = ~attn_mask if attn_mask is not None and attn_mask.dtype == torch.bool else attn_mask
        limits = dense_mask(q, k, CAUSAL if is_causal else FULL, 0, key_padding, mask)
        dropout_p = self.dropout if self.training else 0.0
        if need_weights:
            weights = all_weights(q, k, limits, scale_of(q, self.scale), dropout_p)
            return weights @ share(v, q.shape[1]), weights
        return _fused(q, k, v, limits, False, scale_of(q, self.scale), dropout_p), None

    def decode_heads(self, q: Tensor, k: Tensor, v: Tensor, state: Cache | None) -> tuple[Tensor, Cache]:
        return softmax_decode(q, k, v, state, scale=self.scale)


def _fused(
    q: Tensor, k: Tensor, v: Tensor, limits: Mask | None, causal: bool, scale: float, dropout_p: float
) -> Tensor:
    D, H = q.shape[-1], v.shape[-1]
    if D != H:
        # Kernels for keys and values of two widths are slow or absent. Zeros change no product, and are cut off again.
        q, k, v = (pad(x, (0, max(D, H) - x.shape[-1])) for x in (q, k, v))
    grouped = q.shape[1] != k.shape[1]
    if grouped and not _fast_with_groups(q, limits):
        k, v, grouped = share(k, q.shape[1]), share(v, q.shape[1]), False
    answer = scaled_dot_product_attention(
        q,
        k,
        v,
        attn_mask=None if limits is None else limits.pairs,
        dropout_p=dropout_p,
        is_causal=causal,
        scale=scale,
        enable_gqa=grouped,
    )
    answer = answer[..., :H] if D > H else answer
    answer = answer if limits is None else answer.masked_fill(limits.blind, 0)
    guarded: Tensor = _FirstDerivative.apply(answer)  # type: ignore[no-untyped-call]
    return guarded


def _fast_with_groups(q: Tensor, limits: Mask | None) -> bool:
    """On a GPU only the flash kernel shares keys among heads, and it takes no mask and no single precision."""
    return not q.is_cuda or (limits is None and q.dtype in (torch.float16, torch.bfloat16))


def all_weights(q: Tensor, k: Tensor, limits: Mask | None, scale: float, dropout_p: float = 0.0) -> Tensor:
    """All weights at once, (B, A, T, S)."""
    logits = (scale * q) @ share(k, q.shape[1]).mT
    weights = (logits if limits is None else limits.added_to(logits)).softmax(-1)
    return dropout(weights if limits is None else weights.masked_fill(limits.blind, 0), dropout_p)


def _ragged(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    pattern: Pattern,
    scale: float | None,
    cumulative_lengths: Sequence[int] | Tensor,
    dropout_p: float,
) -> Tensor:
    """Texts end to end, as a padded batch."""
    if q.shape[2] != k.shape[2]:
        raise ShapeError(
            f"attention: with cumulative lengths each text attends to itself, and {q.shape[2]} queries came with "
            f"{k.shape[2]} keys. Pad the texts with key_padding."
        )
    borders = starts(cumulative_lengths, q.shape[2])
    (q, padding), (k, _), (v, _) = (unpack(x, borders) for x in (q, k, v))
    # Pads come last, so that who never looks ahead never sees one.
    seen = padding if pattern.looks_ahead else None
    padded = softmax_attention(q, k, v, pattern=pattern, scale=scale, key_padding=seen, dropout_p=dropout_p)
    return pack(padded, borders)


class _FirstDerivative(torch.autograd.Function):
    """Hands on what it gets. Torch's kernels have no second derivative, and this says so as our own layers do."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.detach()

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient
