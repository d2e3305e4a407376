"""The recipes of the image task, and the experiments that compare several of them.

>>> RECIPES["pooled"].learning_rate
0.01
"""

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal

import msgspec

from porism.errors import RecipeError, advise, fields
from porism.runs.recipe import Count, Layers, NotNegative, Part, Recipe, UsedWith, Whole
from porism.training.experiment import Experiment


@dataclass(frozen=True, kw_only=True)
class ImagesRecipe(Recipe):
    """A model of images and how it is trained."""

    task: ClassVar[str] = "images"
    used_with: ClassVar[UsedWith] = {
        **{name: {"model": ("residual", "grid", "convolution", "complete")} for name in ("hidden_size", "num_layers")},
        "directions": {"model": ("grid",)},
        "cell": {"model": ("grid", "complete"), "layer": ("grid", "sequence")},
        "nonlinearity": {"model": ("grid", "complete"), "cell": ("simple",), "layer": ("grid", "sequence")},
        "layer": {"model": ("complete",)},
        "patch_size": {"model": ("grid", "convolution")},
        "levels": {"model": ("complete",)},
        "dropout": {"model": ("pooled", "strided", "residual", "grid", "convolution")},
    }
    uncounted: ClassVar[tuple[str, ...]] = (
        *("label_smoothing", "translate", "degrees", "scale", "horizontal_flip"),
        *("divisor", "test_subset", "image_size", "skip_broken"),
    )
    model: Literal["pooled", "strided", "residual", "grid", "convolution", "complete"] = "grid"
    """Convolutions (pooled, strided, residual, convolution), scans over the grid, or one that predicts pixels."""
    hidden_size: Count = 32
    """Channels of a layer; of the first stage in a residual net. Pooled and strided have their own."""
    num_layers: Layers = 2
    """Of a residual net: blocks of a stage."""
    directions: Literal[1, 2, 4] = 4
    """Where scans over the grid start: top left; and bottom right; everywhere."""
    layer: Literal["grid", "sequence", "convolution"] = "grid"
    """What reads the pixels before one, where these are predicted: scans over the grid, one scan over the pixels in the
    order of a text, or masked convolutions."""
    cell: Literal["simple", "lstm"] = "simple"
    """Of a scan."""
    nonlinearity: Literal["sigmoid", "tanh", "relu"] = "tanh"
    """Of a simple cell."""
    patch_size: Count = 1
    """Rows and columns of pixels that are one to a scan, or to the convolutions it is compared with."""
    dropout: Part = 0.0
    """Probability to drop an element of what the last linear layers read."""
    label_smoothing: Part = 0.0
    """Share of a label that is spread over all classes while training."""
    translate: Whole = 0
    """Most pixels by which a training image is moved, up or down and left or right."""
    degrees: NotNegative = 0.0
    """Most degrees by which a training image is rotated."""
    scale: Part = 0.0
    """Share by which a training image is made larger or smaller at most."""
    horizontal_flip: bool = False
    """Mirror half of the training images left to right. Right for clothes, wrong for digits."""
    divisor: Literal[255, 256] = 255
    """What a byte is divided by to become a number up to 1."""
    levels: Annotated[int, msgspec.Meta(ge=2, le=256)] = 16
    """Greys that an image is reduced to before its pixels are predicted."""
    test_subset: Literal["whole", "as-train"] = "whole"
    """The test split as it comes, or its first images of each class, in the shares that the classes have in train."""
    image_size: Count | None = None
    """Rows and columns to which the pictures of a folder are resized."""
    skip_broken: bool = False
    """Leave out the files of a folder of pictures that cannot be read, and say which; else they are refused."""

    def __post_init__(self) -> None:
        augments = self.translate or self.degrees or self.scale or self.horizontal_flip
        if self.model == "complete" and (self.label_smoothing or augments):
            raise RecipeError(
                f"recipe {self.name}: label_smoothing, translate, degrees, scale and horizontal_flip are for classes, "
                "and model=complete predicts pixels. Leave them out."
            )
        if self.model != "complete" and self.layer != "grid":
            raise RecipeError(
                f"recipe {self.name}: layer={self.layer} is for model=complete only, got model={self.model}.",
                advise("Use {}.", fields(layer="grid")),
            )


_POOLED = ImagesRecipe(
    name="pooled",
    description="two convolutions, each followed by a 2 x 2 maximum, and three linear layers",
    model="pooled",
    optimizer="sgd",
    learning_rate=0.01,
    batch_size=8,
    epochs=15,
    restore_best_weights=False,
    dropout=0.7,
)
_STRIDED = replace(
    _POOLED, name="strided", description="the same net, each convolution with stride 2 and no maxima", model="strided"
)

_CONVOLUTIONAL = ImagesRecipe(
    name="convolutional",
    description="a residual convolutional net",
    model="residual",
    hidden_size=19,
    num_layers=2,
    optimizer="adamw",
    learning_rate=0.004,
    weight_decay=0.05,
    batch_size=128,
    epochs=40,
    restore_best_weights=False,
    lr_scheduler="cosine",
    warmup_steps=200,
    max_grad_norm=1.0,
    dropout=0.2,
    label_smoothing=0.1,
    translate=2,
)

_GRID_4 = ImagesRecipe(
    name="grid-4",
    description="recurrent scans over the image, from every corner",
    hidden_size=64,
    patch_size=2,
    optimizer="adamw",
    learning_rate=0.005,
    weight_decay=0.01,
    batch_size=32,
    epochs=30,
    restore_best_weights=False,
    lr_scheduler="cosine",
    max_grad_norm=1.0,
    label_smoothing=0.1,
    degrees=10,
    scale=0.15,
)
_GRID = replace(_GRID_4, name="grid", description="recurrent scans over the image, from the top left", directions=1)
_CONVOLUTION_EQUAL = replace(
    _GRID_4,
    name="convolution-equal",
    description="convolutions in the place of grid-4's scans, with about as many parameters",
    model="convolution",
    hidden_size=94,
)

_POOLED_CLOTHES = replace(
    _POOLED,
    name="pooled-clothes",
    description="pooled with settings for Fashion-MNIST",
    batch_size=64,
    learning_rate=0.1,
    lr_scheduler="cosine",
    epochs=30,
    dropout=0.5,
    horizontal_flip=True,
)
_GRID_4_CLOTHES = replace(
    _GRID_4,
    name="grid-4-clothes",
    description="grid-4 with settings for Fashion-MNIST",
    batch_size=128,
    learning_rate=0.002,
    epochs=20,
    degrees=0.0,
    scale=0.0,
    horizontal_flip=True,
    precision="fp32",
)
_CONVOLUTIONAL_CLOTHES = replace(
    _CONVOLUTIONAL,
    name="convolutional-clothes",
    description="convolutional with settings for Fashion-MNIST",
    epochs=20,
    horizontal_flip=True,
)

_COMPLETE = ImagesRecipe(
    name="complete",
    description="predicts the next pixel from all before it, and so completes an image",
    model="complete",
    cell="lstm",
    directions=2,
    hidden_size=32,
    num_layers=2,
    optimizer="adamw",
    learning_rate=0.01,
    weight_decay=0.01,
    batch_size=64,
    epochs=20,
    patience=21,
    lr_scheduler="cosine",
    max_grad_norm=1.0,
)
_COMPLETE_SEQUENCE = replace(
    _COMPLETE,
    name="complete-sequence",
    description="the same by an LSTM over the pixels in the order of a text, with about as many parameters",
    layer="sequence",
    hidden_size=61,
)
_COMPLETE_CONVOLUTION = replace(
    _COMPLETE,
    name="complete-convolution",
    description="the same by masked convolutions, with about as many parameters",
    layer="convolution",
    hidden_size=44,
    num_layers=6,
)

_ALL = (
    *(_GRID_4, _GRID, _CONVOLUTION_EQUAL, _CONVOLUTIONAL, _POOLED, _STRIDED),
    *(_POOLED_CLOTHES, _GRID_4_CLOTHES, _CONVOLUTIONAL_CLOTHES),
    *(_COMPLETE, _COMPLETE_SEQUENCE, _COMPLETE_CONVOLUTION),
)
RECIPES: dict[str, ImagesRecipe] = {recipe.name: recipe for recipe in _ALL}

DEFAULT = "grid-4"

EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        Experiment(
            "pooling-question",
            "Is pooling better than a stride, in nets of the same parameters?",
            ("pooled", "strided"),
            {"learning_rate": (0.1, 0.01, 0.001)},
        ),
        Experiment(
            "grid-question",
            "What do scans over the image see and cost against convolutions of the same parameters?",
            ("grid-4", "convolution-equal"),
        ),
        Experiment(
            "completion-question",
            "Are images completed better by scans over the grid than by other nets of as many parameters?",
            ("complete", "complete-sequence", "complete-convolution"),
            {"learning_rate": (0.02, 0.006, 0.002)},
            reference="complete",
        ),
    )
}

PUBLISHED_SPLIT = {"train": 97_477, "valid": 10_832, "test": 529}
PUBLISHED = {"pooled": {"test": {"accuracy": 0.8280}}, "strided": {"test": {"accuracy": 0.8147}}}
"""On OCTMNIST with test_subset=as-train, split as above: 438 and 431 of 529, from one run each."""
PUBLISHED_LEARNING_RATE = 0.01
PUBLISHED_PARAMETERS = 224_892
"""Of either net."""
