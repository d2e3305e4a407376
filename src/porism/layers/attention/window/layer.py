"""Softmax attention within a window, at a cost that grows with the length and not with its square."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from porism.layers.attention.heads import Heads
from porism.layers.attention.pattern import Kind, Pattern
from porism.layers.attention.softmax.functional import Cache
from porism.layers.attention.window.functional import _behind, _check_kind, window_attention, window_decode
from porism.layers.attention.window.kernels import passes


class WindowAttention(Heads):
    """Multi-head softmax attention within a window.

    o = concat over heads of softmax(q_a k_a^T / sqrt(D)) v_a over the keys in the window, times W_O

    >>> layer = WindowAttention(512, 8, window=64, batch_first=True)
    >>> y, _ = layer(torch.randn(2, 1000, 512))                     # B T A*D -> B T A*D
    >>> print(layer.pattern.drawn(4))
    ■ · · ·
    ■ ■ · ·
    ■ ■ ■ ·
    ■ ■ ■ ■

    A token sees the `window` tokens up to and including itself and `ahead` after it, or every d-th of them with a
    `dilation` d. With kind="block" it sees those of its own block of `window`, with `causal_inside` up to itself.
    `is_causal` takes away what lies ahead. `Heads` tells the other options. The state of `decode` is a `Cache` that
    never holds more than a window.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        window: int,
        *,
        kind: Kind = "sliding",
        ahead: int = 0,
        dilation: int = 1,
        causal_inside: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(embed_dim, num_heads, **options)
        self.pattern = Pattern(kind, window, ahead, dilation, causal_inside)
        _check_kind(self.pattern)

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
        return window_attention(
            q,
            k,
            v,
            pattern=_behind(self.pattern) if is_causal else self.pattern,
            scale=self.scale,
            key_padding=key_padding,
            cumulative_lengths=cumulative_lengths,
            dropout_p=self.dropout if self.training else 0.0,
        )

    def decode_heads(self, q: Tensor, k: Tensor, v: Tensor, state: Cache | None) -> tuple[Tensor, Cache]:
        return window_decode(q, k, v, state, pattern=self.pattern, scale=self.scale)

    def kernel_for(self, q: Tensor) -> str:
        return passes.kernel_in_use(q, self.value_dim)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, {self.pattern}"
