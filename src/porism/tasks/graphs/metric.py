"""Accuracy over all nodes and class by class, cross-entropy, and the confusion matrix."""

from torch import Tensor

from porism.runs.exhibits import Matrix, Table
from porism.tasks.blocks.classification import confusion


def confusion_matrix(predicted: Tensor, labels: Tensor, classes: tuple[str, ...]) -> Matrix:
    """Counts of each class by predicted class. predicted and labels (n)."""
    rows, columns, counts = confusion(predicted, labels, classes)
    return Matrix(
        title="Confusion matrix",
        about="Test nodes: the row is the true class, the column the predicted one.",
        rows=rows,
        columns=columns,
        counts=counts.tolist(),
    )


def by_class(matrix: Matrix) -> Table:
    """The accuracy of each class."""
    rows: list[list[str | int | float]] = []
    for index, (name, counts) in enumerate(zip(matrix.rows, matrix.counts, strict=True)):
        rows.append([name, sum(counts), counts[index], f"{counts[index] / sum(counts):.1%}" if sum(counts) else ""])
    return Table(title="Accuracy by class on test", columns=["class", "nodes", "right", "accuracy"], rows=rows)
