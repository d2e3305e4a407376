"""Accuracy over all nodes and class by class, cross-entropy, and the confusion matrix."""

from torch import Tensor
from torch.nn import functional

from porism.runs.exhibits import Matrix, Table
from porism.tasks.blocks.confusion import confusion


def measure(logits: Tensor, labels: Tensor) -> dict[str, float]:
    """Accuracy and mean cross-entropy in nats. logits (n, V), labels (n).

    >>> measure(torch.tensor([[0.0, 0.0], [0.0, 0.0]]), torch.tensor([0, 1]))
    {'accuracy': 0.5, 'cross_entropy': 0.6931471805599453}
    """
    return {
        "accuracy": float((logits.argmax(1) == labels).double().mean()),
        "cross_entropy": float(functional.cross_entropy(logits.double(), labels)),
    }


def confusion_matrix(predicted: Tensor, labels: Tensor, classes: tuple[str, ...]) -> Matrix:
    """Counts of each class by predicted class. predicted and labels (n)."""
    rows, columns, counts = confusion(predicted, labels, classes)
    return Matrix(
        title="Confusion on test",
        about="A row is the class of nodes, a column the predicted one.",
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
