"""Logistic regression by scikit-learn, to set a classifier beside: fitted on train, its regularization chosen on valid.

>>> train, labels = np.array([[0.0], [0.1], [0.9], [1.0]]), np.array([0, 0, 1, 1])
>>> model = fit_logistic(train, labels, train, labels, classes=2)
>>> model.log_probs(np.array([[0.05], [0.95]])).argmax(1)
tensor([0, 1])
"""

import warnings
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

STRENGTHS = (0.01, 0.1, 1.0, 10.0)
"""C of scikit-learn, the inverse of the weight of the squared weights; of equal accuracies on valid the smallest."""
ITERATIONS = 100
"""Of L-BFGS at most: where it has not converged by then, a smaller C has."""
SMALLEST = 1e-20
"""Probability: that of a class may be 0, whose logarithm is no number."""

Labels = NDArray[np.int64]


def sklearn_missing(models: str) -> list[str]:
    """A line that says which baselines are left out for want of scikit-learn; none where it is installed.

    >>> sklearn_missing("logistic regression")
    []
    """
    if find_spec("sklearn") is not None:
        return []
    return [f'Without {models}: scikit-learn is not installed, pip install "porism[baselines]" brings it.']


@dataclass(frozen=True)
class FittedClassifier:
    """A classifier of scikit-learn's over the classes that train has, as log-probabilities over all classes."""

    model: Any
    classes: int
    floor: float
    """The log-probability of a class that train has not."""

    def log_probs(self, inputs: Any) -> Tensor:
        """inputs (N, features), dense or sparse -> (N, classes), in float64."""
        known = torch.from_numpy(np.asarray(self.model.predict_proba(inputs), dtype=np.float64))
        found = torch.full((len(known), self.classes), self.floor, dtype=torch.float64)
        found[:, torch.from_numpy(np.asarray(self.model.classes_, dtype=np.int64))] = known.clamp(min=SMALLEST).log()
        return found

    def accuracy(self, inputs: Any, labels: Labels) -> float:
        return float((self.log_probs(inputs).argmax(1).numpy() == labels).mean())


def fit_logistic(train: Any, labels: Labels, valid: Any, valid_labels: Labels, classes: int) -> FittedClassifier:
    """The logistic regression of the C that is best on valid. train (N, features), dense or sparse; at least 2 classes.

    A class that train has not is given the share of half an example.
    """
    from sklearn.linear_model import LogisticRegression

    return best_on_valid(
        [LogisticRegression(C=C, max_iter=ITERATIONS) for C in STRENGTHS], train, labels, valid, valid_labels, classes
    )


def best_on_valid(
    models: list[Any], train: Any, labels: Labels, valid: Any, valid_labels: Labels, classes: int
) -> FittedClassifier:
    """Classifiers of scikit-learn's, each fitted on train; the first of those that are best on valid."""
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = [
            FittedClassifier(model.fit(train, labels), classes, float(np.log(0.5 / len(labels)))) for model in models
        ]
    return max(fitted, key=lambda model: model.accuracy(valid, valid_labels))
