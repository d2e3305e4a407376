"""Simple models beside a net: the most frequent class or the mean of the targets, and logistic or linear regression.

A regression reads inputs that are numbers in memory, each brought to mean 0 and deviation 1 on train; it is fitted on
train, and its regularization is chosen on valid. Linear regression, with N examples X and centred targets Y:

    W = (X^T X + r N I)^-1 X^T Y,    r of PENALTIES
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from porism.tasks.blocks.in_memory import Examples
from porism.tasks.blocks.logistic import fit_logistic, sklearn_missing
from porism.tasks.supervised.data import inputs_of, mean_and_deviation, targets_of
from porism.tasks.supervised.metric import measure

LOGISTIC, LINEAR = "logistic regression", "linear regression"
PENALTIES = (1e-6, 1e-3, 1e-2, 1e-1, 1.0)
"""Weights of the squared weights that linear regression has to choose from."""
MOST_NUMBERS = 1_000_000
"""Examples times inputs that it is fitted on: with more it would outlast many a training."""

Baselines = dict[str, dict[str, dict[str, float]]]


def baseline_metrics(splits: Mapping[str, Examples], loss: str, classes: int) -> Baselines:
    """The metrics of each baseline on the splits beside train: name, then split."""
    targets = {split: targets_of(examples) for split, examples in splits.items()}
    others = {split: target for split, target in targets.items() if split != "train"}
    found = without_input(targets["train"], others, loss, classes)
    regression = regression_for(splits, loss, targets["train"])
    if regression is None or not are_finite(splits) or (regression == LOGISTIC and sklearn_missing("")):
        return found
    inputs = _standardised(splits)
    rows = torch.randperm(len(inputs["train"]), generator=torch.Generator().manual_seed(0))
    rows = rows[: most_fitted(inputs["train"])]
    linear = regression == LINEAR
    predicted = _linear(inputs, targets, rows) if linear else _logistic(inputs, targets, rows, classes)
    return {**found, regression: {split: measure(predicted[split], target, loss) for split, target in others.items()}}


def baseline_notes(splits: Mapping[str, Examples], loss: str) -> list[str]:
    """What to know of them: which is left out, and which saw a part of train alone."""
    regression = regression_for(splits, loss, targets_of(splits["train"]))
    if regression is None:
        return []
    if not are_finite(splits):
        return [f"{regression.capitalize()} is left out: some inputs are not finite."]
    train = inputs_of(splits["train"])
    most = 0 if train is None else most_fitted(train)
    whole = train is None or most >= len(train)
    part = [] if whole else [f"{regression.capitalize()} is fitted on {most} of {len(splits['train'])} examples."]
    return (sklearn_missing(LOGISTIC) if regression == LOGISTIC else []) or part


def regression_for(splits: Mapping[str, Examples], loss: str, train: Tensor) -> str | None:
    """Which regression can be fitted by numbers: logistic to one class an example, two of them at least, linear to
    numbers; None where neither can."""
    if "valid" not in splits or any(inputs_of(examples) is None for examples in splits.values()):
        return None
    if loss == "cross_entropy":
        return LOGISTIC if train.dim() == 1 and len(train.unique()) > 1 else None
    return LINEAR if loss == "mse" else None


def are_finite(splits: Mapping[str, Examples]) -> bool:
    """Whether all inputs are: a module of the user's own may take a NaN, a regression does not."""
    return all(x.isfinite().all() for examples in splits.values() if (x := inputs_of(examples)) is not None)


def most_fitted(train: Tensor) -> int:
    """Examples that it is fitted on at most."""
    return max(1, MOST_NUMBERS // max(1, train.shape[1]))


def _standardised(splits: Mapping[str, Examples]) -> dict[str, Tensor]:
    """All inputs (N, D) of each split in float64, each brought to mean 0 and deviation 1 on train."""
    mean, deviation = mean_and_deviation(splits["train"])
    inputs = {split: x.double() for split, examples in splits.items() if (x := inputs_of(examples)) is not None}
    # What is the same for all examples of train stays 0 there, and is not blown up elsewhere.
    return {split: (x - mean) / deviation.masked_fill(deviation == 0, 1) for split, x in inputs.items()}


def _logistic(
    inputs: Mapping[str, Tensor], targets: Mapping[str, Tensor], rows: Tensor, classes: int
) -> dict[str, Tensor]:
    """The log-probabilities (N, classes) of each split."""
    x, y = inputs["train"][rows].numpy(), targets["train"][rows].numpy()
    model = fit_logistic(x, y, inputs["valid"].numpy(), targets["valid"].numpy(), classes)
    return {split: model.log_probs(some.numpy()) for split, some in inputs.items()}


def _linear(inputs: Mapping[str, Tensor], targets: Mapping[str, Tensor], rows: Tensor) -> dict[str, Tensor]:
    """The predicted numbers of each split, in the shape of its targets."""
    x, y = inputs["train"][rows], targets["train"][rows].double().reshape(len(rows), -1)
    centre, mean = x.mean(0), y.mean(0)
    # X = U S V^T: one factorization for all penalties, W = V S / (S^2 + r N) U^T Y.
    u, s, vt = torch.linalg.svd(x - centre, full_matrices=False)
    projected = u.mT @ (y - mean)

    def predict(penalty: float, split: str) -> Tensor:
        weight = vt.mT @ ((s / (s**2 + penalty * len(x)))[:, None] * projected)
        found: Tensor = (inputs[split] - centre) @ weight + mean
        return found.reshape(targets[split].shape)

    def valid_error(penalty: float) -> float:
        return float((predict(penalty, "valid") - targets["valid"]).square().mean())

    chosen = min(PENALTIES, key=valid_error)
    return {split: predict(chosen, split) for split in inputs}


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
