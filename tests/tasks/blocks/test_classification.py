"""Each class and what it was taken for, however many classes there are."""

import torch

from porism.tasks.blocks.classification import MOST_SHOWN, confusion


def test_rows_are_what_it_is() -> None:
    found = confusion(torch.tensor([0, 0, 1, 0]), torch.tensor([0, 1, 1, 1]), ("a", "b", "c"))
    assert found.rows == found.columns == ["a", "b", "c"]
    assert found.counts.tolist() == [[1, 0, 0], [2, 1, 0], [0, 0, 0]]


def test_of_many_classes_the_largest_are_shown_and_the_rest_is_one_column() -> None:
    classes = [str(number) for number in range(50_000)]
    labels = torch.tensor([49_999] * 3 + [7] * 2 + [40_000])
    predicted = torch.tensor([49_999, 7, 30_000, 7, 49_999, 40_000])
    rows, columns, counts = confusion(predicted, labels, classes)
    assert len(rows) == MOST_SHOWN
    assert columns == [*rows, "others"]
    at = {name: place for place, name in enumerate(columns)}
    assert counts.shape == (MOST_SHOWN, MOST_SHOWN + 1)
    assert counts.sum() == 6
    assert counts[at["49999"], [at["49999"], at["7"], at["others"]]].tolist() == [1, 1, 1]
    assert counts[at["7"], [at["49999"], at["7"], at["others"]]].tolist() == [1, 1, 0]
    assert counts[at["40000"], at["40000"]] == 1


def test_rows_of_the_confusion_are_what_it_is() -> None:
    predicted, labels = torch.tensor([0, 2, 2, 1]), torch.tensor([0, 1, 1, 2])
    assert confusion(predicted, labels, "abc").counts.tolist() == [[1, 0, 0], [0, 0, 2], [0, 1, 0]]
