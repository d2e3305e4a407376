"""Experiments: several recipes, each with several settings and seeds, compared to answer one question."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any, NamedTuple


class ExperimentRun(NamedTuple):
    """One run of an experiment: a recipe with some fields set, from one seed."""

    recipe: str
    assignments: tuple[str, ...]
    seed: int

    @property
    def folder(self) -> str:
        """
        >>> ExperimentRun("pooled", ("learning_rate=0.1",), seed=2).folder
        'pooled-learning_rate=0.1-seed-2'
        """
        return "-".join([self.recipe, *self.assignments, f"seed-{self.seed}"])


@dataclass(frozen=True)
class Experiment:
    """Recipes, or the values of a field, to be compared fairly: each takes the settings that suit it best on validation
    data, over the same seeds.

    >>> rates = {"learning_rate": (0.1, 0.01)}
    >>> recipes = ("pooled", "strided")
    >>> experiment = Experiment("pooling-question", "Is pooling better than strides?", recipes, rates, seeds=5)
    >>> len(list(experiment.trials(first_seed=1)))
    20

    With `values`, what is compared are the values of each of these fields, recipe by recipe:

    >>> depth = Experiment("depth", "How deep?", ("plain",), values={"num_layers": (1, 2, 3)})
    >>> len(list(depth.trials(first_seed=1)))
    15
    """

    name: str
    about: str
    """The question itself, in one line."""
    recipes: tuple[str, ...]
    over: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """Fields and the values to choose from, for each that is compared, by the mean over seeds on `valid`."""
    seeds: int = 5
    """Fewer than five do not decide between two models."""
    values: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """Fields whose values are compared, field by field; the others are chosen on `valid` meanwhile."""
    reference: str = ""
    """The recipe that the question holds all others against. They are compared with it too where another one leads."""

    def trials(self, first_seed: int, seeds: int | None = None) -> Iterator[ExperimentRun]:
        """Every recipe with every combination of settings and every seed."""
        fields = {**self.over, **self.values}
        settings = [[f"{name}={value}" for value in values] for name, values in fields.items()]
        for seed in range(first_seed, first_seed + (seeds or self.seeds)):
            for recipe, assignments in product(self.recipes, product(*settings)):
                yield ExperimentRun(recipe, assignments, seed)
