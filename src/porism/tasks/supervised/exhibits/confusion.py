"""The confusion matrix of a classifier on test."""

from torch import Tensor

from porism.runs.exhibits import Matrix
from porism.tasks.blocks.classification import confusion


def confusion_matrix(predicted: Tensor, labels: Tensor, classes: tuple[str, ...], split: str) -> Matrix:
    """Counts of predicted and true classes, (n) each."""
    counted = confusion(predicted, labels, classes)
    return Matrix(
        title="Confusion matrix",
        about=f"Examples of {split}: the row is the true class, the column the predicted one.",
        rows=counted.rows,
        columns=counted.columns,
        counts=counted.counts.tolist(),
    )
