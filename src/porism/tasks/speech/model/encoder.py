"""The encoder: from a spectrogram to states that a decoder can look at.

    h = gelu(conv(gelu(conv(x)))) + sines,   then in each block   h <- h + attend(norm(h)),   h <- h + mlp(norm(h))

or, where a recipe says so, blocks of LSTMs, which need no sines to know where they are.

Padding is zero before either convolution, as it is beyond the ends of a spectrogram, and no state looks at it: what is
heard in a recording does not depend on the batch it came in.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, linear, pad

from porism.tasks.blocks.padding import is_padding, reverse_padded
from porism.tasks.blocks.transformer import CachedAttention, Drop, FeedForward
from porism.tasks.speech.recipes import SpeechRecipe


class Heard(NamedTuple):
    """The encoder's states (B, S, H) and how many of each row count (B,)."""

    states: Tensor
    lengths: Tensor

    @property
    def padding(self) -> Tensor:
        return is_padding(self.lengths, self.states.shape[1])

    def chosen(self, rows: Tensor) -> "Heard":
        return Heard(self.states[rows], self.lengths[rows])


class Encoder(nn.Module):
    """Two convolutions, of which one or both take every second place, then blocks of self-attention or of LSTMs.

    >>> heard = Encoder(RECIPES["attention"], channels=80)(torch.randn(8, 101, 80), torch.full((8,), 101))
    >>> heard.states.shape
    torch.Size([8, 51, 200])

    Shapes: features (B, X, C), lengths (B,) -> states (B, S, H).
    """

    def __init__(self, recipe: SpeechRecipe, channels: int) -> None:
        super().__init__()
        width = recipe.hidden_size
        self.strides = recipe.subsampling // 2, 2
        self.first = nn.Conv1d(channels, width, 3, stride=self.strides[0], padding=1)
        self.second = nn.Conv1d(width, width, 3, stride=self.strides[1], padding=1)
        block = BidirectionalBlock if recipe.encoder == "lstm" else Block
        self.placed = recipe.encoder == "attention"
        self.blocks = nn.ModuleList(block(recipe) for _ in range(recipe.num_layers))
        self.norm = nn.LayerNorm(width)
        self.drop = Drop(1 - recipe.dropout)

    def forward(self, features: Tensor, lengths: Tensor) -> Heard:
        h = features
        for layer, stride in zip((self.first, self.second), self.strides, strict=True):
            h = h.masked_fill(is_padding(lengths, h.shape[1])[..., None], 0)
            h = gelu(convolved(h, layer.weight, layer.bias, stride))
            lengths = (lengths + stride - 1) // stride
        h = self.drop(h + sines(h.shape[1], h.shape[2], h.device) if self.placed else h)
        padding = is_padding(lengths, h.shape[1])
        for block in self.blocks:
            h = block(h, padding)
        return Heard(self.norm(h), lengths)


class Block(nn.Module):
    """Self-attention and a feed-forward net, each behind a norm and beside a straight way."""

    def __init__(self, recipe: SpeechRecipe) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(recipe.hidden_size)
        self.attention = CachedAttention(recipe.hidden_size, recipe.num_heads)
        self.feed_forward_norm = nn.LayerNorm(recipe.hidden_size)
        self.feed_forward = FeedForward(recipe.hidden_size, recipe.feedforward_width)
        self.drop = Drop(1 - recipe.dropout)

    def forward(self, h: Tensor, padding: Tensor) -> Tensor:
        x = self.attention_norm(h)
        attended, _ = self.attention(x, self.attention.project(x, padding))
        h = h + self.drop(attended)
        changed: Tensor = h + self.drop(self.feed_forward(self.feed_forward_norm(h)))
        return changed


def convolved(x: Tensor, weight: Tensor, bias: Tensor | None, stride: int) -> Tensor:
    """A convolution over three places, padded by one, of x (B, X, C): the product of neighbours side by side.

    It is what conv1d does, with the channels last as everything around has them, and on a CPU twice as fast backwards.
    """
    wide = pad(x, (0, 0, 1, 1))
    states = (x.shape[1] - 1) // stride + 1
    neighbours = [wide[:, place : place + (states - 1) * stride + 1 : stride] for place in range(3)]
    return linear(torch.cat(neighbours, 2), weight.transpose(1, 2).flatten(1), bias)


def sines(length: int, width: int, device: torch.device) -> Tensor:
    """Sines and cosines of each place, from one turn in six places to one in sixty thousand: (length, width)."""
    turns = torch.exp(torch.arange(0, width, 2, device=device) * (-math.log(10_000.0) / width))
    angles = torch.arange(length, device=device)[:, None] * turns
    return torch.cat([angles.sin(), angles.cos()], dim=1)[:, :width]


class BidirectionalBlock(nn.Module):
    """Shapes: h (B, S, H), padding (B, S) -> (B, S, H)."""

    def __init__(self, recipe: SpeechRecipe) -> None:
        super().__init__()
        width = recipe.hidden_size
        self.norm = nn.LayerNorm(width)
        self.ahead = nn.LSTM(width, width, batch_first=True)
        self.behind = nn.LSTM(width, width, batch_first=True)
        self.out = nn.Linear(2 * width, width)
        self.drop = Drop(1 - recipe.dropout)

    def forward(self, h: Tensor, padding: Tensor) -> Tensor:
        x, lengths = self.norm(h), (~padding).sum(1)
        # Padding comes last for either: no state has read any of it.
        ahead, _ = self.ahead(x)
        behind, _ = self.behind(reverse_padded(x, lengths, 1))
        both = torch.cat([ahead, reverse_padded(behind, lengths, 1)], 2)
        changed: Tensor = h + self.drop(self.out(self.drop(both)))
        return changed
