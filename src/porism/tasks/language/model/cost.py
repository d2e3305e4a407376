"""What a language model costs, as named terms: V words, D embedding width, H hidden width."""

from sympy import sympify

from porism.costing.alphabet import A, B, D, H, T, V
from porism.costing.terms import Terms
from porism.layers.attention.hybrid.cost import cost as hybrid_cost
from porism.layers.attention.softmax.cost import cost as attention_cost
from porism.layers.attention.taylor.cost import cost as taylor_cost
from porism.layers.attention.window.cost import cost as window_cost
from porism.layers.readout.cost import cost as readout_cost
from porism.layers.recurrent.elman.cost import cost as elman_cost
from porism.tasks.language.recipes import LanguageRecipe


def model_cost(recipe: LanguageRecipe) -> Terms:
    """The cost of a whole model for B rows of T tokens."""
    if recipe.attends:
        return _attending_cost(recipe)
    recurrent = _lstm_cost(recipe.num_layers) if recipe.model == "lstm" else elman_cost(recipe.num_layers)
    return Terms(parameters={"embedding": V * D}) + recurrent.with_prefix("recurrent") + _projection(recipe)


def _projection(recipe: LanguageRecipe) -> Terms:
    projection = readout_cost().with_prefix("projection")
    if not recipe.tie_weights:
        return projection
    shared = {name: term for name, term in projection.parameters.items() if "bias" in name}
    return Terms(shared, projection.flops, projection.backward_flops, projection.saved)


def _attending_cost(recipe: LanguageRecipe) -> Terms:
    """A heads share the width H: what the layers call D, the width of a head, is H / A here."""
    inner = 2 * H if recipe.dim_feedforward is None else sympify(recipe.dim_feedforward)
    product = 2 * B * T * H * inner
    block = _attention_cost(recipe).with_prefix("attention") + Terms(
        parameters={"temperature": A, "norms": 4 * H, "feed-forward": 2 * H * inner + inner + H},
        flops={"feed-forward": 2 * product},
        backward_flops={"feed-forward": 4 * product},
    )
    blocks = Terms(
        **{
            kind: {name: recipe.num_layers * term.subs(D, H / A) for name, term in block.terms(kind).items()}
            for kind in ("parameters", "flops", "backward_flops")
        }
    )
    return Terms(parameters={"embedding": V * H, "norm": 2 * H}) + blocks + _projection(recipe)


def _attention_cost(recipe: LanguageRecipe) -> Terms:
    match recipe.model:
        case "window":
            return window_cost(window_size=recipe.window_size)
        case "taylor":
            return taylor_cost(causal=True, feature_map="rolled" if recipe.order == 2 else "exact", order=recipe.order)
        case "hybrid":
            return hybrid_cost(window_size=recipe.window_size, order=recipe.order, width=D, length=T)
        case _:
            return attention_cost()


def _lstm_cost(layers: int) -> Terms:
    """torch's LSTM: four gates, each with an input product, a recurrent product and two biases."""
    widths = D + (layers - 1) * H
    return Terms(
        parameters={"input": 4 * H * widths, "recurrent": 4 * layers * H**2, "bias": 8 * layers * H},
        flops={"input": 8 * B * T * H * widths, "recurrent": 8 * layers * B * T * H**2},
        # Each product has two in its backward pass: one for the weight, one for what came in.
        backward_flops={"input": 16 * B * T * H * widths, "recurrent": 16 * layers * B * T * H**2},
    )
