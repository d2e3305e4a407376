"""Decoders: from the symbols so far and what was heard to the next symbol.

Each reads the symbols in its own way; what they share is a block that looks at the encoder's states, and the readout.
"""

from abc import abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor, nn

from porism.tasks.blocks.transformer import CachedAttention, Drop, FeedForward, KeyValues
from porism.tasks.speech.model.encoder import Heard
from porism.tasks.speech.recipes import SpeechRecipe

State = tuple[Tensor, ...]
"""What a decoder remembers of the symbols so far: tensors whose first size is the batch."""


class Decoded(NamedTuple):
    """Logits of the symbol after each (B, T, V), the state after the last, and the weights (B, A, T, S) if needed."""

    logits: Tensor
    state: State
    weights: Tensor | None


class Decoder(nn.Module):
    """A text is decoded at once or piece by piece, with the state between the pieces.

    >>> keys = decoder.look(heard)
    >>> whole = decoder(tokens, keys).logits                                     # B T -> B T V
    >>> first = decoder(tokens[:, :5], keys)
    >>> rest = decoder(tokens[:, 5:], keys, first.state)                         # the same from the sixth on
    """

    def __init__(self, recipe: SpeechRecipe, symbols: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(symbols, recipe.hidden_size)
        self.build_reader(recipe)
        self.crossing = Crossing(recipe)
        self.norm = nn.LayerNorm(recipe.hidden_size)
        self.readout = nn.Linear(recipe.hidden_size, symbols)
        self.drop = Drop(1 - recipe.dropout)

    @abstractmethod
    def build_reader(self, recipe: SpeechRecipe) -> None:
        """The modules that read the symbols."""

    @abstractmethod
    def read(self, tokens: Tensor, state: State | None) -> tuple[Tensor, State]:
        """What is known of the text behind each symbol, (B, T, H), and the state behind the last."""

    def look(self, heard: Heard) -> KeyValues:
        """What the decoder looks at, made once for a recording."""
        return self.crossing.attention.project(heard.states, heard.padding)

    def forward(
        self, tokens: Tensor, keys: KeyValues, state: State | None = None, need_weights: bool = False
    ) -> Decoded:
        h, state = self.read(tokens, state)
        h, weights = self.crossing(h, keys, need_weights)
        return Decoded(self.readout(self.norm(h)), state, weights)


class Crossing(nn.Module):
    """Looks at what was heard, then a feed-forward net, each behind a norm and beside a straight way."""

    def __init__(self, recipe: SpeechRecipe) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(recipe.hidden_size)
        self.attention = CachedAttention(recipe.hidden_size, recipe.num_heads)
        self.feed_forward_norm = nn.LayerNorm(recipe.hidden_size)
        self.feed_forward = FeedForward(recipe.hidden_size, recipe.decoder_feedforward_width)
        self.drop = Drop(1 - recipe.dropout)

    def forward(self, h: Tensor, keys: KeyValues, need_weights: bool) -> tuple[Tensor, Tensor | None]:
        looked, weights = self.attention(self.attention_norm(h), keys, need_weights=need_weights)
        h = h + self.drop(looked)
        return h + self.drop(self.feed_forward(self.feed_forward_norm(h))), weights


class AttendingDecoder(Decoder):
    def build_reader(self, recipe: SpeechRecipe) -> None:
        # A text is read from its start symbol on, and nothing comes behind its stop symbol.
        self.places = nn.Parameter(torch.empty(recipe.max_target_length + 1, recipe.hidden_size).normal_(std=0.02))
        self.attention_norm = nn.LayerNorm(recipe.hidden_size)
        self.attention = CachedAttention(recipe.hidden_size, recipe.num_heads)

    def read(self, tokens: Tensor, state: State | None) -> tuple[Tensor, State]:
        before = 0 if state is None else state[0].shape[2]
        h = self.drop(self.embedding(tokens) + self.places[before : before + tokens.shape[1]])
        x = self.attention_norm(h)
        keys = self.attention.project(x)
        if state is not None:
            keys = KeyValues(torch.cat([state[0], keys.k], 2), torch.cat([state[1], keys.v], 2))
        attended, _ = self.attention(x, keys, causal=True)
        return h + self.drop(attended), (keys.k, keys.v)


class RecurrentDecoder(Decoder):
    def build_reader(self, recipe: SpeechRecipe) -> None:
        self.embedding_norm = nn.LayerNorm(recipe.hidden_size)
        self.lstm = nn.LSTM(recipe.hidden_size, recipe.hidden_size, batch_first=True)

    def read(self, tokens: Tensor, state: State | None) -> tuple[Tensor, State]:
        x = self.drop(self.embedding_norm(self.embedding(tokens)))
        # torch keeps the layers of a state in front of its batch.
        before = (
            None if state is None else (state[0].transpose(0, 1).contiguous(), state[1].transpose(0, 1).contiguous())
        )
        h, (hidden, cell) = self.lstm(x, before)
        return self.drop(h), (hidden.transpose(0, 1), cell.transpose(0, 1))
