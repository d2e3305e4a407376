"""What a language model costs, as named terms: V words, D embedding width, H hidden width."""

from collections.abc import Callable
from dataclasses import replace

from torch import Tensor, nn

from porism.cost import B, Cost, D, H, T, V
from porism.layers.elman.cost import cost as elman_cost
from porism.layers.readout.cost import cost as readout_cost
from porism.tasks.language.model import LanguageModel
from porism.tasks.language.recipes import LanguageRecipe


def model_cost(recipe: LanguageRecipe) -> Cost:
    """The cost of a whole model for B rows of T tokens."""
    recurrent = _lstm_cost(recipe.layers) if recipe.model == "lstm" else elman_cost(recipe.layers)
    projection = readout_cost().with_prefix("projection")
    if recipe.tied:
        shared = {name: term for name, term in projection.parameters.items() if "bias" in name}
        projection = Cost(shared, projection.flops, projection.backward, projection.saved)
    return Cost(parameters={"embedding": V * D}) + recurrent.with_prefix("recurrent") + projection


def _lstm_cost(layers: int) -> Cost:
    """torch's LSTM: four gates, each with an input product, a recurrent product and two biases."""
    widths = D + (layers - 1) * H
    return Cost(
        parameters={"input": 4 * H * widths, "recurrent": 4 * layers * H**2, "bias": 8 * layers * H},
        flops={"input": 8 * B * T * H * widths, "recurrent": 8 * layers * B * T * H**2},
        # Each product has two in its backward pass: one for the weight, one for what came in.
        backward={"input": 16 * B * T * H * widths, "recurrent": 16 * layers * B * T * H**2},
    )


class _Loss(nn.Module):
    """A model with its loss, from a state of zeros."""

    def __init__(self, recipe: LanguageRecipe, vocabulary: int) -> None:
        super().__init__()
        self.model = LanguageModel(recipe, vocabulary)

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        loss, _carry = self.model.loss(tokens, targets, self.model.start(tokens.shape[1]))
        return loss


def subject(recipe: LanguageRecipe) -> tuple[Callable[..., nn.Module], tuple[str, ...], dict[str, int]]:
    """The model and its loss at any sizes, the inputs, and the recipe's own sizes."""
    inputs = ("T B : int < V", "T B : int < V")
    sizes = {"B": recipe.batch, "T": recipe.steps, "D": recipe.embedding, "H": recipe.hidden}
    if recipe.tied:
        del sizes["H"]
        return lambda V, D: _Loss(replace(recipe, embedding=D, hidden=D), V), inputs, sizes
    return lambda V, D, H: _Loss(replace(recipe, embedding=D, hidden=H), V), inputs, sizes
