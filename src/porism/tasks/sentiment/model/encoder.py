"""An encoder of our own attention layers, trained from scratch.

    h <- h + attend(norm(h)),   h <- h + W_2 gelu(W_1 norm(h)),   once a layer
    a = softmax(norm(h) u),   p = tanh((sum of a[t] h[t]) W + b)

Every word attends to words on both sides. How is the recipe's `model`: softmax over all, within a window, by the
exponential's series, or exactly near and by the series far. The last line pools: a[t] is the weight of word t.
"""

import torch
from torch import Tensor, nn

from porism.layers.attention.heads import Heads
from porism.layers.attention.hybrid import HybridAttention
from porism.layers.attention.pattern import Pattern
from porism.layers.attention.softmax import Attention
from porism.layers.attention.taylor import TaylorAttention
from porism.layers.attention.window import WindowAttention
from porism.tasks.blocks.positions import sinusoidal_positions
from porism.tasks.blocks.transformer import FeedForward
from porism.tasks.sentiment.model.base import Encoded, TextEncoder
from porism.tasks.sentiment.recipes import SentimentRecipe


class AttentionEncoder(TextEncoder):
    """Embedded words with sinusoidal positions, attention layers, and a pool that weighs the words.

    Shapes: tokens (B, T), padding (B, T) -> hidden (B, T, H), pooled (B, H).
    """

    def __init__(self, recipe: SentimentRecipe, vocabulary: int, unk: int) -> None:
        super().__init__()
        self.recipe, self.unk, self.width = recipe, unk, recipe.hidden_size
        self.embedding = nn.Embedding(vocabulary, recipe.hidden_size)
        self.blocks = nn.ModuleList(TextEncoderBlock(recipe) for _ in range(recipe.num_layers))
        self.norm = nn.LayerNorm(recipe.hidden_size)
        self.word_score = nn.Linear(recipe.hidden_size, 1, bias=False)
        self.pooler = nn.Linear(recipe.hidden_size, recipe.hidden_size)
        self.dropout = nn.Dropout(recipe.dropout)

    def forward(self, tokens: Tensor, padding: Tensor) -> Encoded:
        hidden = self._hidden(tokens, padding)
        weights = self._weights(hidden, padding)
        pooled = torch.tanh(self.pooler((weights[:, None] @ hidden).squeeze(1)))  # B 1 T, B T H -> B H
        return Encoded(hidden, pooled)

    def word_weights(self, tokens: Tensor, padding: Tensor) -> Tensor:
        return self._weights(self._hidden(tokens, padding), padding)

    def layers(self) -> list[list[nn.Module]]:
        return [[self.embedding], *([block] for block in self.blocks), [self.norm, self.word_score, self.pooler]]

    def _hidden(self, tokens: Tensor, padding: Tensor) -> Tensor:
        if self.training and self.recipe.word_dropout:
            masked = torch.rand(tokens.shape, device=tokens.device) < self.recipe.word_dropout
            tokens = tokens.masked_fill(masked, self.unk)
        positions = sinusoidal_positions(tokens.shape[1], self.width, tokens.device)
        h = self.dropout(self.embedding(tokens) + positions)  # B T H
        for block in self.blocks:
            h = block(h, padding)
        hidden: Tensor = self.norm(h)
        return hidden

    def _weights(self, hidden: Tensor, padding: Tensor) -> Tensor:
        scores = self.word_score(hidden).squeeze(-1).float()  # B T
        weights: Tensor = scores.masked_fill(padding, -torch.inf).softmax(1).to(hidden.dtype)
        return weights


class TextEncoderBlock(nn.Module):
    """Attention and a feed-forward net, each pre-norm and residual.

    Shapes: h (B, T, H), padding (B, T) -> (B, T, H).
    """

    def __init__(self, recipe: SentimentRecipe) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(recipe.hidden_size)
        self.attention = attention(recipe)
        self.feed_forward_norm = nn.LayerNorm(recipe.hidden_size)
        self.feed_forward = FeedForward(recipe.hidden_size, recipe.feedforward_width)
        self.dropout = nn.Dropout(recipe.dropout)

    def forward(self, h: Tensor, padding: Tensor) -> Tensor:
        attended, _ = self.attention(self.attention_norm(h), key_padding_mask=padding)
        h = h + self.dropout(attended)
        output: Tensor = h + self.dropout(self.feed_forward(self.feed_forward_norm(h)))
        return output


def attention(recipe: SentimentRecipe) -> Heads:
    """The layer for a recipe's `model`. All norm their queries and keys, so that they differ only in how they
    attend."""
    width, heads = recipe.hidden_size, recipe.num_heads
    match recipe.model:
        case "window":
            both_sides = Pattern("sliding", window_size=recipe.window_size, lookahead=recipe.window_size - 1)
            return WindowAttention(width, heads, pattern=both_sides, batch_first=True, qk_norm=True)
        case "taylor":
            # It is not to stand in for softmax but to be trained as it is: how far they are apart is no defect here.
            return TaylorAttention(width, heads, order=recipe.order, batch_first=True, qk_norm=True, warn_above=None)
        case "hybrid":
            near, order = recipe.window_size, recipe.order
            return HybridAttention(width, heads, window_size=near, order=order, batch_first=True, qk_norm=True)
        case _:
            return Attention(width, heads, batch_first=True, qk_norm=True)
