"""The attention layer that people import."""

import torch
from torch import Tensor, nn

from porism.layers.attention.decay import DecayGate, DecayKind, check_decay
from porism.layers.attention.heads import Heads, refuse_added_keys
from porism.layers.attention.pattern import FULL, Pattern
from porism.layers.attention.request import AttentionRequest
from porism.layers.attention.taylor.error import Watch, check_limit, request_error
from porism.layers.attention.taylor.feature_maps import check_features, check_order, choose_map
from porism.layers.attention.taylor.kernels.spans import check_pattern
from porism.layers.attention.taylor.kernels.triton import kernel_in_use
from porism.layers.attention.taylor.method import TAYLOR, refuse_weights

STARTING_DEVIATION = 1 / 4


class TaylorAttention(Heads):
    """Multi-head attention by the series of the exponential: time and memory linear in the length.

    o = concat over heads of phi(q_a) (phi(k_a)^T v_a) / phi(q_a) (phi(k_a)^T 1), times W_O, phi of C(D+K, K) features

    >>> layer = TaylorAttention(512, 8, head_dim=16, qk_norm=True, batch_first=True)
    >>> y, _ = layer(torch.randn(2, 10_000, 512), is_causal=True)       # B T A*H -> B T A*H
    >>> token, state = layer.decode(torch.randn(2, 1, 512))              # a state that never grows

    The series is close to softmax while logits are small. The layer measures how close on the first call and on every
    hundredth, and warns once (`SeriesWarning`) where the answer is off by more than `warn_above`; None never measures.
    `qk_norm` bounds the logits; its temperature starts where the logits of random vectors deviate by 1/4.

    - `order`, `feature_map`, `allow_odd`: see `taylor_attention`
    - `pattern`: full, causal or block-causal; `is_causal` makes a full one causal
    - `decay`: how keys decay from step to step, in causal passes: "head" learns a factor for each key head, "token" one
      for each step too, a gate sigmoid(x W + b) of the token there. By default they do not. Nothing is measured against
      softmax then

    `Heads` lists the other options. There is no dropout of weights, since no single weight is ever there. The state of
    `decode` is a `TaylorState`.
    """

    method = TAYLOR
    order: int
    feature_map: str

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
        order: int = 2,
        feature_map: str | None = None,
        pattern: Pattern | None = None,
        allow_odd: bool = False,
        warn_above: float | None = 0.05,
        decay: DecayKind | None = None,
    ) -> None:
        refuse_weights("taylor", dropout, name="dropout")
        refuse_added_keys("TaylorAttention", add_bias_kv, add_zero_attn)
        check_order(order, allow_odd)
        chosen = choose_map(feature_map, order)
        check_limit("warn_above", warn_above)
        pattern = FULL if pattern is None else pattern
        check_pattern(pattern)
        check_decay(decay)
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
        check_features(chosen, order, self.head_dim)
        self.order = order
        self.feature_map = chosen
        self.pattern = pattern
        self.allow_odd = allow_odd
        self.watch = None if warn_above is None else Watch(warn_above)
        if decay is not None:
            self.gate = DecayGate(decay, self.num_kv_heads, self.kdim, batch_first, device, dtype)

    def reset_parameters(self) -> None:
        super().reset_parameters()
        if self.temperature is not None:
            nn.init.constant_(self.temperature, STARTING_DEVIATION * self.head_dim**0.5)
        if self.gate is not None:
            self.gate.reset_parameters()

    def observe(self, request: AttentionRequest) -> None:
        """Measures how far the answer is from softmax's, now and then, and warns."""
        if self.watch is not None and request.log_decay is None and self.watch.is_due(request.q):
            self.watch.judge(request_error(request, limit=self.watch.limit), self.order)

    def kernel_for(self, q: Tensor) -> str:
        return kernel_in_use(q, self.v_head_dim, self.order, self.feature_map)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, order={self.order}, feature_map={self.feature_map!r}, {self.pattern}"
