"""Softmax attention over any pattern, through the fused kernels of torch."""

from collections.abc import Sequence

import torch
from torch import Tensor

from porism.layers.attention.heads import Heads
from porism.layers.attention.masks import dense_mask
from porism.layers.attention.pattern import CAUSAL, FULL
from porism.layers.attention.request import AttentionRequest, share
from porism.layers.attention.softmax.functional import Cache, all_weights, attend, softmax_attention, softmax_decode


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
        pattern = CAUSAL if is_causal else FULL
        dropout_p = self.dropout if self.training else 0.0
        q, k, v, scale, key_padding = AttentionRequest.make(
            q, k, v, pattern=pattern, scale=self.scale, key_padding=key_padding, dropout_p=dropout_p
        )
        # nn.MultiheadAttention marks what is left out, scaled_dot_product_attention what takes part.
        mask = ~attn_mask if attn_mask is not None and attn_mask.dtype == torch.bool else attn_mask
        if not need_weights:
            return attend(q, k, v, pattern, scale, key_padding, dropout_p=dropout_p, mask=mask), None
        weights = all_weights(q, k, dense_mask(q, k, pattern, 0, key_padding, mask), scale, dropout_p)
        return weights.to(v.dtype) @ share(v, q.shape[1]), weights

    def decode_heads(self, q: Tensor, k: Tensor, v: Tensor, state: Cache | None) -> tuple[Tensor, Cache]:
        return softmax_decode(q, k, v, state, scale=self.scale)
