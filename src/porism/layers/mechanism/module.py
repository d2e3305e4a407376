"""The attention layer that goes the cheapest way."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from porism.errors import ShapeError
from porism.layers.attention.layer import Cache
from porism.layers.heads import Heads
from porism.layers.mechanism.operation import attention, check_settings
from porism.layers.pattern import CAUSAL, FULL, Pattern
from porism.layers.window.layer import window_decode


class AutoAttention(Heads):
    """Multi-head attention over any pattern, by the cheapest way for the sizes that come.

    o = concat over heads of attention(q_a, k_a, v_a), times W_O

    >>> layer = AutoAttention(512, 8, pattern=Pattern("sliding", window=64), batch_first=True)
    >>> y, _ = layer(torch.randn(2, 1000, 512))                     # B T A*D -> B T A*D

    - `pattern`: any; `is_causal` makes a full one causal
    - `order`, `window`: what may be approximated, see `attention`; nothing unless told otherwise

    `Heads` tells the other options. The state of `decode` is a `Cache`. A layer that may approximate has none, since
    its whole pass and its state could go two ways.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        *,
        pattern: Pattern = FULL,
        order: int | None = None,
        window: int | None = None,
        **options: Any,
    ) -> None:
        check_settings("auto", order, window)
        super().__init__(embed_dim, num_heads, dropout, **options)
        self.pattern, self.order, self.window = pattern, order, window

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
        return attention(
            q,
            k,
            v,
            pattern=self._behind() if is_causal else self.pattern,
            scale=self.scale,
            key_padding=key_padding,
            cumulative_lengths=cumulative_lengths,
            dropout_p=self.dropout if self.training else 0.0,
            order=self.order,
            window=self.window,
        )

    def decode_heads(self, q: Tensor, k: Tensor, v: Tensor, state: Cache | None) -> tuple[Tensor, Cache]:
        if self.order is not None:
            raise ShapeError(
                "attention: AutoAttention with an order may go two ways, and a state fits only one of them. "
                "Decode with TaylorAttention or HybridAttention, or leave out the order."
            )
        return window_decode(q, k, v, state, pattern=self._behind(), scale=self.scale)

    def _behind(self) -> Pattern:
        if self.pattern.kind == "full":
            return CAUSAL
        if self.pattern.looks_ahead:
            raise ShapeError(
                f"attention: is_causal or decoding came for a layer whose {self.pattern.kind} pattern looks ahead. "
                "Give a pattern that does not."
            )
        return self.pattern

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, {self.pattern}, order={self.order}, window={self.window}"
