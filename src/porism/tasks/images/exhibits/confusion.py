"""Exhibits of a classifier: the confusion matrix, recall and precision of each class, and the worst mistakes."""

from torch import Tensor, nn

from porism.runs.exhibits import AnyExhibit, Pictures
from porism.tasks.blocks import classification
from porism.tasks.blocks.classification import surest_mistakes
from porism.tasks.blocks.pictures import picture
from porism.tasks.images.data.image_set import ImageSet, Labelled
from porism.tasks.images.model.base import logits_of
from porism.tasks.images.recipes import ImagesRecipe

SHOWN = 16


def confusion_exhibits(model: nn.Module, images: ImageSet, recipe: ImagesRecipe) -> list[AnyExhibit]:
    """The confusion matrix of the test split, each class's accuracy, and the worst mistakes."""
    test = images.splits[images.shown]
    probs = logits_of(model, test.images, recipe).softmax(1)
    matrix, table = classification.confusion_exhibits(
        probs.argmax(1), test.labels, images.classes, "images", images.shown
    )
    wrong = _wrong(probs, test, images.classes)
    return [matrix, table, *([wrong] if wrong.pictures else [])]


def _wrong(probs: Tensor, test: Labelled, classes: tuple[str, ...]) -> Pictures:
    """The mistakes the model is surest of."""
    surest, predicted = probs.max(1)
    mistakes = surest_mistakes(probs, test.labels)
    shown = [
        picture(
            test.images[position] / 255,
            f"{classes[int(test.labels[position])]}, taken for {classes[int(predicted[position])]} "
            f"({float(surest[position]):.2f})",
        )
        for position in mistakes[:SHOWN]
    ]
    count = len(mistakes)
    about = f"{count} of {len(test.labels)} test images are taken for something else; those the model is surest of."
    return Pictures(title="The worst mistakes", about=about, pictures=shown)
