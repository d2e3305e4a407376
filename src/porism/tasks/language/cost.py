"""What a language model costs, as named terms: V words, D embedding width, H hidden width."""

from porism.cost import B, Cost, D, H, T, V
from porism.layers.elman.cost import cost as elman_cost
from porism.layers.readout.cost import cost as readout_cost
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
