"""The recipes of the image task, and the questions that several of them answer together.

>>> RECIPES["pooled"].learning_rate
0.01
"""

from dataclasses import dataclass, replace
from typing import Annotated, Literal

import msgspec

from porism.errors import RecipeError
from porism.runs.recipe import Count, NotNegative, Recipe, Share, Whole
from porism.training.experiment import Question


@dataclass(frozen=True, kw_only=True)
class ImagesRecipe(Recipe):
    """A model of images and how it is trained."""

    model: Literal["pooled", "strided", "residual", "grid", "convolution", "complete"] = "grid"
    hidden: Count = 32
    """Channels of a layer; of the first stage in a residual net. Pooled and strided have their own."""
    layers: Count = 2
    """Of a residual net: blocks of a stage."""
    corners: Literal[1, 2, 4] = 4
    """Where walks over the grid start: top left; and bottom right; everywhere."""
    cell: Literal["simple", "lstm"] = "simple"
    """Of a walk over the grid."""
    activation: Literal["sigmoid", "tanh", "relu"] = "tanh"
    """Of a simple cell."""
    patch: Count = 1
    """Rows and columns of pixels that are one to a walk, or to the convolutions it is held against."""
    keep: Share = 1.0
    """Probability to keep an element of what the last linear layers read."""
    smoothing: Annotated[float, msgspec.Meta(ge=0, lt=1)] = 0.0
    """Share of a label that is spread over all classes while training."""
    shift: Whole = 0
    """Most pixels by which a training image is moved, up or down and left or right."""
    turn: NotNegative = 0.0
    """Most degrees by which a training image is turned."""
    zoom: Annotated[float, msgspec.Meta(ge=0, lt=1)] = 0.0
    """Share by which a training image is made larger or smaller at most."""
    flip: bool = False
    """Mirror half of the training images left to right. Right for clothes, wrong for digits."""
    divisor: Literal[255, 256] = 255
    """What a byte is divided by to become a number up to 1."""
    levels: Annotated[int, msgspec.Meta(ge=2, le=256)] = 16
    """Greys that an image is reduced to before its pixels are predicted."""
    test: Literal["whole", "as-train"] = "whole"
    """The test split as it comes, or its first images of each class, in the shares that the classes have in train."""
    size: Count | None = None
    """Rows and columns to which the pictures of a folder are resized."""

    def __post_init__(self) -> None:
        if self.model == "complete" and (self.smoothing or self.shift or self.turn or self.zoom or self.flip):
            raise RecipeError(
                f"recipe {self.name}: smoothing, shift, turn, zoom and flip are for classes, and model=complete "
                "predicts pixels. Leave them out."
            )


_POOLED = ImagesRecipe(
    name="pooled",
    about="two convolutions, each with a 2 x 2 maximum behind it, and three linear layers",
    model="pooled",
    optimizer="sgd",
    learning_rate=0.01,
    batch=8,
    epochs=15,
    select="final",
    keep=0.3,
)
_STRIDED = replace(
    _POOLED, name="strided", about="the same net, each convolution with stride 2 and no maxima", model="strided"
)

_CONVOLUTIONAL = ImagesRecipe(
    name="convolutional",
    about="our best convolutional net of at most 250,000 parameters: residual, for 28 x 28",
    model="residual",
    hidden=19,
    layers=2,
    optimizer="adamw",
    learning_rate=0.004,
    weight_decay=0.05,
    batch=128,
    epochs=40,
    select="final",
    schedule="cosine",
    warmup=200,
    clip=1.0,
    keep=0.8,
    smoothing=0.1,
    shift=2,
)

_GRID_4 = ImagesRecipe(
    name="grid-4",
    about="two layers of walks over the image, from every corner",
    hidden=64,
    patch=2,
    optimizer="adamw",
    learning_rate=0.005,
    weight_decay=0.01,
    batch=32,
    epochs=30,
    select="final",
    schedule="cosine",
    clip=1.0,
    smoothing=0.1,
    turn=10,
    zoom=0.15,
)
_GRID = replace(_GRID_4, name="grid", about="two layers of walks over the image, from the top left", corners=1)
_CONVOLUTION_EQUAL = replace(
    _GRID_4,
    name="convolution-equal",
    about="two 3 x 3 convolutions in the place of grid-4's walks, with as many parameters",
    model="convolution",
    hidden=94,
)

_POOLED_CLOTHES = replace(
    _POOLED,
    name="pooled-clothes",
    about="pooled for Fashion-MNIST: larger batches, a cosine, half of the images mirrored",
    batch=64,
    learning_rate=0.1,
    schedule="cosine",
    epochs=30,
    keep=0.5,
    flip=True,
)
_GRID_4_CLOTHES = replace(
    _GRID_4,
    name="grid-4-clothes",
    about="grid-4 for Fashion-MNIST: larger batches, a lower rate, half of the images mirrored",
    batch=128,
    learning_rate=0.002,
    epochs=20,
    turn=0.0,
    zoom=0.0,
    flip=True,
    precision="fp32",
)
_CONVOLUTIONAL_CLOTHES = replace(
    _CONVOLUTIONAL,
    name="convolutional-clothes",
    about="convolutional for Fashion-MNIST: half of the images mirrored",
    epochs=20,
    flip=True,
)

_COMPLETE = ImagesRecipe(
    name="complete",
    about="predicts the next pixel from all before it, and so completes an image",
    model="complete",
    cell="lstm",
    corners=2,
    hidden=32,
    layers=2,
    optimizer="adamw",
    learning_rate=0.01,
    weight_decay=0.01,
    batch=64,
    epochs=20,
    patience=20,
    schedule="cosine",
    clip=1.0,
)

_ALL = (
    *(_GRID_4, _GRID, _CONVOLUTION_EQUAL, _CONVOLUTIONAL, _POOLED, _STRIDED),
    *(_POOLED_CLOTHES, _GRID_4_CLOTHES, _CONVOLUTIONAL_CLOTHES, _COMPLETE),
)
RECIPES: dict[str, ImagesRecipe] = {recipe.name: recipe for recipe in _ALL}

QUESTIONS = {
    question.name: question
    for question in (
        Question(
            "pooling-question",
            "Is pooling better than a stride, in nets of the same parameters?",
            ("pooled", "strided"),
            {"learning_rate": (0.1, 0.01, 0.001)},
        ),
        Question(
            "grid-question",
            "What do walks over the image see and cost against convolutions of the same parameters?",
            ("grid-4", "convolution-equal"),
        ),
    )
}

PUBLISHED = {"pooled": {"test": {"accuracy": 0.8280}}, "strided": {"test": {"accuracy": 0.8147}}}
"""On OCTMNIST with test=as-train: 438 and 431 of 529."""
