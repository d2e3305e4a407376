"""Tables of scikit-learn's."""

import re
from collections.abc import Callable
from pathlib import Path

from untuned_sets.data_set import DataSet, write_table


def sklearn_table(name: str) -> Callable[[Path], None]:
    """A table of scikit-learn's, its target last."""

    def write(path: Path) -> None:
        from sklearn import datasets

        data = getattr(datasets, f"load_{name}")()
        columns = [re.sub(r"\W", "_", str(column)) for column in data.feature_names]
        rows = ((*x, y) for x, y in zip(data.data.tolist(), data.target.tolist(), strict=True))
        write_table(path, (*columns, "target"), rows)

    return write


SETS = [
    DataSet("supervised", "wine", "178 wines, 3 growers", sklearn_table("wine"), ".csv"),
    DataSet("supervised", "breast-cancer", "569 tumours, 2 kinds", sklearn_table("breast_cancer"), ".csv"),
    DataSet("supervised", "diabetes", "442 patients, a number", sklearn_table("diabetes"), ".csv", {"loss": "mse"}),
]
