"""Splits that share examples are refused, and the examples counted."""

import pytest

from porism.errors import DataError
from porism.tasks.blocks.splits import check_disjoint


def test_splits_that_share_nothing_pass() -> None:
    check_disjoint("set", {"train": [1, 2], "valid": [3], "test": []}, "node")
    check_disjoint("set", {"train": {"a": 2, "b": 3}, "test": {"c": 1}}, "node")


@pytest.mark.parametrize(
    ("splits", "message"),
    [
        ({"train": range(20), "test": range(3, 40)}, "set: 17 nodes are in train and test, 3 for instance. Put each"),
        ({"train": [1], "valid": [2], "test": [2]}, "set: 1 node is in valid and test, 2 for instance. Put each"),
        ({"train": [1, 1, 1, 2, 2]}, "set: 2 nodes are in train twice, 1 for instance. Name each once."),
        ({"train": [1, 1], "test": [1]}, "set: 1 node is in train and test"),
    ],
)
def test_what_is_shared_is_counted(splits: dict[str, list[int]], message: str) -> None:
    with pytest.raises(DataError, match=message):
        check_disjoint("set", splits, "node")
