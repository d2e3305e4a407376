"""Accuracy, cross-entropy and confusion matrix of a classifier, and what a report shows of them."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from porism.runs.exhibits import Matrix, Table

MOST_SHOWN = 100
"""Classes in a matrix. Of thousands every pair would take gigabytes, and nobody would read it."""
NAMED = 3
"""Classes that are named, the likeliest first."""


def accuracy_and_cross_entropy(logits: Tensor, labels: Tensor) -> dict[str, float]:
    """Accuracy and mean cross-entropy in nats, in float64.

    >>> accuracy_and_cross_entropy(torch.zeros(2, 2), torch.tensor([0, 1]))
    {'accuracy': 0.5, 'cross_entropy': 0.6931471805599453}

    Shapes: logits (N, V), labels (N,).
    """
    return {
        "accuracy": float((logits.argmax(1) == labels).double().mean()),
        "cross_entropy": float(functional.cross_entropy(logits.double(), labels)),
    }


class Confusion(NamedTuple):
    """counts (rows, columns): how often the class of a row was taken for that of a column."""

    rows: list[str]
    columns: list[str]
    counts: Tensor


def confusion(predicted: Tensor, labels: Tensor, classes: Sequence[str]) -> Confusion:
    """Counts of predicted and true classes, (n) each.

    >>> confusion(torch.tensor([0, 0, 1]), torch.tensor([0, 1, 1]), ["cat", "dog"]).counts
    tensor([[1, 0],
            [1, 1]])

    Of more than 100 classes those with the most examples have a row, and one column, `others`, is for all the rest.
    """
    most = min(len(classes), MOST_SHOWN)
    sizes = torch.bincount(labels, minlength=len(classes))
    shown = sizes.argsort(descending=True, stable=True)[:most].sort().values
    position = torch.full((len(classes),), most).index_copy(0, shown, torch.arange(most))
    rows, columns = position[labels], position[predicted]
    pairs = (rows * (most + 1) + columns)[rows < most]
    counts = torch.bincount(pairs, minlength=most * (most + 1)).view(most, most + 1)
    names = [classes[number] for number in shown.tolist()]
    return (
        Confusion(names, names, counts[:, :most])
        if most == len(classes)
        else Confusion(names, [*names, "others"], counts)
    )


def confusion_exhibits(
    predicted: Tensor, labels: Tensor, classes: Sequence[str], unit: str, split: str = "test"
) -> tuple[Matrix, Table]:
    """The confusion matrix of a split, and recall and precision of each class. unit: `images`, `texts`."""
    counted = confusion(predicted, labels, classes)
    matrix = Matrix(
        title="Confusion matrix",
        about=f"{split.capitalize()} {unit}: the row is the true class, the column the predicted one.",
        rows=counted.rows,
        columns=counted.columns,
        counts=counted.counts.tolist(),
    )
    named = dict(zip(classes, torch.bincount(predicted, minlength=len(classes)).tolist(), strict=True))
    there, right = counted.counts.sum(1).tolist(), counted.counts.diagonal().tolist()
    table = Table(
        title="Each class",
        about=f"Recall: of the {split} {unit} of a class, how many the model finds. Precision: of those it names so, "
        "how many are.",
        columns=["class", unit, "recall", "precision"],
        rows=[
            [name, there[row], *(right[row] / whole if whole else "none" for whole in (there[row], named[name]))]
            for row, name in enumerate(counted.rows)
        ],
    )
    return matrix, table


def surest_mistakes(probs: Tensor, labels: Tensor) -> list[int]:
    """The examples that are taken for another class, those the model is surest of first.

    >>> surest_mistakes(torch.tensor([[0.6, 0.4], [0.9, 0.1], [0.2, 0.8]]), torch.tensor([1, 1, 1]))
    [1, 0]

    Shapes: probs (N, V), labels (N,).
    """
    surest, predicted = probs.max(1)
    wrong = (predicted != labels).nonzero().flatten()
    order: list[int] = wrong[surest[wrong].argsort(descending=True, stable=True)].tolist()
    return order


def likeliest(probs: Tensor, classes: Sequence[str]) -> str:
    """The classes of the highest probabilities, for people.

    >>> likeliest(torch.tensor([0.1, 0.7, 0.2]), ["cat", "dog", "horse"])
    'dog (0.700), horse (0.200), cat (0.100)'
    """
    best = probs.argsort(descending=True, stable=True)[:NAMED].tolist()
    return ", ".join(f"{classes[label]} ({float(probs[label]):.3f})" for label in best)
