"""A module of the user's own as a language model: tokens (T, B) to logits (T, B, V)."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from porism.errors import ShapeError
from porism.tasks.language.recipes import LanguageRecipe
from porism.training.task import Carry


class OwnLanguageModel(nn.Module):
    """Each window of `seq_len` tokens by itself: what came before it is not seen, in training as in evaluation.

    A token is generated from the last `seq_len` before it.
    """

    def __init__(self, recipe: LanguageRecipe, vocabulary: int, module: nn.Module) -> None:
        super().__init__()
        self.module = module
        self.vocabulary, self.seq_len = vocabulary, recipe.seq_len

    @property
    def evaluation_steps(self) -> int:
        return self.seq_len

    def start(self, batch: int) -> Carry:
        return {}

    def loss(self, tokens: Tensor, targets: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        """Mean cross-entropy in nats."""
        return functional.cross_entropy(self.scores(tokens).flatten(0, 1), targets.flatten()), {}

    def logits(self, tokens: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        """Of each next token, given those of the carry and those before it."""
        known = torch.cat([carry["tokens"], tokens]) if carry else tokens
        # A window never holds more tokens than one that was trained on.
        seen = known[-max(self.seq_len, len(tokens)) :]
        return self.scores(seen)[-len(tokens) :], {"tokens": known[-self.seq_len :]}

    def scores(self, tokens: Tensor) -> Tensor:
        """The module's logits of a window, (T, B, V)."""
        scores = self.module(tokens)
        expected = (*tokens.shape, self.vocabulary)
        if not isinstance(scores, Tensor) or tuple(scores.shape) != expected:
            got = tuple(scores.shape) if isinstance(scores, Tensor) else f"a {type(scores).__name__}"
            raise ShapeError(
                f"language: the model gives {got} for {tuple(tokens.shape)} tokens, expected {expected}: (T, B, V)."
            )
        return scores
