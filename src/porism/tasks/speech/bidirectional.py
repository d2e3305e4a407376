"""A block of the encoder that reads the states from both ends, by two LSTMs.

    h <- h + W [ahead(norm(h)); behind(norm(h))]

Little speech is enough for it: unlike attention it need not learn from examples that neighbours belong together.
"""

import torch
from torch import Tensor, nn

from porism.tasks.speech.attention import Drop
from porism.tasks.speech.mirror import mirror
from porism.tasks.speech.recipes import SpeechRecipe


class BidirectionalBlock(nn.Module):
    """Shapes: h (B, S, H), padding (B, S) -> (B, S, H)."""

    def __init__(self, recipe: SpeechRecipe) -> None:
        super().__init__()
        width = recipe.hidden
        self.norm = nn.LayerNorm(width)
        self.ahead = nn.LSTM(width, width, batch_first=True)
        self.behind = nn.LSTM(width, width, batch_first=True)
        self.out = nn.Linear(2 * width, width)
        self.drop = Drop(recipe.keep)

    def forward(self, h: Tensor, padding: Tensor) -> Tensor:
        x, lengths = self.norm(h), (~padding).sum(1)
        # Padding comes last for either: no state has read any of it.
        ahead, _ = self.ahead(x)
        behind, _ = self.behind(mirror(x, lengths, 1))
        both = torch.cat([ahead, mirror(behind, lengths, 1)], 2)
        changed: Tensor = h + self.drop(self.out(self.drop(both)))
        return changed
