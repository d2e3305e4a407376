"""The confusion matrix of a classifier on test."""

from torch import Tensor

from porism.runs.exhibits import Matrix
from porism.tasks.blocks.classification import confusion


def confusion_matrix(predicted: Tensor, labels: Tensor, classes: tuple[str, ...], split: str) -> Matrix:
    """Counts of predicted and true classes, (n) each."""
    counted = confusion(predicted, labels, classes)
    return Matrix(
        title="What was taken for what",
        about=f"Examples of {split}: the row is what it is, the column what the model says.",
        rows=counted.rows,
        columns=counted.columns,
        counts=counted.counts.tolist(),
    )
