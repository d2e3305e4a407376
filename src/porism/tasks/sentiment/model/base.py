"""A classifier of texts: an encoder, its pooled output, dropout, and a linear layer to the classes.

p = pool(encode(x)),   logits = drop(p) W + b
"""

from abc import abstractmethod
from typing import NamedTuple

from torch import Tensor, nn

from porism.tasks.blocks.padding import is_padding
from porism.training.optimizer import ParameterGroup


class Encoded(NamedTuple):
    """hidden (B, T, H), one state a token; pooled (B, H), one for the text."""

    hidden: Tensor
    pooled: Tensor


class TextEncoder(nn.Module):
    """What the classifier asks of an encoder."""

    width: int
    """Of the pooled output."""

    @abstractmethod
    def forward(self, tokens: Tensor, padding: Tensor) -> Encoded:
        """States of token ids (B, T), their key padding mask (B, T) being True where a text has ended."""

    @abstractmethod
    def word_weights(self, tokens: Tensor, padding: Tensor) -> Tensor:
        """The weight of each token in the pooled output, (B, T): non-negative, of sum 1 over a text."""

    @abstractmethod
    def layers(self) -> list[list[nn.Module]]:
        """The modules below the head from the lowest up: the embeddings, each layer, what comes after the last."""


class Classifier(nn.Module):
    """An encoder with a classification head.

    Shapes: tokens (B, T), lengths (B,) -> logits (B, classes).
    """

    def __init__(self, encoder: TextEncoder, classes: int, dropout: float) -> None:
        super().__init__()
        self.encoder = encoder
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(encoder.width, classes)

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        encoded = self.encoder(tokens, is_padding(lengths, tokens.shape[1]))
        logits: Tensor = self.head(self.dropout(encoded.pooled))
        return logits

    def freeze(self, count: int) -> None:
        """Do not train the embeddings and the lowest `count` layers; 0 trains all."""
        for modules in self.encoder.layers()[: count + 1] if count else []:
            for module in modules:
                module.requires_grad_(False)

    def parameter_groups(self, decay: float) -> list[ParameterGroup]:
        """The head at the full learning rate, each layer below at `decay` times that of the layer above.

        What comes after the last layer, such as a pooler, has the rate of the head.
        """
        if decay == 1:
            return [ParameterGroup(list(self.parameters()))]
        *below, top = self.encoder.layers()
        groups = [ParameterGroup([*self.head.parameters(), *_parameters(top)])]
        groups += [
            ParameterGroup(_parameters(modules), decay**depth) for depth, modules in enumerate(reversed(below), 1)
        ]
        return [group for group in groups if group.parameters]


def _parameters(modules: list[nn.Module]) -> list[nn.Parameter]:
    return [parameter for module in modules for parameter in module.parameters()]
