"""Softmax attention over any pattern, through the fused kernels of torch."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize, pad

from porism.errors import ShapeError
from porism.layers.attention.heads import Heads
from porism.layers.attention.masks import padding_of
from porism.layers.attention.pattern import CAUSAL
from porism.layers.attention.request import AttentionRequest, share
from porism.layers.attention.softmax.cache import KVCache
from porism.layers.attention.softmax.method import SOFTMAX, all_weights


class Attention(Heads):
    """Multi-head softmax attention.

    o = concat over heads of softmax(q_a k_a^T / sqrt(D)) v_a, times W_O, with q_a = x W_Qa, and so for k_a and v_a

    >>> layer = Attention(512, 8, batch_first=True)
    >>> y, _ = layer(torch.randn(2, 100, 512), is_causal=True)      # B T A*D -> B T A*D
    >>> y, weights = layer(torch.randn(2, 100, 512), need_weights=True)
    >>> weights.shape                                               # the mean over heads
    torch.Size([2, 100, 100])

    `Heads` lists the options. The state of `decode` is a `KVCache`, which grows with the text. Keys that `add_bias_kv`
    and `add_zero_attn` add come after all others, and every query attends to them, also with `is_causal`.
    """

    method = SOFTMAX
    takes_attn_mask = True

    def attend_with_weights(self, request: AttentionRequest) -> tuple[Tensor, Tensor]:
        q, k, v = request.q, request.k, request.v
        weights = all_weights(q, k, request.dense_mask(), request.scale, request.dropout_p)
        return weights.to(v.dtype) @ share(v, q.shape[1]), weights

    def initial_state(self, request: AttentionRequest) -> KVCache | None:
        # Added keys come first where texts are continued, which is the same for softmax.
        return KVCache(*self._added_keys(request.k), None, CAUSAL) if self._adds_keys else None

    def _request(
        self, q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None, is_causal: bool, **options: Any
    ) -> AttentionRequest:
        if not self._adds_keys or "decoding" in options:
            return super()._request(q, k, v, attn_mask, is_causal, **options)
        if options["cu_seqlens"] is not None:
            raise ShapeError(
                "attention: cu_seqlens came for a layer with add_bias_kv or add_zero_attn. "
                "Pad the sequences with key_padding_mask."
            )
        keys, values = self._added_keys(k)
        count, T, S = keys.shape[2], q.shape[2], k.shape[2]
        if is_causal:
            causal = CAUSAL.mask(T, S, device=q.device)
            if attn_mask is None:
                attn_mask = causal
            elif attn_mask.dtype == torch.bool:
                attn_mask = attn_mask & causal
            else:
                attn_mask = attn_mask.masked_fill(~causal, -torch.inf)
        if attn_mask is not None:
            attn_mask = pad(attn_mask, (0, count), value=attn_mask.dtype == torch.bool)
        if (padding := options["key_padding_mask"]) is not None:
            options["key_padding_mask"] = pad(padding_of("attention", padding, k.shape[0], S, k), (0, count))
        k, v = torch.cat([k, keys], 2), torch.cat([v, values], 2)
        return super()._request(q, k, v, attn_mask, False, **options)

    @property
    def _adds_keys(self) -> bool:
        return self.add_zero_attn or self.bias_k is not None

    def _added_keys(self, k: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values that every query attends to, beside keys k: (B, G, 1 or 2, D) and (B, G, 1 or 2, H)."""
        added = []
        for learned, width in ((self.bias_k, self.head_dim), (self.bias_v, self.v_head_dim)):
            parts = [] if learned is None else [learned.view(1, self.num_kv_heads, 1, width).to(k.dtype)]
            if self.add_zero_attn:
                parts.append(k.new_zeros(1, self.num_kv_heads, 1, width))
            added.append(torch.cat(parts, 2).expand(k.shape[0], -1, -1, -1))
        keys, values = added
        return keys if self.temperature is None else normalize(keys, dim=-1), values
