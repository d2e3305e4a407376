"""Transformer language models: every word attends to itself and the words before it.

    h <- h + attend(norm(h)),   h <- h + W_2 gelu(W_1 norm(h)),   once a layer

How they attend is the recipe's `model`: softmax over all, within a window, by the exponential's series, or exactly near
and by the series far. Position encodings are sinusoids, as many as a training window has. In evaluation and generation
a window is read together with the words before it, up to that length, so that no position is new to the model.
"""

import math

import torch
from torch import Tensor, nn

from porism.layers.attention.heads import Heads
from porism.layers.attention.hybrid import HybridAttention
from porism.layers.attention.softmax import Attention
from porism.layers.attention.taylor import TaylorAttention
from porism.layers.attention.window import WindowAttention
from porism.tasks.blocks.positions import sinusoidal_positions
from porism.tasks.language.model.base import LanguageModel
from porism.tasks.language.recipes import LanguageRecipe
from porism.training.task import Carry


class TransformerModel(LanguageModel):
    """The carry holds the words before, `context` (at most half a training window, B); none while training."""

    def build_net(self) -> None:
        recipe = self.recipe
        self.blocks = nn.ModuleList(TransformerBlock(recipe) for _ in range(recipe.num_layers))
        self.norm = nn.LayerNorm(recipe.hidden_size)

    def draw_weights(self) -> None:
        # Embeddings as long as the position encodings; a tied readout needs them short.
        nn.init.normal_(self.embedding.weight, std=self.recipe.hidden_size**-0.5 if self.recipe.tie_weights else 1.0)
        if not self.recipe.tie_weights:
            nn.init.normal_(self.readout.weight, std=self.recipe.hidden_size**-0.5)

    @property
    def evaluation_steps(self) -> int:
        return max(1, self.recipe.seq_len // 2)

    def start(self, batch: int) -> Carry:
        return {"context": torch.zeros(0, batch, dtype=torch.int64, device=self.embedding.weight.device)}

    def run(self, tokens: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        context = carry["context"]
        read = torch.cat([context, tokens])
        if not self.training:
            keep = self.recipe.seq_len - self.evaluation_steps
            carry = {"context": read[max(0, len(read) - keep) :]}
        h = self.embed(read) * (math.sqrt(self.recipe.hidden_size) if self.recipe.tie_weights else 1.0)
        h = self.drop(h + sinusoidal_positions(len(read), self.recipe.hidden_size, h.device)[:, None])  # T B H
        for block in self.blocks:
            h = block(h, self)
        hidden: Tensor = self.norm(h[len(context) :])
        return hidden, carry


class TransformerBlock(nn.Module):
    """Attention and a feed-forward net, each pre-norm and residual.

    Shapes: h (T, B, H) -> (T, B, H).
    """

    def __init__(self, recipe: LanguageRecipe) -> None:
        super().__init__()
        width, inner = recipe.hidden_size, recipe.feedforward_width
        self.attention_norm = nn.LayerNorm(width)
        self.attention = attention(recipe)
        self.feed_forward_norm = nn.LayerNorm(width)
        self.feed_forward = nn.Sequential(nn.Linear(width, inner), nn.GELU(), nn.Linear(inner, width))

    def forward(self, h: Tensor, model: LanguageModel) -> Tensor:
        attended, _ = self.attention(self.attention_norm(h), is_causal=True)
        h = h + model.drop(attended)
        return h + model.drop(self.feed_forward(self.feed_forward_norm(h)))


def attention(recipe: LanguageRecipe) -> Heads:
    """The layer for a recipe's `model`. All norm their queries and keys, so that they differ only in how they
    attend."""
    width, heads = recipe.hidden_size, recipe.num_heads
    match recipe.model:
        case "window":
            return WindowAttention(width, heads, window_size=recipe.window_size, qk_norm=True)
        case "taylor":
            # It is not to stand in for softmax but to be trained as it is: how far they are apart is no defect here.
            return TaylorAttention(
                width, heads, order=recipe.order, feature_map=recipe.series_map, qk_norm=True, warn_above=None
            )
        case "hybrid":
            return HybridAttention(width, heads, window_size=recipe.window_size, order=recipe.order, qk_norm=True)
        case _:
            return Attention(width, heads, qk_norm=True)
