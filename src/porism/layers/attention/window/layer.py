"""Softmax attention within a window, at a cost that grows with the length and not with its square."""

import torch
from torch import Tensor

from porism.errors import ShapeError
from porism.layers.attention.heads import Heads, refuse_added_keys
from porism.layers.attention.pattern import Pattern
from porism.layers.attention.window.method import WINDOW, check_pattern, kernel_in_use, windowed


class WindowAttention(Heads):
    """Multi-head softmax attention within a window.

    o = concat over heads of softmax(q_a k_a^T / sqrt(D)) v_a over the keys in the window, times W_O

    >>> layer = WindowAttention(512, 8, window_size=64, batch_first=True)
    >>> y, _ = layer(torch.randn(2, 1000, 512))                     # B T A*D -> B T A*D
    >>> blocks = WindowAttention(512, 8, pattern=Pattern("block", window_size=2))
    >>> print(blocks.pattern.draw(4))
    ■ ■ · ·
    ■ ■ · ·
    · · ■ ■
    · · ■ ■

    A token attends to the `window_size` tokens up to and including itself; a `pattern` instead may be sliding with a
    lookahead and a dilation, or block, whole or causal. Exactly one of the two is given. `is_causal` is refused where
    the pattern attends ahead. `Heads` lists the other options. The state of `decode` is a `KVCache` that never holds
    more than a window.
    """

    method = WINDOW

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
        pattern: Pattern | None = None,
    ) -> None:
        if isinstance(dropout, int) and not isinstance(dropout, bool) and dropout >= 1:
            raise ShapeError(
                f"window: dropout is {dropout}, expected a probability from 0 to below 1. Did you mean "
                f"window_size={dropout}? The third argument is dropout, as in nn.MultiheadAttention."
            )
        refuse_added_keys("WindowAttention", add_bias_kv, add_zero_attn)
        chosen = windowed(window_size, pattern)
        check_pattern(chosen)
        super().__init__(
            embed_dim,
            num_heads,
            dropout,
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
        self.pattern = chosen

    def kernel_for(self, q: Tensor) -> str:
        return kernel_in_use(q, self.v_head_dim)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, {self.pattern}"
