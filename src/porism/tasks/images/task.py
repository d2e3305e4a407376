"""The image task: tell classes apart, or predict pixels."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Self

from torch import Tensor, nn

from porism.costing.terms import Terms
from porism.runs.exhibits import AnyExhibit
from porism.runs.recipe import Recipe
from porism.tasks.images import classification, completion
from porism.tasks.images.data import ImageSet, Labelled, Shape, load_images
from porism.tasks.images.data.batches import Batches
from porism.tasks.images.model import build
from porism.tasks.images.model.cost import model_cost, subject
from porism.tasks.images.model.pixel_rnn import Completing
from porism.tasks.images.model.receptive_field import reach
from porism.tasks.images.predict import check_options, classify, go_on
from porism.tasks.images.recipes import PUBLISHED, QUESTIONS, RECIPES, ImagesRecipe
from porism.training.experiment import Question
from porism.training.task import Batch, Carry, Sample, Task, loaded


class Images(Task):
    """Classes of images, or with `model="complete"` their pixels, one after the other.

    >>> task = Images.load(RECIPES["grid-4"], None)      # the embedded digits
    >>> model = task.build()
    """

    name: ClassVar[str] = "images"
    unit: ClassVar[str] = "examples"
    recipes: ClassVar[Mapping[str, Recipe]] = RECIPES
    default_recipe: ClassVar[str] = "grid-4"
    questions: ClassVar[Mapping[str, Question]] = QUESTIONS

    def __init__(
        self, recipe: ImagesRecipe, shape: Shape, classes: Sequence[str], images: ImageSet | None = None
    ) -> None:
        self.recipe: ImagesRecipe = recipe
        self.shape = shape
        self.classes = tuple(classes)
        self.completes = recipe.model == "complete"
        self.metric = completion.METRIC if self.completes else "accuracy"
        self.lower_is_better = self.completes
        self._images = images

    @classmethod
    def load(cls, recipe: Recipe, source: str | None) -> Self:
        own = _own(recipe)
        images = load_images(source, size=own.image_size)
        if own.test_subset == "as-train":
            images = images.with_test_as_train()
        return cls(own, images.shape, images.classes, images)

    @classmethod
    def restore(cls, recipe: Recipe, assets: Mapping[str, Any]) -> Self:
        return cls(_own(recipe), Shape(*assets["shape"]), assets["classes"])

    @property
    def images(self) -> ImageSet:
        return loaded(self._images)

    def assets(self) -> dict[str, Any]:
        return {"shape": list(self.shape), "classes": list(self.classes)}

    def fingerprint(self) -> str:
        return self.images.fingerprint()

    def build(self) -> nn.Module:
        return build(self.recipe, self.shape, len(self.classes))

    def batches(self, epoch: int, seed: int) -> Sequence[Batch]:
        return Batches(self.images.splits["train"], self.recipe.batch_size, seed, epoch)

    def start(self, model: nn.Module) -> Carry:
        return {}

    def loss(self, model: nn.Module, batch: Batch, carry: Carry) -> tuple[Tensor, Carry]:
        images = Labelled(*batch)
        if self.completes:
            return completion.loss(model, images.images, self.recipe), carry
        return classification.loss(model, images, self.recipe), carry

    def count(self, batch: Batch) -> int:
        return len(batch[0])

    def training_metrics(self, loss: float) -> dict[str, float]:
        if self.completes:
            return {completion.METRIC: completion.bits(loss)}
        # With smoothed labels it is no cross-entropy that could stand beside the one on valid.
        return {"loss" if self.recipe.label_smoothing else "cross_entropy": loss}

    def evaluate(self, model: nn.Module, split: str) -> dict[str, float]:
        images = self.images.splits[split]
        if self.completes:
            measured = completion.evaluate(model, images.images, self.recipe)
            return {completion.METRIC: measured, **completion.evaluate_peers(self.images, split, self.recipe)}
        return classification.evaluate(model, images, self.recipe)

    def predict(self, model: nn.Module, inputs: Sequence[str], options: Mapping[str, Any]) -> list[Sample]:
        check_options(options, self.completes, len(inputs))
        if isinstance(model, Completing):
            return [go_on(model, path, self.shape, self.recipe, **options) for path in inputs]
        return [classify(model, path, self.shape, self.classes, self.recipe) for path in inputs]

    def show(self, model: nn.Module) -> list[Sample]:
        if self.completes:
            return completion.show(model, self.images, self.recipe)
        return classification.show(model, self.images, self.recipe)

    def exhibits(self, model: nn.Module) -> list[AnyExhibit]:
        if isinstance(model, Completing):
            return completion.exhibits(model, self.images, self.recipe)
        return classification.exhibits(model, self.images, self.recipe)

    def outcomes(self, model: nn.Module, split: str) -> list[bool]:
        return [] if self.completes else classification.outcomes(model, self.images.splits[split], self.recipe)

    def facts(self) -> dict[str, int | float | str]:
        return reach(self.recipe, self.shape).facts()

    def cost(self) -> Terms:
        return model_cost(self.recipe)

    def letters(self) -> dict[str, int]:
        shape, recipe = self.shape, self.recipe
        told = recipe.levels if self.completes else len(self.classes)
        sizes = {"B": 1, "C": shape.channels, "Y": shape.rows, "X": shape.columns, "V": told}
        return sizes if recipe.model in ("pooled", "strided") else sizes | {"H": recipe.hidden_size}

    @classmethod
    def subject(cls, recipe: Recipe) -> tuple[Callable[..., nn.Module], tuple[str, ...], dict[str, int]]:
        return subject(_own(recipe))

    def published(self) -> dict[str, dict[str, float]]:
        comparable = self.images.name == "octmnist" and self.recipe.test_subset == "as-train"
        return PUBLISHED.get(self.recipe.name, {}) if comparable else {}


def _own(recipe: Recipe) -> ImagesRecipe:
    assert isinstance(recipe, ImagesRecipe)
    return recipe
