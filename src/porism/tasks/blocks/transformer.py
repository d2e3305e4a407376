"""Parts of transformers that decode step by step: attention whose keys and values are projected once and kept.

    o = concat over heads of softmax(q k^T / sqrt(D)) v, times W_O,   q = x W_Q + b,  k = y W_K,  v = y W_V + b

The keys have no bias: it would add the same number to all logits of a query, and softmax cancels it.
"""

from typing import NamedTuple

from torch import Tensor, nn

from porism.layers.attention.masks import dense_mask
from porism.layers.attention.pattern import CAUSAL, FULL
from porism.layers.attention.softmax import softmax_attention
from porism.layers.attention.softmax.method import all_weights
from porism.layers.dropout import dropout


class KeyValues(NamedTuple):
    """Projected keys and values (B, A, S, D), and their key padding mask (B, S)."""

    k: Tensor
    v: Tensor
    padding: Tensor | None = None

    def select(self, rows: Tensor) -> "KeyValues":
        """Those of some rows of the batch, in that order."""
        padding = None if self.padding is None else self.padding[rows]
        return KeyValues(self.k[rows], self.v[rows], padding)


class CachedAttention(nn.Module):
    """Self- or cross-attention over keys and values that are projected once, however often they are attended to.

    >>> layer = CachedAttention(200, heads=2)
    >>> cache = layer.project(torch.randn(8, 50, 200))              # B S H, once
    >>> y, _ = layer(torch.randn(8, 7, 200), cache)                 # B T H, as often as needed
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width)
        self.out = nn.Linear(width, width)

    def project(self, y: Tensor, padding: Tensor | None = None) -> KeyValues:
        """Keys and values of y (B, S, H), with its padding mask (B, S)."""
        return KeyValues(self._split(self.key(y)), self._split(self.value(y)), padding)

    def forward(
        self, x: Tensor, keys: KeyValues, causal: bool = False, need_weights: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """The output (B, T, H), and the attention weights (B, A, T, S) if requested.

        Causal queries are the last T of the S tokens, and attend to none after themselves.
        """
        q, weights = self._split(self.query(x)), None
        pattern, offset = (CAUSAL, keys.k.shape[2] - x.shape[1]) if causal else (FULL, 0)
        if need_weights:
            limits = dense_mask(q, keys.k, pattern, offset, keys.padding, None)
            weights = all_weights(q, keys.k, limits, q.shape[-1] ** -0.5)
            answer = weights @ keys.v
        else:
            answer = softmax_attention(q, keys.k, keys.v, pattern=pattern, key_padding_mask=keys.padding, offset=offset)
        return self.out(answer.transpose(1, 2).flatten(2)), weights

    def _split(self, x: Tensor) -> Tensor:
        B, T, H = x.shape
        return x.view(B, T, self.heads, H // self.heads).transpose(1, 2)  # B A T D


class FeedForward(nn.Sequential):
    """Two linear layers with a GELU between them."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__(nn.Linear(width, inner), nn.GELU(), nn.Linear(inner, width))


class Drop(nn.Module):
    """Dropout of the probability 1 - `keep` in training, the identity otherwise."""

    def __init__(self, keep: float) -> None:
        super().__init__()
        self.keep = keep

    def forward(self, x: Tensor) -> Tensor:
        return dropout(x, self.keep) if self.training else x


class AttentionBlock(nn.Module):
    """Attention and a feed-forward net, each pre-norm and residual: self-attention, or cross-attention to a memory."""

    def __init__(self, width: int, heads: int, inner: int, keep: float) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(width)
        self.attention = CachedAttention(width, heads)
        self.feed_forward_norm = nn.LayerNorm(width)
        self.feed_forward = FeedForward(width, inner)
        self.drop = Drop(keep)

    def forward(
        self, h: Tensor, memory: KeyValues | None = None, padding: Tensor | None = None, need_weights: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """The output (B, T, H), and the attention weights (B, A, T, S) if requested.

        Without a memory h attends to itself, except to its padding (B, T).
        """
        x = self.attention_norm(h)
        keys = self.attention.project(x, padding) if memory is None else memory
        attended, weights = self.attention(x, keys, need_weights=need_weights)
        h = h + self.drop(attended)
        return h + self.drop(self.feed_forward(self.feed_forward_norm(h))), weights
