"""Classes as whole numbers from 0 on, as files give them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from porism.errors import DataError

UNKNOWN = -1
"""The label of an example whose class is not known, where that may be."""
FEW_CLASSES = 1000
"""So many are fine however few examples there are: a part of a data set keeps the numbers of the whole."""


def whole_labels(where: str, labels: NDArray[Any], least: int = 0) -> NDArray[np.int64]:
    """Labels (N,) or (N, 1) as int64, (N,). `least` is 0, or UNKNOWN where a class may be unknown."""
    if labels.dtype.kind not in "iu":
        raise DataError(f"{where}: labels are {labels.dtype}, expected whole numbers.")
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise DataError(f"{where}: labels are {labels.shape}, expected (N,) or (N, 1): one class an example.")
    if labels.size:
        # As numbers of Python, since 2^64 - 1 would become -1 in 64 bits.
        lowest, highest = int(labels.min()), int(labels.max())
        if lowest < least or highest > np.iinfo(np.int64).max:
            wrong = lowest if lowest < least else highest
            unknown = f", or {UNKNOWN} where it is unknown" if least == UNKNOWN else ""
            position = int(np.flatnonzero(labels == wrong)[0])
            raise DataError(f"{where}: label {wrong} of example {position}, expected a class from 0 on{unknown}.")
    return labels.astype(np.int64)


def check_class_count(where: str, classes: int, examples: int) -> None:
    """Refuses numbers that cannot be those of classes: a model has an output, and a report a line, for each."""
    if classes > max(FEW_CLASSES, examples):
        raise DataError(
            f"{where}: labels run to {classes - 1}, so {classes:,} classes for {examples:,} labelled examples. "
            "Number the classes from 0 on, without gaps."
        )
