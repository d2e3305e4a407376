"""Labels are the numbers that were written, or refused: none becomes another one."""

import numpy as np
import pytest

from porism.errors import DataError
from porism.tasks.blocks.labels import UNKNOWN, check_class_count, whole_labels


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u4", "i8", "u8", ">i4"])
def test_whole_numbers_of_every_type_stay_what_they_are(dtype: str) -> None:
    for labels in (np.array([0, 5, 127], dtype), np.array([[0], [5], [127]], dtype)):
        found = whole_labels("set", labels)
        assert found.dtype == np.int64
        assert found.tolist() == [0, 5, 127]
    assert whole_labels("set", np.array([], dtype)).tolist() == []


def test_unknown_is_a_label_where_it_may_be() -> None:
    assert whole_labels("set", np.array([-1, 3]), least=UNKNOWN).tolist() == [-1, 3]
    with pytest.raises(DataError, match="set: label -1 of example 1, expected a class from 0 on."):
        whole_labels("set", np.array([3, -1]))


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.array([0, 2**64 - 1], np.uint64), "label 18446744073709551615 of example 1, expected a class from 0 on"),
        (np.array([0, 2**63], np.uint64), "label 9223372036854775808 of example 1"),
        (np.array([0, -2]), "label -2 of example 1, expected a class from 0 on, or -1 where it is unknown"),
        (np.array([0.0, 1.0]), "labels are float64, expected whole numbers"),
        (np.array([True, False]), "labels are bool, expected whole numbers"),
        (np.array(["0", "1"]), "labels are <U1, expected whole numbers"),
        (np.zeros((2, 3), int), r"labels are \(2, 3\), expected \(N,\) or \(N, 1\)"),
        (np.array(3), r"labels are \(\), expected"),
    ],
)
def test_what_is_no_label(labels: np.ndarray, message: str) -> None:
    with pytest.raises(DataError, match=message):
        whole_labels("set", labels, least=UNKNOWN)


def test_classes_are_many_only_where_examples_are() -> None:
    check_class_count("set", 1000, 3)
    check_class_count("set", 10_450, 10_450)
    with pytest.raises(
        DataError, match="set: labels run to 1000, so 1,001 classes for 3 labelled examples. Number the"
    ):
        check_class_count("set", 1001, 3)
