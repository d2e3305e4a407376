"""The image task: tell classes apart, or predict pixels."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, ClassVar, Self

from torch import Tensor, nn

from porism.costing.subject import CostSubject
from porism.runs.exhibits import AnyExhibit
from porism.runs.recipe import Recipe
from porism.tasks.images.data import ImageSet, Labelled, Shape, load_images
from porism.tasks.images.data.batches import ImageBatches
from porism.tasks.images.exhibits.completion import completion_exhibits
from porism.tasks.images.exhibits.confusion import confusion_exhibits
from porism.tasks.images.metric import (
    BITS_PER_DIMENSION,
    bits,
    evaluate_classes,
    evaluate_peers,
    evaluate_pixels,
    outcomes,
)
from porism.tasks.images.model.base import classification_loss
from porism.tasks.images.model.build import build
from porism.tasks.images.model.cost import subject
from porism.tasks.images.model.pixel_rnn import PixelRNN, pixel_loss
from porism.tasks.images.model.receptive_field import receptive_field
from porism.tasks.images.predict import check_options, classify, complete_picture, show_classes, show_pixels
from porism.tasks.images.recipes import DEFAULT, EXPERIMENTS, PUBLISHED, PUBLISHED_SPLIT, RECIPES, ImagesRecipe
from porism.training.experiment import Experiment
from porism.training.task import Batch, Carry, Prediction, Task, loaded


class Images(Task):
    """Classes of images, or with `model="complete"` their pixels, one after the other.

    >>> task = Images.load(RECIPES["grid-4"], None)      # the embedded digits
    >>> model = task.build()
    """

    name: ClassVar[str] = "images"
    unit: ClassVar[str] = "examples"
    recipes: ClassVar[Mapping[str, Recipe]] = RECIPES
    default_recipe: ClassVar[str] = DEFAULT
    experiments: ClassVar[Mapping[str, Experiment]] = EXPERIMENTS

    def __init__(
        self, recipe: ImagesRecipe, shape: Shape, classes: Sequence[str], images: ImageSet | None = None
    ) -> None:
        self.recipe: ImagesRecipe = recipe
        self.shape = shape
        self.classes = tuple(classes)
        self.completes = recipe.model == "complete"
        self.metric = BITS_PER_DIMENSION if self.completes else "accuracy"
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

    def example_ids(self, split: str) -> Sequence[Hashable]:
        return [image.numpy().tobytes() for image in self.images.splits[split].images]

    def build(self) -> nn.Module:
        return build(self.recipe, self.shape, len(self.classes))

    def batches(self, epoch: int, seed: int) -> Sequence[Batch]:
        return ImageBatches(self.images.splits["train"], self.recipe.batch_size, seed, epoch)

    def start(self, model: nn.Module) -> Carry:
        return {}

    def loss(self, model: nn.Module, batch: Batch, carry: Carry) -> tuple[Tensor, Carry]:
        images = Labelled(*batch)
        if self.completes:
            return pixel_loss(model, images.images, self.recipe.levels), carry
        return classification_loss(model, images, self.recipe), carry

    def count(self, batch: Batch) -> int:
        return len(batch[0])

    def training_metrics(self, loss: float) -> dict[str, float]:
        if self.completes:
            return {BITS_PER_DIMENSION: bits(loss)}
        # With smoothed labels it is no cross-entropy that could stand beside the one on valid.
        return {"loss" if self.recipe.label_smoothing else "cross_entropy": loss}

    def evaluate(self, model: nn.Module, split: str) -> dict[str, float]:
        images = self.images.splits[split]
        if self.completes:
            measured = evaluate_pixels(model, images.images, self.recipe)
            return {BITS_PER_DIMENSION: measured, **evaluate_peers(self.images, split, self.recipe)}
        return evaluate_classes(model, images, self.recipe)

    def predict(self, model: nn.Module, inputs: Sequence[str], options: Mapping[str, Any]) -> list[Prediction]:
        check_options(options, self.completes, len(inputs))
        if isinstance(model, PixelRNN):
            return [complete_picture(model, path, self.shape, self.recipe, **options) for path in inputs]
        return [classify(model, path, self.shape, self.classes, self.recipe) for path in inputs]

    def show(self, model: nn.Module) -> list[Prediction]:
        if self.completes:
            return show_pixels(model, self.images, self.recipe)
        return show_classes(model, self.images, self.recipe)

    def exhibits(self, model: nn.Module) -> list[AnyExhibit]:
        if isinstance(model, PixelRNN):
            return completion_exhibits(model, self.images, self.recipe)
        return confusion_exhibits(model, self.images, self.recipe)

    def outcomes(self, model: nn.Module, split: str) -> list[bool]:
        return [] if self.completes else outcomes(model, self.images.splits[split], self.recipe)

    def facts(self) -> dict[str, int | float | str]:
        facts: dict[str, int | float | str] = dict(self._images.facts if self._images else {})
        return facts | receptive_field(self.recipe, self.shape).facts()

    def letters(self) -> dict[str, int]:
        shape = self.shape
        own = {"C": shape.channels, "Y": shape.rows, "X": shape.columns, "V": len(self.classes)}
        return {**subject(self.recipe).sizes, **own}

    def units(self) -> int:
        return self.recipe.batch_size

    @classmethod
    def subject(cls, recipe: Recipe) -> CostSubject:
        return subject(_own(recipe))

    def published(self) -> dict[str, dict[str, float]]:
        # By its sizes, since the file may have any name, and a part of it may have this one.
        sizes = {split: len(images.labels) for split, images in self.images.splits.items()}
        comparable = sizes == PUBLISHED_SPLIT and self.recipe.test_subset == "as-train"
        return PUBLISHED.get(self.recipe.name, {}) if comparable else {}


def _own(recipe: Recipe) -> ImagesRecipe:
    assert isinstance(recipe, ImagesRecipe)
    return recipe
