"""The recipes of the supervised task: a net and a linear model to hold a module of your own against.

>>> RECIPES["mlp"].hidden_size
64
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

from porism.errors import RecipeError
from porism.runs.recipe import Count, Layers, Part, Recipe, Share, UsedWith, Whole
from porism.training.experiment import Experiment


@dataclass(frozen=True, kw_only=True)
class SupervisedRecipe(Recipe):
    """A model from inputs to targets and how it is trained."""

    task: ClassVar[str] = "supervised"
    used_with: ClassVar[UsedWith] = {
        name: {"model": ("mlp",)} for name in ("hidden_size", "num_layers", "nonlinearity", "dropout")
    }
    uncounted: ClassVar[tuple[str, ...]] = ("validation_split", "test_split", "split_seed")
    model: Literal["mlp", "linear", "own"] = "mlp"
    """A net of linear layers, one linear layer, or a module of the user's own."""
    hidden_size: Count = 64
    """Units of a hidden layer."""
    num_layers: Layers = 2
    """Hidden layers of the net."""
    nonlinearity: Literal["relu", "tanh", "gelu"] = "relu"
    """Of the hidden layers."""
    dropout: Part = 0.0
    """Probability to drop an element of a hidden layer's output."""
    standardize: bool = False
    """Bring each input to mean 0 and deviation 1 on train. The model keeps both, so that predictions do the same."""
    loss: Literal["cross_entropy", "mse", "bce", "function", "model"] = "cross_entropy"
    """Of logits and classes, of numbers, of logits and 0 or 1; a function in Python; or the output's own `.loss`."""
    validation_split: Share = 0.15
    """Share of the examples that is held out for valid where the data has no split of its own."""
    test_split: Share = 0.15
    """The same for test."""
    split_seed: Whole = 0
    """What the split is drawn from, the same for every seed of a training."""

    def __post_init__(self) -> None:
        if self.validation_split + self.test_split >= 1:
            raise RecipeError(
                f"recipe {self.name}: validation_split={self.validation_split:g} and test_split={self.test_split:g} "
                "leave nothing to train on. Use smaller shares, such as 0.15 each."
            )


RECIPES: dict[str, SupervisedRecipe] = {
    recipe.name: recipe
    for recipe in (
        SupervisedRecipe(
            name="mlp",
            description="a multilayer perceptron",
            standardize=True,
            batch_size=32,
            epochs=200,
            patience=10,
        ),
        SupervisedRecipe(
            name="linear",
            description="one linear layer: logistic or linear regression",
            model="linear",
            standardize=True,
            batch_size=32,
            learning_rate=0.01,
            patience=10,
        ),
    )
}
DEFAULT = "mlp"
EXPERIMENTS: dict[str, Experiment] = {}
"""None: what is compared here are modules of the user's own."""
