"""The image task: tell classes apart, or predict pixels."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, ClassVar, Self

from torch import Tensor, nn

from porism.costing.subject import CostSubject
from porism.errors import DataError, RecipeError, advise, fields
from porism.runs.exhibits import AnyExhibit
from porism.runs.recipe import Recipe
from porism.runs.tuning import Space
from porism.tasks.images.baselines import baseline_metrics, baseline_notes, pixel_baselines
from porism.tasks.images.data import ImageSet, Labelled, Shape, load_images, own_images
from porism.tasks.images.data.batches import ImageBatches
from porism.tasks.images.data.prediction_inputs import list_pictures, read_picture
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
from porism.tasks.images.tuning import SPACE
from porism.training.experiment import Experiment
from porism.training.own_model import DataInfo
from porism.training.task import Batch, Carry, OwnInputs, Prediction, Task, loaded


class Images(Task):
    """Classes of images, or with `model="complete"` their pixels, one after the other.

    >>> task = Images.load(RECIPES["grid-4"], None)      # the embedded digits
    >>> model = task.build()
    """

    name: ClassVar[str] = "images"
    unit: ClassVar[str] = "examples"
    recipes: ClassVar[Mapping[str, Recipe]] = RECIPES
    default_recipe: ClassVar[str] = DEFAULT
    trains_in_shards: ClassVar[bool] = True
    tunable: ClassVar[Space] = SPACE
    fields_beside_model = (
        *("label_smoothing", "translate", "degrees", "scale", "horizontal_flip"),
        *("divisor", "test_subset", "image_size", "skip_broken"),
    )
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
        if images is not None and "test" not in images.splits:
            # Data that comes without a test split is trained and validated all the same.
            self.splits = tuple(images.splits)  # type: ignore[misc]  # a ClassVar where all tasks have the three

    @classmethod
    def load(cls, recipe: Recipe, source: str | None) -> Self:
        own = _own(recipe)
        return cls._of(own, load_images(source, size=own.image_size, skip_broken=own.skip_broken))

    @classmethod
    def from_data(cls, recipe: Recipe, data: Any) -> Self:
        own = _own(recipe)
        if own.image_size is not None:
            raise RecipeError(
                f"image_size={own.image_size} is for a folder of pictures, and data is none. Leave it out."
            )
        return cls._of(own, own_images(data))

    @classmethod
    def _of(cls, own: ImagesRecipe, images: ImageSet) -> Self:
        if own.test_subset == "as-train":
            images = images.with_test_as_train()
        if own.translate >= min(images.shape.rows, images.shape.columns):
            raise RecipeError(
                f"recipe {own.name}: translate={own.translate} moves images of {images.shape.rows} x "
                f"{images.shape.columns} pixels out of sight.",
                advise("Use less than their size, for instance {}.", fields(translate=2)),
            )
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

    @classmethod
    def for_own_model(cls, recipe: Recipe) -> Recipe:
        own = _own(recipe)
        if own.model == "complete":
            raise RecipeError(
                f"recipe {own.name} predicts pixels, and a model of your own predicts classes. Take another."
            )
        return own

    def data_info(self) -> DataInfo:
        return DataInfo(num_classes=len(self.classes), in_channels=self.shape.channels)

    def adapt(self, module: nn.Module) -> nn.Module:
        return module

    def own_inputs(self) -> OwnInputs:
        return OwnInputs((f"B {self.shape.channels} {self.shape.rows} {self.shape.columns}",), {"B": 1})

    def on_other_data(self, source: str | None, data: Any) -> Self:
        other = self.load(self.recipe, source) if data is None else self.from_data(self.recipe, data)
        if (self.shape, self.classes) != (other.shape, other.classes):
            raise DataError(
                f"images are {other.shape} of {len(other.classes)} classes, and the run's {self.shape} of "
                f"{len(self.classes)}. Give images of the same shape and classes."
            )
        return other

    def batches(self, epoch: int, seed: int) -> Sequence[Batch]:
        return ImageBatches(self.images.splits["train"], self.recipe.batch_size, seed, epoch)

    def start(self, model: nn.Module) -> Carry:
        return {}

    def loss(self, model: nn.Module, batch: Batch, carry: Carry) -> tuple[Tensor, Carry]:
        images = Labelled(*batch)
        if self.completes:
            return pixel_loss(model, images.images, self.recipe.levels), carry
        return classification_loss(model, images, self.recipe, len(self.classes)), carry

    def example_dim(self) -> int:
        return 0

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

    def predict(self, model: nn.Module, inputs: Any, options: Mapping[str, Any]) -> list[Prediction]:
        pictures = list_pictures(inputs, self.shape)
        check_options(options, self.completes, len(pictures))
        given = (read_picture(one, index, self.shape) for index, one in enumerate(pictures))
        if isinstance(model, PixelRNN):
            return [complete_picture(model, one, self.shape, self.recipe, **options) for one in given]
        return [classify(model, one, self.classes, self.recipe) for one in given]

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
        facts: dict[str, int | float | str] = self._images.told() if self._images else {}
        # How far a model of the user's own sees is not known.
        return (
            facts if self.user_objects.model is not None else facts | receptive_field(self.recipe, self.shape).facts()
        )

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

    def baselines(self) -> dict[str, dict[str, dict[str, float]]]:
        return pixel_baselines(self.images, self.recipe) if self.completes else baseline_metrics(self.images)

    def baseline_notes(self) -> Sequence[str]:
        return () if self.completes else baseline_notes(self.images)

    def baselines_key(self) -> Hashable:
        return super().baselines_key(), self.recipe.levels if self.completes else None


def _own(recipe: Recipe) -> ImagesRecipe:
    assert isinstance(recipe, ImagesRecipe)
    return recipe
