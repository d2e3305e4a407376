"""Telling classes apart: loss, metrics, and what there is to see."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional

from porism.runs.exhibits import AnyExhibit, Matrix, Pictures, Table, picture
from porism.tasks.blocks.confusion import Confusion, confusion
from porism.tasks.images.data.augment import flipped, shifted, turned
from porism.tasks.images.data.image_set import ImageSet, Labelled
from porism.tasks.images.metric import classification
from porism.tasks.images.predict import likeliest
from porism.tasks.images.recipes import ImagesRecipe
from porism.training.task import Sample

AT_ONCE = 500
"""Images that are looked at together when nothing is learned."""
SHOWN = 16


def loss(model: nn.Module, images: Labelled, recipe: ImagesRecipe) -> Tensor:
    """Mean cross-entropy, on images that are moved and mirrored as the recipe says."""
    x = scaled(images.images, recipe)
    if recipe.translate:
        x = shifted(x, recipe.translate)
    if recipe.degrees or recipe.scale:
        x = turned(x, recipe.degrees, recipe.scale)
    if recipe.horizontal_flip:
        x = flipped(x)
    return functional.cross_entropy(model(x), images.labels, label_smoothing=recipe.label_smoothing)


def scaled(images: Tensor, recipe: ImagesRecipe) -> Tensor:
    """From bytes to numbers up to 1."""
    return images.float() / recipe.divisor


@torch.no_grad()
def logits_of(model: nn.Module, images: Tensor, recipe: ImagesRecipe) -> Tensor:
    """What the model says of any number of images, (N, V), on the CPU."""
    device = next(model.parameters()).device
    return torch.cat([model(scaled(part.to(device), recipe)).float().cpu() for part in images.split(AT_ONCE)])


def evaluate(model: nn.Module, split: Labelled, recipe: ImagesRecipe) -> dict[str, float]:
    return classification(logits_of(model, split.images, recipe), split.labels)


def outcomes(model: nn.Module, split: Labelled, recipe: ImagesRecipe) -> list[bool]:
    """Which images the model is right on."""
    right: list[bool] = (logits_of(model, split.images, recipe).argmax(1) == split.labels).tolist()
    return right


def show(model: nn.Module, images: ImageSet, recipe: ImagesRecipe, count: int = 5) -> list[Sample]:
    """What the model says of the first test images."""
    pixels, labels = (part[:count] for part in images.splits["test"])
    chances = logits_of(model, pixels, recipe).softmax(1)
    return [
        Sample(f"test image {place}: {images.classes[label]}", likeliest(chances[place], images.classes))
        for place, label in enumerate(labels.tolist())
    ]


def exhibits(model: nn.Module, images: ImageSet, recipe: ImagesRecipe) -> list[AnyExhibit]:
    """The confusion matrix of the test split, each class's accuracy, and the worst mistakes."""
    test, classes = images.splits["test"], list(images.classes)
    chances = logits_of(model, test.images, recipe).softmax(1)
    predicted = chances.argmax(1)
    found = confusion(predicted, test.labels, classes)
    matrix = Matrix(
        title="What was taken for what",
        about="Test images: the row is what it is, the column what the model says.",
        rows=found.rows,
        columns=found.columns,
        counts=found.counts.tolist(),
    )
    table = Table(
        title="Each class",
        about="Recall: of the test images of a class, how many the model finds. Precision: of those it names so, how "
        "many are.",
        columns=["class", "images", "recall", "precision"],
        rows=list(_by_class(found, torch.bincount(predicted, minlength=len(classes)), classes)),
    )
    wrong = _wrong(chances, test, classes)
    return [matrix, table, *([wrong] if wrong.pictures else [])]


def _by_class(found: Confusion, predicted: Tensor, classes: list[str]) -> Iterator[list[str | int | float]]:
    for row, name in enumerate(found.rows):
        right, there, said = (
            int(found.counts[row, row]),
            int(found.counts[row].sum()),
            int(predicted[classes.index(name)]),
        )
        yield [name, there, right / there if there else "none", right / said if said else "none"]


def _wrong(chances: Tensor, test: Labelled, classes: list[str]) -> Pictures:
    """The mistakes the model is surest of."""
    surest, said = chances.max(1)
    mistakes = (said != test.labels).nonzero().flatten()
    worst = mistakes[surest[mistakes].argsort(descending=True, stable=True)][:SHOWN].tolist()
    shown = [
        picture(
            test.images[place] / 255,
            f"{classes[int(test.labels[place])]}, taken for {classes[int(said[place])]} ({float(surest[place]):.2f})",
        )
        for place in worst
    ]
    count = len(mistakes)
    about = f"{count} of {len(test.labels)} test images are taken for something else; those the model is surest of."
    return Pictures(title="The worst mistakes", about=about, pictures=shown)
