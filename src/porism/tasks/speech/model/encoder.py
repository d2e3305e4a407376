"""The encoder: from a spectrogram to the states that a decoder attends to.

    h = gelu(conv(gelu(conv(x)))) + sinusoids,   then in each block   h <- h + attend(norm(h)),   h <- h + mlp(norm(h))

or, where a recipe says so, blocks of bidirectional LSTMs, which need no positions.

Padding is zero before either convolution, as it is beyond the ends of a spectrogram, and no state attends to it: the
output for a recording does not depend on the batch it is in.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, linear, pad

from porism.tasks.blocks.padding import is_padding, reverse_padded
from porism.tasks.blocks.positions import sinusoidal_positions
from porism.tasks.blocks.transformer import AttentionBlock, Drop
from porism.tasks.speech.recipes import SpeechRecipe


class EncoderOutput(NamedTuple):
    """The encoder's states (B, S, H) and the number of them that are no padding (B,)."""

    states: Tensor
    lengths: Tensor

    @property
    def padding(self) -> Tensor:
        """The key padding mask (B, S)."""
        return is_padding(self.lengths, self.states.shape[1])


class Encoder(nn.Module):
    """Two convolutions, of which one or both have stride 2, then blocks of self-attention or of LSTMs.

    >>> encoder_out = Encoder(RECIPES["attention"], channels=80)(torch.randn(8, 101, 80), torch.full((8,), 101))
    >>> encoder_out.states.shape
    torch.Size([8, 51, 200])

    Shapes: features (B, X, C), lengths (B,) -> states (B, S, H).
    """

    def __init__(self, recipe: SpeechRecipe, channels: int) -> None:
        super().__init__()
        width = recipe.hidden_size
        self.strides = recipe.subsampling // 2, 2
        self.first = nn.Conv1d(channels, width, 3, stride=self.strides[0], padding=1)
        self.second = nn.Conv1d(width, width, 3, stride=self.strides[1], padding=1)
        block = BidirectionalBlock if recipe.encoder == "lstm" else EncoderBlock
        self.has_positions = recipe.encoder == "attention"
        self.blocks = nn.ModuleList(block(recipe) for _ in range(recipe.num_layers))
        self.norm = nn.LayerNorm(width)
        self.drop = Drop(1 - recipe.dropout)

    def forward(self, features: Tensor, lengths: Tensor) -> EncoderOutput:
        h = features
        for layer, stride in zip((self.first, self.second), self.strides, strict=True):
            h = h.masked_fill(is_padding(lengths, h.shape[1])[..., None], 0)
            h = gelu(convolved(h, layer.weight, layer.bias, stride))
            lengths = (lengths + stride - 1) // stride
        h = self.drop(h + sinusoidal_positions(h.shape[1], h.shape[2], h.device) if self.has_positions else h)
        padding = is_padding(lengths, h.shape[1])
        for block in self.blocks:
            h, _ = block(h, padding=padding)
        return EncoderOutput(self.norm(h), lengths)


class EncoderBlock(AttentionBlock):
    """Self-attention and a feed-forward net. Shapes: h (B, S, H), padding (B, S) -> (B, S, H)."""

    def __init__(self, recipe: SpeechRecipe) -> None:
        super().__init__(recipe.hidden_size, recipe.num_heads, recipe.feedforward_width, 1 - recipe.dropout)


def convolved(x: Tensor, weight: Tensor, bias: Tensor | None, stride: int) -> Tensor:
    """A convolution with kernel size 3 and padding 1 of x (B, X, C): one product of each three neighbours side by side.

    The same as conv1d, but channels last, as all layers around it have them, and on a CPU twice as fast backwards.
    """
    wide = pad(x, (0, 0, 1, 1))
    states = (x.shape[1] - 1) // stride + 1
    neighbours = [wide[:, tap : tap + (states - 1) * stride + 1 : stride] for tap in range(3)]
    return linear(torch.cat(neighbours, 2), weight.transpose(1, 2).flatten(1), bias)


class BidirectionalBlock(nn.Module):
    """An LSTM from either end and a projection, pre-norm and residual.

    Two LSTMs, since torch's bidirectional one would read the padding first on its way back.

    Shapes: h (B, S, H), padding (B, S) -> (B, S, H).
    """

    def __init__(self, recipe: SpeechRecipe) -> None:
        super().__init__()
        width = recipe.hidden_size
        self.norm = nn.LayerNorm(width)
        self.ahead = nn.LSTM(width, width, batch_first=True)
        self.behind = nn.LSTM(width, width, batch_first=True)
        self.out = nn.Linear(2 * width, width)
        self.drop = Drop(1 - recipe.dropout)

    def forward(self, h: Tensor, padding: Tensor) -> tuple[Tensor, None]:
        x, lengths = self.norm(h), (~padding).sum(1)
        # Padding comes last for both: no state depends on it. A state_dict calls the two directions ahead and behind.
        forward, _ = self.ahead(x)
        backward, _ = self.behind(reverse_padded(x, lengths, 1))
        both = torch.cat([forward, reverse_padded(backward, lengths, 1)], 2)
        return h + self.drop(self.out(self.drop(both))), None
