"""Deduplication before the split, what a random split leaks, and classes that are missing."""

import random
from collections import Counter

import pytest

from porism.errors import DataError
from porism.tasks.sentiment.data.reviews import (
    CLASSES,
    Review,
    from_rows,
    from_splits,
    leakage,
    random_split,
    seen_in_train,
    unique,
)

SHARES = {"valid": 0.05, "test": 0.05}


def copies(count: int, distinct: int) -> list[Review]:
    """Rows in which some texts come again, in other letter cases."""
    draw = random.Random(1)
    texts = [f"text {number}" for number in range(distinct)]
    rows = texts + draw.choices(texts, k=count - distinct)
    return [Review(draw.choice((text, text.upper(), f" {text}")), int(text[5:]) % 3) for text in rows]


def test_the_published_sizes() -> None:
    splits = random_split([Review(str(number), 0) for number in range(15_746)], 0.05, 0.05, "")
    assert {split: len(part) for split, part in splits.items()} == {"train": 14_171, "valid": 787, "test": 788}
    assert len({review.text for part in splits.values() for review in part}) == 15_746


def test_each_text_is_kept_once_and_no_split_shares_one() -> None:
    rows = copies(3000, 2000)
    found = from_rows("reviews", rows, deduplicate=True, **SHARES)
    assert found.duplicates[:3] == (3000, 2000, 0)
    assert leakage(found.splits) == {"valid": 0.0, "test": 0.0}
    assert sum(map(len, found.splits.values())) == 2000
    # A text of a held-out row has a copy in train if any of its other rows is there: measured, not guessed.
    train = {review.key for review in random_split(rows, 0.05, 0.05, "")["train"]}
    test = random_split(rows, 0.05, 0.05, "")["test"]
    assert found.random_leakage["test"] == sum(review.key in train for review in test) / len(test) > 0.3
    kept = from_rows("reviews", rows, deduplicate=False, **SHARES)
    assert sum(map(len, kept.splits.values())) == 3000
    assert leakage(kept.splits) == kept.random_leakage == found.random_leakage
    assert sum(seen_in_train(kept.splits, "test")) / 150 == kept.random_leakage["test"]


def test_a_text_under_several_classes_has_that_of_most_rows() -> None:
    rows = [Review("a", 0), Review("A", 2), Review("a ", 2), Review("b", 1), Review("B", 0)]
    assert unique(rows) == [Review("a", 2), Review("b", 1)]
    splits = {"train": [*rows, Review("c", 0)], "valid": [Review("d", 0)], "test": [Review("e", 1)]}
    assert from_splits("x", splits, deduplicate=True).duplicates.conflicting == 2


def test_a_class_that_train_lacks_is_refused_and_one_that_test_lacks_is_said() -> None:
    splits = {"train": [Review("a", 0), Review("b", 1)], "valid": [Review("c", 1)], "test": [Review("d", 2)]}
    with pytest.raises(DataError, match="train has no positive text, and a class without examples cannot be learned"):
        from_splits("x", splits, deduplicate=True)
    splits["train"].append(Review("e", 2))
    missing = from_splits("x", splits, deduplicate=True).missing()
    assert missing == {"valid": ["negative", "positive"], "test": ["negative", "neutral"]}


def test_too_few_texts_to_split() -> None:
    with pytest.raises(DataError, match="x: 5 texts, too few to hold out 0.05 for valid and 0.05 for test."):
        from_rows("x", [Review(str(number), number % 3) for number in range(5)], deduplicate=True, **SHARES)


def test_a_split_that_deduplication_empties_is_refused() -> None:
    train = [Review(name, label) for label, name in enumerate(CLASSES)]
    splits = {"train": train, "valid": [Review("x", 0)], "test": [Review("X", 0)]}
    with pytest.raises(DataError, match="no text is left for valid"):
        from_splits("x", splits, deduplicate=True)


def test_the_fingerprint_tells_texts_and_classes_apart() -> None:
    rows = [Review(f"text {number}", number % 3) for number in range(100)]
    prints = {
        from_rows("x", changed, deduplicate=True, **SHARES).fingerprint()
        for changed in (
            rows,
            rows[::-1],
            [rows[0]._replace(label=2), *rows[1:]],
            [rows[0]._replace(text="t"), *rows[1:]],
        )
    }
    assert len(prints) == 4


def test_the_split_does_not_depend_on_a_seed() -> None:
    rows = [Review(f"text {number}", number % 3) for number in range(200)]
    one, other = (from_rows("x", rows, deduplicate=True, **SHARES) for _ in range(2))
    assert one.splits == other.splits
    assert Counter(review.label for part in one.splits.values() for review in part) == {0: 67, 1: 67, 2: 66}
