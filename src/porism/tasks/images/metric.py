"""How well classes are told: the share that is right, cross-entropy, and the area under the ROC curve."""

import torch
from torch import Tensor
from torch.nn import functional


def classification(logits: Tensor, labels: Tensor) -> dict[str, float]:
    """Accuracy, mean cross-entropy in nats, and AUC.

    >>> classification(torch.tensor([[2.0, 0.0], [0.0, 3.0], [1.0, 0.0]]), torch.tensor([0, 1, 1]))["accuracy"]
    0.6666666666666666

    Shapes: logits (N, V), labels (N,).
    """
    logits = logits.double()
    return {
        "accuracy": float((logits.argmax(1) == labels).double().mean()),
        "cross_entropy": float(functional.cross_entropy(logits, labels)),
        "auc": auc(logits.softmax(1), labels),
    }


def auc(scores: Tensor, labels: Tensor) -> float:
    """The mean over classes of the chance that an image of the class scores higher for it than one of another.

    It is read off the ranks, equal scores sharing theirs: with n images of a class whose ranks sum to R, and m others,
    the area is (R - n (n + 1) / 2) / (n m). A class that no image has, or all, has no area and is left out.
    """
    areas = []
    for label in range(scores.shape[1]):
        of_class = labels == label
        n = int(of_class.sum())
        m = len(labels) - n
        if n and m:
            areas.append((ranks(scores[:, label])[of_class].sum() - n * (n + 1) / 2) / (n * m))
    return float(torch.stack(areas).mean()) if areas else 0.5


def ranks(values: Tensor) -> Tensor:
    """From 1 up; equal values share the mean of theirs.

    >>> ranks(torch.tensor([0.3, 0.1, 0.3])).tolist()
    [2.5, 1.0, 2.5]
    """
    _, which, counts = values.unique(return_inverse=True, return_counts=True)
    last = counts.cumsum(0).double()
    shared: Tensor = last - (counts - 1) / 2
    return shared[which]
