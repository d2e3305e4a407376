"""What a classifier of texts costs, as named terms: B texts of T tokens out of V, states H wide in A heads.

Every product has two in its backward pass, one for the weight and one for the input. Frozen layers have none.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from sympy import Expr, Integer, sympify
from torch import Tensor, nn
from torch.nn import functional

from porism.costing.alphabet import A, B, D, H, T, V
from porism.costing.counting.target import Target
from porism.costing.terms import Terms
from porism.layers.attention.hybrid.cost import cost as hybrid_cost
from porism.layers.attention.softmax.cost import core as softmax_core
from porism.layers.attention.softmax.cost import cost as attention_cost
from porism.layers.attention.taylor.cost import cost as taylor_cost
from porism.layers.attention.window.cost import cost as window_cost
from porism.tasks.sentiment.data.reviews import CLASSES
from porism.tasks.sentiment.model.build import build
from porism.tasks.sentiment.model.pretrained import known_config, make_config
from porism.tasks.sentiment.recipes import SentimentRecipe

WITH_FORMULA = ("bert", "roberta", "xlm-roberta", "camembert")
"""Kinds of pretrained encoders whose cost is derived here. That of others is counted."""
COUNTED = ("parameters", "flops", "backward_flops")


def model_cost(recipe: SentimentRecipe, config: Mapping[str, Any] | None, length: int) -> Terms:
    """The cost of a whole model for B texts of T tokens. `config` is that of a pretrained encoder.

    length: the tokens of a text at which an encoder is counted that no formula is known of.
    """
    if config is None:
        return _own_cost(recipe)
    full = make_config(config)
    return _bert_cost(recipe, full) if full.model_type in WITH_FORMULA else _counted_cost(recipe, full, length)


def model_letters(
    recipe: SentimentRecipe, config: Mapping[str, Any] | None, vocabulary: int, length: int
) -> dict[str, int]:
    """The sizes of the letters, of one text."""
    if config is None:
        return {"B": 1, "T": length, "V": vocabulary, "H": recipe.hidden_size, "A": recipe.num_heads}
    full = make_config(config)
    return {"B": 1, "T": length, "V": full.vocab_size, "H": full.hidden_size, "A": full.num_attention_heads}


def subject(recipe: SentimentRecipe) -> tuple[Callable[..., nn.Module], tuple[Any, ...], dict[str, int]]:
    """What `porism cost` counts: the model and its loss at any sizes, the inputs, the recipe's own sizes.

    The heads' width D is the letter that may be anything: then heads divide the width.
    """
    inputs = ("B T : int < V", "B : int", f"B : int < {len(CLASSES)}")
    sizes = {"B": recipe.batch_size, "T": recipe.max_length}
    if recipe.is_pretrained:
        known = make_config(known_config(recipe.encoder))
        heads, width = known.num_attention_heads, known.hidden_size // known.num_attention_heads
        return (
            lambda V, A, D: ClassifierLoss(recipe, V, _resized(known, V, A, D)),
            inputs,
            sizes | {"A": heads, "D": width, "V": known.vocab_size},
        )
    sizes |= {"A": recipe.num_heads, "D": recipe.hidden_size // recipe.num_heads}
    return lambda V, A, D: ClassifierLoss(replace(recipe, hidden_size=A * D, num_heads=A), V, None), inputs, sizes


class ClassifierLoss(nn.Module):
    """A model with its loss. Every text is as long as the batch."""

    def __init__(self, recipe: SentimentRecipe, vocabulary: int, config: Any) -> None:
        super().__init__()
        self.model = build(recipe, vocabulary, config=config)

    def forward(self, tokens: Tensor, lengths: Tensor, labels: Tensor) -> Tensor:
        return functional.cross_entropy(self.model(tokens, lengths + tokens.shape[1]), labels)


def _resized(config: Any, vocabulary: int, heads: int, width: int) -> Any:
    """The configuration with other sizes, the feed-forward net as many times as wide as before."""
    times = config.intermediate_size // config.hidden_size
    changed = {"vocab_size": vocabulary, "num_attention_heads": heads, "hidden_size": heads * width}
    return make_config({**config.to_dict(), **changed, "intermediate_size": times * heads * width})


def _own_cost(recipe: SentimentRecipe) -> Terms:
    """A heads share the width H: what the layers call D, the width of a head, is H / A here."""
    inner = 2 * H if recipe.dim_feedforward is None else sympify(recipe.dim_feedforward)
    block = _attention_cost(recipe).with_prefix("attention") + Terms(parameters={"temperature": A, "norms": 4 * H})
    block += _linear("feed-forward", B * T, H, inner) + _linear("feed-forward", B * T, inner, H)
    trained = recipe.num_layers - recipe.num_frozen_layers
    times = {"parameters": recipe.num_layers, "flops": recipe.num_layers, "backward_flops": trained}
    blocks = Terms(
        **{
            kind: {name: times[kind] * term.subs(D, H / A) for name, term in block.terms(kind).items() if times[kind]}
            for kind in COUNTED
        }
    )
    pool = _linear("weights of words", B * T, H, Integer(1), bias=False) + Terms(
        flops={"weighed sum": 2 * B * T * H}, backward_flops={"weighed sum": 4 * B * T * H}
    )
    rest = pool + _linear("pooler", B, H, H) + _linear("head", B, H, Integer(len(CLASSES)))
    return Terms(parameters={"embedding": V * H, "norm": 2 * H}) + blocks + rest


def _attention_cost(recipe: SentimentRecipe) -> Terms:
    match recipe.model:
        case "window":
            return window_cost(window_size=recipe.window_size, lookahead=recipe.window_size - 1)
        case "taylor":
            return taylor_cost(feature_map="rolled" if recipe.order == 2 else "exact", order=recipe.order)
        case "hybrid":
            return hybrid_cost(window_size=recipe.window_size, causal=False, order=recipe.order, width=D, length=T)
        case _:
            return attention_cost()


def _bert_cost(recipe: SentimentRecipe, config: Any) -> Terms:
    """BERT's layers: four projections and attention, a feed-forward net, and a pooler of the first token."""
    layers, frozen, inner = config.num_hidden_layers, recipe.num_frozen_layers, config.intermediate_size
    block = _linear("projections", B * T, H, 3 * H) + _softmax(config).with_prefix("attention")
    block += _linear("attention output", B * T, H, H) + Terms(parameters={"norms": 4 * H})
    block += _linear("feed-forward", B * T, H, Integer(inner)) + _linear("feed-forward", B * T, Integer(inner), H)
    times = {"parameters": layers, "flops": layers, "backward_flops": layers - frozen}
    blocks = Terms(
        **{
            kind: {name: times[kind] * term for name, term in block.terms(kind).items() if times[kind]}
            for kind in COUNTED
        }
    )
    tables = V + config.max_position_embeddings + config.type_vocab_size
    total = Terms(parameters={"embeddings": tables * H, "embeddings norm": 2 * H}) + blocks
    total += _linear("pooler", B, H, H) + _linear("head", B, H, Integer(len(CLASSES)))
    if frozen:
        # What comes out of the highest frozen layer needs no gradient.
        unasked = 2 * B * H * H if frozen == layers else 2 * B * T * H * 3 * H
        total += Terms(backward_flops={"not asked for by frozen layers": -unasked})
    return total


def _softmax(config: Any) -> Terms:
    attended = softmax_core(width=H / A)
    if not config.attention_probs_dropout_prob:
        return attended
    # Where weights are dropped no fused kernel runs: they are kept, and not computed again.
    kept = {name: term for name, term in attended.backward_flops.items() if name != "scores again"}
    return Terms(flops=attended.flops, backward_flops=kept)


def _linear(name: str, rows: Expr, before: Expr, width: Expr, bias: bool = True) -> Terms:
    product = 2 * rows * before * width
    return Terms(
        parameters={name: before * width + (width if bias else 0)},
        flops={name: product},
        backward_flops={name: 2 * product},
    )


def _counted_cost(recipe: SentimentRecipe, config: Any, length: int) -> Terms:
    """The cost of an encoder that no formula is known of: counted, at one length."""
    with torch.device("meta"):
        model = ClassifierLoss(recipe, config.vocab_size, config)
    inputs = (f"B {length} : int < {config.vocab_size}", "B : int", f"B : int < {len(CLASSES)}")
    found = Target(model, inputs).quantities({"B": 1})
    return Terms(
        parameters={"model": Integer(found["parameters "])},
        flops={f"model, counted at T={length}": B * found["flops "]},
        backward_flops={f"model, counted at T={length}": B * found["backward_flops "]},
    )
