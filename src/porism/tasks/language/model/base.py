"""Language models: embed the words, let a net run over them, project onto the vocabulary.

e[t] = x[t] L,   h = net(e),   yhat[t] = softmax(h[t] U + b2)
"""

from abc import abstractmethod
from typing import cast

import torch
from torch import Tensor, nn

from porism.layers.dropout import dropout
from porism.layers.embedding import Embedding
from porism.layers.readout import Readout
from porism.tasks.language.recipes import LanguageRecipe
from porism.training.task import Carry


class LanguageModel(nn.Module):
    """An embedding, a net that a kind of model brings, and a readout.

    Shapes: tokens (T, B) -> logits (T, B, V).
    """

    def __init__(self, recipe: LanguageRecipe, vocabulary: int) -> None:
        super().__init__()
        self.recipe = recipe
        self.embedding = Embedding(vocabulary, recipe.embedding_dim)
        self.build_net()
        shared = self.embedding.weight if recipe.tie_weights else None
        self.readout = Readout(recipe.hidden_size, vocabulary, weight=cast(nn.Parameter | None, shared))
        self.draw_weights()

    @abstractmethod
    def build_net(self) -> None:
        """The modules between the embedding and the readout."""

    @abstractmethod
    def draw_weights(self) -> None:
        """How the parameters start."""

    @property
    @abstractmethod
    def evaluation_steps(self) -> int:
        """Tokens of a window when the model is evaluated; what came before is in the carry."""

    @abstractmethod
    def start(self, batch: int) -> Carry:
        """What the first window of a pass is handed."""

    @abstractmethod
    def run(self, tokens: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        """The states (T, B, H) that the readout reads, and what the next window is handed."""

    def loss(self, tokens: Tensor, targets: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        """Mean cross-entropy in nats, and the carry, cut off from the gradient."""
        hidden, carry = self.run(tokens, carry)
        return self.readout.loss(self.drop(hidden), targets), {name: x.detach() for name, x in carry.items()}

    def logits(self, tokens: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        """What the net says of each next word, before the softmax."""
        hidden, carry = self.run(tokens, carry)
        return self.readout(self.drop(hidden)), carry

    def embed(self, tokens: Tensor) -> Tensor:
        embedded: Tensor = self.embedding(tokens)
        if not self.training or self.recipe.embedding_dropout == 0:
            return embedded
        # A dropped word is dropped everywhere in the window.
        weight = self.embedding.weight
        kept = dropout(weight.new_ones(weight.shape[0], 1), 1 - self.recipe.embedding_dropout)  # V 1
        return embedded * kept[tokens]

    def drop(self, x: Tensor) -> Tensor:
        if not self.training:
            return x
        if not self.recipe.variational_dropout:
            return dropout(x, 1 - self.recipe.dropout)
        return x * dropout(torch.ones_like(x[:1]), 1 - self.recipe.dropout)
