"""The attention layer that people import."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from porism.layers.attention.heads import Heads
from porism.layers.attention.hybrid.functional import HybridState, check_settings, hybrid_attention, hybrid_decode
from porism.layers.attention.hybrid.kernels.triton import kernel_in_use
from porism.layers.attention.pattern import CAUSAL, FULL, Pattern


class HybridAttention(Heads):
    """Multi-head attention that is softmax within a window and its series beyond it: linear in the length.

    o = concat over heads of (sum of w v) / (sum of w), times W_O, w = exp(s) for near keys and its series for far ones

    >>> layer = HybridAttention(512, 8, window=64, head_dim=16, batch_first=True)
    >>> y, _ = layer(torch.randn(2, 10_000, 512), is_causal=True)       # B T A*H -> B T A*H
    >>> token, state = layer.decode(torch.randn(2, 1, 512))              # a state with a bound

    - `window`, `order`, `allow_odd`: see `hybrid_attention`
    - `pattern`: full or causal; `is_causal` makes a full one causal

    `Heads` tells the other options. There is no dropout of weights, since no single weight of a far key is ever there.
    The state of `decode` is a `HybridState`.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        *,
        window: int,
        order: int = 2,
        pattern: Pattern = FULL,
        allow_odd: bool = False,
        **options: Any,
    ) -> None:
        check_settings(window, order, pattern, dropout, allow_odd)
        super().__init__(embed_dim, num_heads, **options)
        self.window = window
        self.order = order
        self.pattern = pattern
        self.allow_odd = allow_odd

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
        return hybrid_attention(
            q,
            k,
            v,
            window=self.window,
            order=self.order,
            pattern=CAUSAL if is_causal else self.pattern,
            scale=self.scale,
            key_padding=key_padding,
            cumulative_lengths=cumulative_lengths,
            allow_odd=self.allow_odd,
        )

    def decode_heads(self, q: Tensor, k: Tensor, v: Tensor, state: HybridState | None) -> tuple[Tensor, HybridState]:
        settings: dict[str, Any] = {"window": self.window, "order": self.order, "allow_odd": self.allow_odd}
        return hybrid_decode(q, k, v, state, scale=self.scale, **settings)

    def kernel_for(self, q: Tensor) -> str:
        return kernel_in_use(q, self.value_dim, self.order) if self.pattern == CAUSAL else "torch"

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, window={self.window}, order={self.order}, {self.pattern}"
