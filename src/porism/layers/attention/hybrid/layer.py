"""The attention layer that people import."""

import torch
from torch import Tensor

from porism.layers.attention.heads import Heads, refuse_added_keys
from porism.layers.attention.hybrid.kernels.triton import kernel_in_use
from porism.layers.attention.hybrid.method import HYBRID, check_settings
from porism.layers.attention.pattern import CAUSAL, FULL, Pattern
from porism.layers.attention.taylor.feature_maps import check_features, choose_map
from porism.layers.attention.taylor.method import refuse_weights


class HybridAttention(Heads):
    """Multi-head attention that is softmax within a window and its series beyond it: linear in the length.

    o = concat over heads of (sum of w v) / (sum of w), times W_O, w = exp(s) for near keys and its series for far ones

    >>> layer = HybridAttention(512, 8, window_size=64, head_dim=16, batch_first=True)
    >>> y, _ = layer(torch.randn(2, 10_000, 512), is_causal=True)       # B T A*H -> B T A*H
    >>> token, state = layer.decode(torch.randn(2, 1, 512))              # a state with a bound

    - `window_size`, `order`, `allow_odd`: see `hybrid_attention`
    - `pattern`: full or causal; `is_causal` makes a full one causal

    `Heads` lists the other options. There is no dropout of weights, since no single weight of a far key is ever there.
    The state of `decode` is a `HybridState`.
    """

    method = HYBRID
    order: int

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
        window_size: int | None = None,
        order: int = 2,
        pattern: Pattern | None = None,
        allow_odd: bool = False,
    ) -> None:
        refuse_weights("hybrid", dropout, name="dropout")
        refuse_added_keys("HybridAttention", add_bias_kv, add_zero_attn)
        pattern = FULL if pattern is None else pattern
        check_settings(window_size, order, pattern, allow_odd)
        super().__init__(
            embed_dim,
            num_heads,
            0.0,
            bias,
            kdim=kdim,
            vdim=vdim,
            batch_first=batch_first,
            device=device,
            dtype=dtype,
            num_kv_heads=num_kv_heads,
            head_dim=head_dim,
            v_head_dim=v_head_dim,
            out_proj=out_proj,
            scale=scale,
            qk_norm=qk_norm,
        )
        check_features(choose_map(None, order), order, self.head_dim, layer="hybrid")
        self.window_size = window_size
        self.order = order
        self.pattern = pattern
        self.allow_odd = allow_odd

    def kernel_for(self, q: Tensor) -> str:
        return kernel_in_use(q, self.v_head_dim, self.order) if self.pattern == CAUSAL else "torch"

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, window_size={self.window_size}, order={self.order}, {self.pattern}"
