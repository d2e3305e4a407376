"""The recipes of the graphs task: Kipf and Welling's net as published, one for each normalisation, and the best.

>>> RECIPES["kipf"].hidden_size
16
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from porism.errors import RecipeError, advise, fields
from porism.runs.recipe import Count, Layers, NotNegative, Part, Positive, Recipe, Repeats, Share, UsedWith, Whole
from porism.training.experiment import Experiment


@dataclass(frozen=True, kw_only=True)
class GraphRecipe(Recipe):
    """A net of graph convolutions and how it is trained."""

    task: ClassVar[str] = "graphs"
    used_with: ClassVar[UsedWith] = {
        **{name: {"model": ("appnp",)} for name in ("power_iterations", "teleport_probability")},
        "split_seed": {"split": ("random",)},
    }
    uncounted: ClassVar[tuple[str, ...]] = (
        *("normalize_features", "first_layer_weight_decay", "check_val_every_n_epoch", "max_memory_mib"),
        *("split", "split_seed"),
    )
    model: Literal["gcn", "appnp"] = "gcn"
    """Graph convolutions in every layer, or propagation of the logits after the last."""
    normalization: Literal["sym", "rw", "softmax", "none"] = "sym"
    """Of A + I, or of A."""
    add_self_loops: bool = True
    """Propagate over A + I, so that a node hears itself; else over A, where it hears its neighbours alone."""
    hidden_size: Count = 16
    """Width of a hidden layer."""
    num_layers: Layers = 2
    """Layers of the model, the one that gives the logits counted."""
    dropout: Part = 0.5
    """Probability to drop an element of a hidden layer's output."""
    input_dropout: Part = 0.5
    """Probability to drop a feature of a node."""
    power_iterations: Repeats = 10
    """Propagations of the logits (appnp)."""
    teleport_probability: Share = 0.1
    """Weight of a node's own logits in each propagation (appnp)."""
    num_augmentations: Repeats = 1
    """Forward passes in a step, each with its own dropout; the loss is their mean."""
    consistency_weight: NotNegative = 0.0
    """Weight of the consistency loss between these passes, on labelled nodes and others."""
    sharpening_temperature: Positive = 0.5
    """Of the mean prediction that the consistency loss has for its target: below 1 it is sharpened."""
    features: Literal["auto", "given", "standardized", "one-hot"] = "auto"
    """As they are given, each column less its mean over its standard deviation, or a column for each node in their
    place. `auto` standardises the columns of your own tables and arrays, unless all are 0 or 1."""
    normalize_features: bool = True
    """Divide each node's features by their sum, where they are not standardised."""
    first_layer_weight_decay: NotNegative = 5e-4
    """Half of this times the sum of the first layer's squared weights is added to the loss; `weight_decay` is for all
    parameters."""
    check_val_every_n_epoch: Count = 10
    """Epochs after which the model is measured on valid, and may be kept. An epoch is one step over the whole graph, or
    with neighbours drawn, one pass over the training nodes, `batch_size` of them a step."""
    num_neighbors: Count | None = None
    """Neighbours of a node that are read in a step, drawn anew each time; none for all."""
    max_memory_mib: Count = 1024
    """MiB that features may take where neighbours are drawn, and edges too. Larger ones of an .npz stay in it, and are
    mapped."""
    split: Literal["public", "random"] = "public"
    """Which nodes train, validate and test: as the data says, or drawn from `split_seed`."""
    split_seed: Whole = 0
    """Of a random split, whatever the seed of the run; `porism compare --set split_seed=seed` takes that of each."""

    def __post_init__(self) -> None:
        if self.model != "gcn" and self.num_neighbors:
            raise RecipeError(
                f"recipe {self.name}: num_neighbors={self.num_neighbors} samples neighbours in each layer, and "
                f"model={self.model} propagates after them.",
                advise("Use {} or {}.", fields(num_neighbors=None), fields(model="gcn")),
            )
        if self.consistency_weight and self.num_augmentations == 1:
            raise RecipeError(
                f"recipe {self.name}: consistency_weight={self.consistency_weight:g} needs two forward passes or more, "
                "got num_augmentations=1.",
                advise("Use {} or {}.", fields(num_augmentations=2), fields(consistency_weight=0)),
            )


_GCN = GraphRecipe(
    name="gcn",
    description="graph convolutions, for a first look",
    learning_rate=0.01,
    epochs=200,
    patience=21,
)

_KIPF = replace(
    _GCN,
    name="kipf",
    description="Kipf and Welling's net with the published settings, but for when valid is read and training ends",
    patience=11,
)

_NORMALISATIONS = tuple(
    replace(_KIPF, name=name, description=description, normalization=kind)  # type: ignore[arg-type]
    for name, kind, description in (
        ("symmetric", "sym", "Kipf and Welling's net under D^-1/2 (A + I) D^-1/2"),
        ("row", "rw", "the same net under D^-1 (A + I): the mean over neighbours"),
        ("softmax", "softmax", "the same net under a softmax over neighbours: the row's, where edges have no weights"),
        ("none", "none", "the same net under A + I as it is"),
    )
)

_WITHOUT_LOOPS = tuple(
    replace(recipe, name=f"{recipe.name}-no-loops", description=description, add_self_loops=False)
    for recipe, description in zip(
        _NORMALISATIONS[:2],
        ("Kipf and Welling's net under D^-1/2 A D^-1/2: without self-loops", "the same net under D^-1 A"),
        strict=True,
    )
)

_SAMPLED = replace(
    _KIPF,
    name="sampled",
    description="the same net, a few neighbours of a few nodes at a time, for graphs larger than memory",
    batch_size=64,
    num_neighbors=10,
)

_BEST = replace(
    _KIPF,
    name="best",
    description="APPNP with a consistency loss between forward passes, one setting for Cora and Citeseer",
    model="appnp",
    hidden_size=64,
    input_dropout=0.7,
    first_layer_weight_decay=5e-3,
    num_augmentations=2,
    consistency_weight=1.0,
    sharpening_temperature=0.3,
    epochs=300,
    patience=31,
)

RECIPES: dict[str, GraphRecipe] = {
    recipe.name: recipe for recipe in (_GCN, _KIPF, _BEST, *_NORMALISATIONS, *_WITHOUT_LOOPS, _SAMPLED)
}

DEFAULT = "gcn"

EXPERIMENTS = {
    "normalisation-question": Experiment(
        "normalisation-question",
        "Which normalisation of A + I is best: row, symmetric, softmax or none?",
        recipes=("row", "symmetric", "softmax", "none"),
        over={"learning_rate": (0.01, 0.003)},
        seeds=5,
    ),
    "self-loops-question": Experiment(
        "self-loops-question",
        "Do self-loops help: A + I or A, under the symmetric and the row normalisation?",
        recipes=("symmetric", "row"),
        over={"learning_rate": (0.01, 0.003)},
        seeds=5,
        values={"add_self_loops": (True, False)},
    ),
}

PUBLISHED = {"cora": 0.815, "citeseer": 0.703, "pubmed": 0.790}
"""Test accuracy that Kipf and Welling report on the public splits."""
