"""Simple models beside a net: the most frequent class or the mean of the targets, and logistic regression.

Logistic regression reads inputs that are numbers in memory, each brought to mean 0 and deviation 1 on train; it is
fitted on train, and its regularization is chosen on valid.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from porism.tasks.blocks.in_memory import Examples
from porism.tasks.blocks.logistic import fit_logistic, sklearn_missing
from porism.tasks.supervised.data import inputs_of, mean_and_deviation, targets_of
from porism.tasks.supervised.metric import measure

LOGISTIC = "logistic regression"
MOST_NUMBERS = 1_000_000
"""Examples times inputs that it is fitted on: with more it would outlast many a training."""

Baselines = dict[str, dict[str, dict[str, float]]]


def baseline_metrics(splits: Mapping[str, Examples], loss: str, classes: int) -> Baselines:
    """The metrics of each baseline on the splits beside train: name, then split."""
    targets = {split: targets_of(examples) for split, examples in splits.items()}
    others = {split: target for split, target in targets.items() if split != "train"}
    found = without_input(targets["train"], others, loss, classes)
    if not reads_inputs(splits, loss, targets["train"]) or not are_finite(splits) or sklearn_missing(""):
        return found
    return {**found, LOGISTIC: _logistic(splits, targets, loss, classes)}


def baseline_notes(splits: Mapping[str, Examples], loss: str) -> list[str]:
    """What to know of them: which is left out, and which saw a part of train alone."""
    if not reads_inputs(splits, loss, targets_of(splits["train"])):
        return []
    if not are_finite(splits):
        return ["Logistic regression is left out: some inputs are not finite."]
    train = inputs_of(splits["train"])
    most = 0 if train is None else most_fitted(train)
    whole = train is None or most >= len(train)
    part = [] if whole else [f"Logistic regression is fitted on {most} of {len(splits['train'])} examples."]
    return sklearn_missing(LOGISTIC) or part


def reads_inputs(splits: Mapping[str, Examples], loss: str, train: Tensor) -> bool:
    """Whether logistic regression can be fitted: to one class an example, two of them at least, by numbers."""
    classified = loss == "cross_entropy" and train.dim() == 1 and len(train.unique()) > 1
    return classified and "valid" in splits and all(inputs_of(examples) is not None for examples in splits.values())


def are_finite(splits: Mapping[str, Examples]) -> bool:
    """Whether all inputs are: a module of the user's own may take a NaN, logistic regression does not."""
    return all(x.isfinite().all() for examples in splits.values() if (x := inputs_of(examples)) is not None)


def most_fitted(train: Tensor) -> int:
    """Examples that it is fitted on at most."""
    return max(1, MOST_NUMBERS // max(1, train.shape[1]))


def _logistic(
    splits: Mapping[str, Examples], targets: Mapping[str, Tensor], loss: str, classes: int
) -> dict[str, dict[str, float]]:
    inputs = {split: x.double() for split, examples in splits.items() if (x := inputs_of(examples)) is not None}
    train = inputs["train"]
    mean, deviation = mean_and_deviation(splits["train"])
    # What is the same for all examples of train stays 0 there, and is not blown up elsewhere.
    scaled = {split: ((x - mean) / deviation.masked_fill(deviation == 0, 1)).numpy() for split, x in inputs.items()}
    rows = torch.randperm(len(train), generator=torch.Generator().manual_seed(0))[: most_fitted(train)].numpy()
    labels = {split: target.numpy() for split, target in targets.items()}
    model = fit_logistic(scaled["train"][rows], labels["train"][rows], scaled["valid"], labels["valid"], classes)
    return {
        split: measure(model.log_probs(scaled[split]), target, loss)
        for split, target in targets.items()
        if split != "train"
    }


def without_input(train: Tensor, targets: Mapping[str, Tensor], loss: str, classes: int) -> dict[str, dict[str, Any]]:
    """What is reached without looking at the input: by the most frequent class, or the mean of the targets.

    >>> without_input(torch.tensor([0, 0, 0, 1]), {"test": torch.tensor([0, 1])}, "cross_entropy", 2)["majority class"]
    {'test': {'accuracy': 0.5, 'cross_entropy': 0.836988216785836}}
    """
    if loss == "cross_entropy" and train.dim() == 1:
        shares = torch.bincount(train, minlength=classes).double() / len(train)
        # A class that train has not has no logarithm; it gets the share of half an example.
        logits = shares.clamp(min=0.5 / len(train)).log()
        return {
            "majority class": {
                split: measure(logits.expand(len(target), -1), target, loss) for split, target in targets.items()
            }
        }
    if loss == "mse":
        mean = train.double().mean(0)
        return {"mean": {split: measure(mean.expand(target.shape), target, loss) for split, target in targets.items()}}
    return {}
