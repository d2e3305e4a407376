"""The attention decoder: embedding and learned places, one causal self-attention; it keeps the keys of all symbols."""

import torch
from torch import Tensor, nn

from porism.tasks.speech.attention import Attention, Keys
from porism.tasks.speech.decoder import Decoder, State
from porism.tasks.speech.recipes import SpeechRecipe


class AttendingDecoder(Decoder):
    def build_reader(self, recipe: SpeechRecipe) -> None:
        # A text is read from its start symbol on, and nothing comes behind its stop symbol.
        self.places = nn.Parameter(torch.empty(recipe.longest + 1, recipe.hidden).normal_(std=0.02))
        self.attention_norm = nn.LayerNorm(recipe.hidden)
        self.attention = Attention(recipe.hidden, recipe.heads)

    def read(self, tokens: Tensor, state: State | None) -> tuple[Tensor, State]:
        before = 0 if state is None else state[0].shape[2]
        h = self.drop(self.embedding(tokens) + self.places[before : before + tokens.shape[1]])
        x = self.attention_norm(h)
        keys = self.attention.keys(x)
        if state is not None:
            keys = Keys(torch.cat([state[0], keys.k], 2), torch.cat([state[1], keys.v], 2))
        attended, _ = self.attention(x, keys, causal=True)
        return h + self.drop(attended), (keys.k, keys.v)
