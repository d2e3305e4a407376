"""What is counted of a language model: B rows of T tokens, V words, D embedding width, H hidden width."""

from dataclasses import replace

from torch import Tensor, nn

from porism.costing.subject import CostSubject
from porism.tasks.language.model.build import build
from porism.tasks.language.recipes import LanguageRecipe


class LanguageModelWithLoss(nn.Module):
    """A model with its loss, from a state of zeros."""

    def __init__(self, recipe: LanguageRecipe, vocabulary: int) -> None:
        super().__init__()
        self.model = build(recipe, vocabulary)

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        loss, _carry = self.model.loss(tokens, targets, self.model.start(tokens.shape[1]))
        return loss


def subject(recipe: LanguageRecipe) -> CostSubject:
    """The model and its loss at any sizes, the inputs, and the recipe's own sizes."""
    inputs = ("T B : int < V", "T B : int < V")
    sizes = {"B": recipe.batch_size, "T": recipe.seq_len, "H": recipe.hidden_size}
    sized_fields = ("seq_len", "embedding_dim", "hidden_size")
    if recipe.attends:
        return CostSubject(
            lambda V, H: LanguageModelWithLoss(replace(recipe, embedding_dim=H, hidden_size=H), V),
            inputs,
            sizes,
            multiples={"H": width_step(recipe.model, recipe.hidden_size, recipe.num_heads)},
            fixed={} if recipe.model == "attention" else {"T": recipe.seq_len},
            sized_fields=sized_fields,
        )
    if recipe.tie_weights:
        return CostSubject(
            lambda V, H: LanguageModelWithLoss(replace(recipe, embedding_dim=H, hidden_size=H), V),
            inputs,
            sizes,
            sized_fields=sized_fields,
        )
    return CostSubject(
        lambda V, D, H: LanguageModelWithLoss(replace(recipe, embedding_dim=D, hidden_size=H), V),
        inputs,
        sizes | {"D": recipe.embedding_dim},
        sized_fields=sized_fields,
    )


def width_step(model: str, width: int, heads: int) -> int:
    """The numbers of which the width is a multiple: heads divide it, and a series pairs the features of a head."""
    pairs = model in ("taylor", "hybrid") and width % (2 * heads) == 0
    return 2 * heads if pairs else heads
