"""The recipes of the graphs task: Kipf and Welling's net as published, one for each normalisation, and the best.

>>> RECIPES["kipf"].hidden
16
"""

from dataclasses import dataclass, replace
from typing import Literal

from porism.errors import RecipeError
from porism.runs.recipe import Count, NotNegative, Positive, Recipe, Share, Whole
from porism.training.experiment import Question


@dataclass(frozen=True, kw_only=True)
class GraphRecipe(Recipe):
    """A net of graph convolutions and how it is trained."""

    model: Literal["gcn", "appnp"] = "gcn"
    """Convolutions in every layer, or opinions that spread after the last."""
    normalisation: Literal["symmetric", "row", "softmax", "none"] = "symmetric"
    """What is made of A + I."""
    hidden: Count = 16
    layers: Count = 2
    keep: Share = 0.5
    """Probability to keep an element of what a hidden layer hands on."""
    keep_input: Share = 0.5
    """Probability to keep a feature of a node."""
    hops: Count = 10
    """Steps in which opinions spread (appnp)."""
    restart: Share = 0.1
    """Of a node's own opinion in each of them (appnp)."""
    copies: Count = 1
    """Of the net in a step, each with dropout of its own; the loss is their mean."""
    agreement: NotNegative = 0.0
    """How much it counts that copies disagree, on labelled nodes and others."""
    temperature: Positive = 0.5
    """Below 1 copies are drawn towards something more certain than what they say together."""
    row_normalised: bool = True
    """Divide each node's features by their sum."""
    first_decay: NotNegative = 5e-4
    """Half of this times the sum of the first layer's squared weights is added to the loss; `weight_decay` is for all
    parameters."""
    passes: Count = 10
    """Steps of an epoch, each over the whole graph. The model is measured on valid, and may be kept, after each epoch;
    patience counts epochs."""
    fan: Whole = 0
    """Neighbours of a node that are heard in a step, drawn anew each time; 0 for all. With neighbours drawn, `batch`
    training nodes make a step, and an epoch has `passes` passes over all of them."""
    split: Literal["given", "random"] = "given"
    """Which nodes train, validate and test: as the data says, or drawn from `split_seed`."""
    split_seed: Whole = 0

    def __post_init__(self) -> None:
        if self.model != "gcn" and self.fan:
            raise RecipeError(
                f"recipe {self.name}: fan={self.fan} draws neighbours for each layer, and model={self.model} spreads "
                "after them. Use --set fan=0 or --set model=gcn."
            )
        if self.agreement and self.copies == 1:
            raise RecipeError(
                f"recipe {self.name}: agreement={self.agreement:g} needs copies that can disagree, got copies=1. "
                "Use --set copies=2 or --set agreement=0."
            )


_GCN = GraphRecipe(
    name="gcn",
    about="two graph convolutions, for a first look",
    learning_rate=0.01,
    epochs=20,
    patience=20,
)

_KIPF = replace(
    _GCN,
    name="kipf",
    about="Kipf and Welling's net: 16 hidden, dropout a half, Adam at 0.01, 200 passes over the graph",
    patience=10,
)

_NORMALISATIONS = tuple(
    replace(_KIPF, name=name, about=about, normalisation=name)  # type: ignore[arg-type]
    for name, about in (
        ("symmetric", "Kipf and Welling's net under D^-1/2 (A + I) D^-1/2"),
        ("row", "the same net under D^-1 (A + I): every node hears the mean"),
        ("softmax", "the same net under a softmax over neighbours: the row's, where edges have no weights"),
        ("none", "the same net under A + I as it is"),
    )
)

_SAMPLED = replace(
    _KIPF,
    name="sampled",
    about="the same net, a few neighbours of a few nodes at a time, for graphs that outgrow memory",
    batch=64,
    fan=10,
)

_BEST = replace(
    _KIPF,
    name="best",
    about="our best on Cora and Citeseer: opinions spread over ten hops, and two copies that should agree",
    model="appnp",
    hidden=64,
    keep_input=0.3,
    first_decay=5e-3,
    copies=2,
    agreement=1.0,
    temperature=0.3,
    epochs=30,
    patience=30,
)

RECIPES: dict[str, GraphRecipe] = {recipe.name: recipe for recipe in (_GCN, _KIPF, _BEST, *_NORMALISATIONS, _SAMPLED)}

QUESTIONS = {
    "normalisation-question": Question(
        "normalisation-question",
        "Which normalisation of A + I is best: row, symmetric, softmax or none?",
        recipes=("row", "symmetric", "softmax", "none"),
        over={"learning_rate": (0.01, 0.003)},
        seeds=5,
    )
}

PUBLISHED = {"cora": 0.815, "citeseer": 0.703, "pubmed": 0.790}
"""Test accuracy that Kipf and Welling report on the public splits."""
