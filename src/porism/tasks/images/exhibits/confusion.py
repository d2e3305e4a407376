"""Exhibits of a classifier: the confusion matrix, recall and precision of each class, and the worst mistakes."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from porism.runs.exhibits import AnyExhibit, Matrix, Pictures, Table
from porism.tasks.blocks.classification import Confusion, confusion
from porism.tasks.blocks.pictures import picture
from porism.tasks.images.data.image_set import ImageSet, Labelled
from porism.tasks.images.model.base import logits_of
from porism.tasks.images.recipes import ImagesRecipe

SHOWN = 16


def confusion_exhibits(model: nn.Module, images: ImageSet, recipe: ImagesRecipe) -> list[AnyExhibit]:
    """The confusion matrix of the test split, each class's accuracy, and the worst mistakes."""
    test, classes = images.splits["test"], list(images.classes)
    probs = logits_of(model, test.images, recipe).softmax(1)
    predicted = probs.argmax(1)
    counted = confusion(predicted, test.labels, classes)
    matrix = Matrix(
        title="What was taken for what",
        about="Test images: the row is what it is, the column what the model says.",
        rows=counted.rows,
        columns=counted.columns,
        counts=counted.counts.tolist(),
    )
    table = Table(
        title="Each class",
        about="Recall: of the test images of a class, how many the model finds. Precision: of those it names so, how "
        "many are.",
        columns=["class", "images", "recall", "precision"],
        rows=list(_by_class(counted, torch.bincount(predicted, minlength=len(classes)), classes)),
    )
    wrong = _wrong(probs, test, classes)
    return [matrix, table, *([wrong] if wrong.pictures else [])]


def _by_class(counted: Confusion, predicted: Tensor, classes: list[str]) -> Iterator[list[str | int | float]]:
    for row, name in enumerate(counted.rows):
        right, of_class, named = (
            int(counted.counts[row, row]),
            int(counted.counts[row].sum()),
            int(predicted[classes.index(name)]),
        )
        yield [name, of_class, right / of_class if of_class else "none", right / named if named else "none"]


def _wrong(probs: Tensor, test: Labelled, classes: list[str]) -> Pictures:
    """The mistakes the model is surest of."""
    surest, predicted = probs.max(1)
    mistakes = (predicted != test.labels).nonzero().flatten()
    worst = mistakes[surest[mistakes].argsort(descending=True, stable=True)][:SHOWN].tolist()
    shown = [
        picture(
            test.images[position] / 255,
            f"{classes[int(test.labels[position])]}, taken for {classes[int(predicted[position])]} "
            f"({float(surest[position]):.2f})",
        )
        for position in worst
    ]
    count = len(mistakes)
    about = f"{count} of {len(test.labels)} test images are taken for something else; those the model is surest of."
    return Pictures(title="The worst mistakes", about=about, pictures=shown)
