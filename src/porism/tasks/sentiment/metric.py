"""Metrics of a classifier of texts: accuracy, its chance level, cross-entropy and macro F1."""

from collections.abc import Sequence

import torch
from torch import Tensor

from porism.tasks.blocks.classification import accuracy_and_cross_entropy
from porism.tasks.sentiment.data.batches import TokenizedReview, evaluation_batches
from porism.tasks.sentiment.data.reviews import Reviews, seen_in_train
from porism.tasks.sentiment.model.base import Classifier

EVALUATION_BATCH = 128


@torch.no_grad()
def logits_of(model: Classifier, examples: Sequence[TokenizedReview], pad: int) -> Tensor:
    """Logits (N, classes) in the order of the examples, on the CPU."""
    device = model.head.weight.device
    logits = torch.empty(len(examples), model.head.out_features)
    for rows, batch in evaluation_batches(examples, pad, EVALUATION_BATCH):
        logits[rows] = model(batch.tokens.to(device), batch.lengths.to(device)).float().cpu()
    return logits


def evaluate(logits: Tensor, reviews: Reviews, split: str) -> dict[str, float]:
    """The metrics of a split, and accuracies of parts of it where they are known.

    `chance_accuracy` is that of the class which is most frequent in train, predicted for every text. `accuracy_negated`
    is that of negated opinions, known of synthetic sentences. `accuracy_unseen` leaves out texts that are in train,
    too.
    """
    labels = torch.tensor([review.label for review in reviews.splits[split]])
    right = logits.argmax(1) == labels
    counts = reviews.counts("train")
    parts = {"accuracy_negated": [review.negated is True for review in reviews.splits[split]]}
    if split != "train" and any(seen := seen_in_train(reviews.splits, split)):
        parts["accuracy_unseen"] = [not known for known in seen]
    return {
        **accuracy_and_cross_entropy(logits, labels),
        "macro_f1": macro_f1(logits.argmax(1), labels, logits.shape[1]),
        "chance_accuracy": float((labels == counts.index(max(counts))).double().mean()),
        **{name: float(right[torch.tensor(part)].double().mean()) for name, part in parts.items() if any(part)},
    }


def macro_f1(predicted: Tensor, labels: Tensor, classes: int) -> float:
    """The mean of the classes' F1, 2 right / (predicted + there), over classes that are predicted or there.

    >>> macro_f1(torch.tensor([0, 0, 1]), torch.tensor([0, 1, 1]), classes=3)
    0.6666666666666666
    """
    scores = []
    for label in range(classes):
        named, there = predicted == label, labels == label
        if total := int(named.sum() + there.sum()):
            scores.append(2 * int((named & there).sum()) / total)
    return sum(scores) / len(scores)
