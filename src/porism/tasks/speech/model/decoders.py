"""Decoders: from the previous symbols and the encoder's output to the next symbol.

Each has layers of its own over the previous symbols; both share a block of cross-attention and the readout.
"""

from abc import abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor, nn

from porism.tasks.blocks.transformer import AttentionBlock, CachedAttention, Drop, KeyValues
from porism.tasks.speech.model.encoder import EncoderOutput
from porism.tasks.speech.recipes import SpeechRecipe

State = tuple[Tensor, ...]
"""What a decoder keeps of the previous symbols: tensors whose first size is the batch."""


class DecoderOutput(NamedTuple):
    """Logits of the next symbol (B, T, V), the state after the last, and attention weights (B, A, T, S) or None."""

    logits: Tensor
    state: State
    weights: Tensor | None


class Decoder(nn.Module):
    """A text is decoded at once or step by step, with the state between the steps.

    >>> memory = decoder.project(encoder_out)
    >>> whole = decoder(tokens, memory).logits                                     # B T -> B T V
    >>> first = decoder(tokens[:, :5], memory)
    >>> rest = decoder(tokens[:, 5:], memory, first.state)                         # the same from the sixth on
    """

    def __init__(self, recipe: SpeechRecipe, symbols: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(symbols, recipe.hidden_size)
        self.build_text_layers(recipe)
        self.crossing = CrossAttentionBlock(recipe)
        self.norm = nn.LayerNorm(recipe.hidden_size)
        self.readout = nn.Linear(recipe.hidden_size, symbols)
        self.drop = Drop(1 - recipe.dropout)

    @abstractmethod
    def build_text_layers(self, recipe: SpeechRecipe) -> None:
        """The modules over the previous symbols."""

    @abstractmethod
    def encode_text(self, tokens: Tensor, state: State | None) -> tuple[Tensor, State]:
        """Hidden states of the text up to each symbol, (B, T, H), and the state after the last."""

    def project(self, encoder_out: EncoderOutput) -> KeyValues:
        """Keys and values of the encoder's output, made once for a recording."""
        return self.crossing.attention.project(encoder_out.states, encoder_out.padding)

    def forward(
        self, tokens: Tensor, memory: KeyValues, state: State | None = None, need_weights: bool = False
    ) -> DecoderOutput:
        h, state = self.encode_text(tokens, state)
        h, weights = self.crossing(h, memory, need_weights=need_weights)
        return DecoderOutput(self.readout(self.norm(h)), state, weights)


class CrossAttentionBlock(AttentionBlock):
    """Attention to the encoder's output, then a feed-forward net."""

    def __init__(self, recipe: SpeechRecipe) -> None:
        super().__init__(recipe.hidden_size, recipe.num_heads, recipe.decoder_feedforward_width, 1 - recipe.dropout)


class AttentionDecoder(Decoder):
    """Causal self-attention over the previous symbols, with learned positions."""

    def build_text_layers(self, recipe: SpeechRecipe) -> None:
        # The decoder reads a text from its sos on, and never its eos. A state_dict calls the positions places.
        self.places = nn.Parameter(torch.empty(recipe.max_target_length + 1, recipe.hidden_size).normal_(std=0.02))
        self.attention_norm = nn.LayerNorm(recipe.hidden_size)
        self.attention = CachedAttention(recipe.hidden_size, recipe.num_heads)

    def encode_text(self, tokens: Tensor, state: State | None) -> tuple[Tensor, State]:
        start = 0 if state is None else state[0].shape[2]
        h = self.drop(self.embedding(tokens) + self.places[start : start + tokens.shape[1]])
        x = self.attention_norm(h)
        keys = self.attention.project(x)
        if state is not None:
            keys = KeyValues(torch.cat([state[0], keys.k], 2), torch.cat([state[1], keys.v], 2))
        attended, _ = self.attention(x, keys, causal=True)
        return h + self.drop(attended), (keys.k, keys.v)


class LSTMDecoder(Decoder):
    """An LSTM over the previous symbols."""

    def build_text_layers(self, recipe: SpeechRecipe) -> None:
        self.embedding_norm = nn.LayerNorm(recipe.hidden_size)
        self.lstm = nn.LSTM(recipe.hidden_size, recipe.hidden_size, batch_first=True)

    def encode_text(self, tokens: Tensor, state: State | None) -> tuple[Tensor, State]:
        x = self.drop(self.embedding_norm(self.embedding(tokens)))
        # torch's states have the layers first, ours the batch.
        hx = None if state is None else (state[0].transpose(0, 1).contiguous(), state[1].transpose(0, 1).contiguous())
        h, (h_n, c_n) = self.lstm(x, hx)
        return self.drop(h), (h_n.transpose(0, 1), c_n.transpose(0, 1))
