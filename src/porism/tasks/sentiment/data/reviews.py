"""Texts with their classes in three splits, and how far the splits share texts.

Reviews are collected under several sort orders, so the same text is in a file more than once. A random split of such
rows puts copies of training texts into the test. `leakage` measures that, and keeping each text once ends it.
"""

import hashlib
import json
import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import torch

from porism.errors import DataError, advise, fields
from porism.tasks.blocks.texts import SPLITS

CLASSES = ("negative", "neutral", "positive")
CLASS_OF_SCORE = {1: 0, 2: 0, 3: 1, 4: 2, 5: 2}
SPLIT_SEED = 42
"""Fixed: a file is split alike in every run, whatever the run's seed."""


class Review(NamedTuple):
    """A text, its class (an index of CLASSES), and whether its opinion is negated, where that is known."""

    text: str
    label: int
    negated: bool | None = None

    @classmethod
    def from_score(cls, text: str, score: int, negated: bool | None = None) -> Self:
        """
        >>> Review.from_score("it does what it should", 4).label
        2
        """
        return cls(text, CLASS_OF_SCORE[score], negated)

    @property
    def key(self) -> str:
        """The same for texts that differ in letter case and white space alone."""
        return " ".join(self.text.casefold().split())


class Duplicates(NamedTuple):
    """What a source held: rows, distinct texts, texts under several classes, and rows by class."""

    rows: int
    texts: int
    conflicting: int
    by_class: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Reviews:
    """Three splits of reviews.

    random_leakage: by split, the share of rows whose text is in train too, were all rows split at random.
    """

    name: str
    splits: Mapping[str, Sequence[Review]]
    duplicates: Duplicates
    random_leakage: Mapping[str, float]
    deduplicated: bool
    synthetic: bool = False
    drawn: bool = False
    """Whether the splits were drawn at random, text by text."""

    def counts(self, split: str) -> list[int]:
        """Reviews of each class."""
        found = Counter(review.label for review in self.splits[split])
        return [found[label] for label in range(len(CLASSES))]

    def missing(self) -> dict[str, list[str]]:
        """The classes that a split has no text of, by split."""
        absent = {
            split: [name for name, count in zip(CLASSES, self.counts(split), strict=True) if not count]
            for split in SPLITS
        }
        return {split: names for split, names in absent.items() if names}

    def fingerprint(self) -> str:
        """The sha256 of texts and classes."""
        digest = hashlib.sha256()
        for split in SPLITS:
            digest.update(f"{split}\n".encode())
            for text, label, _ in self.splits[split]:
                digest.update(json.dumps([text, label]).encode())
        return digest.hexdigest()


def from_rows(name: str, rows: Sequence[Review], *, deduplicate: bool, valid: float, test: float) -> Reviews:
    """Rows of one source, split at random; with `deduplicate` each text is kept once, before the split."""
    distinct = unique(rows)
    splits = random_split(distinct if deduplicate else rows, valid, test, name)
    leaks = leakage(random_split(rows, valid, test, name))
    return _checked(Reviews(name, splits, count_duplicates(rows, distinct), leaks, deduplicate, drawn=True))


def from_splits(
    name: str, splits: Mapping[str, Sequence[Review]], *, deduplicate: bool, synthetic: bool = False
) -> Reviews:
    """Rows that came in splits; with `deduplicate` a text is kept once, in test before valid before train."""
    rows = [review for split in SPLITS for review in splits[split]]
    duplicates, leaks = count_duplicates(rows, unique(rows)), leakage(splits)
    if deduplicate:
        kept: dict[str, list[Review]] = {}
        seen: set[str] = set()
        for split in reversed(SPLITS):
            kept[split] = [review for review in unique(splits[split]) if review.key not in seen]
            seen.update(review.key for review in kept[split])
        splits = kept
    return _checked(Reviews(name, splits, duplicates, leaks, deduplicate, synthetic))


def unique(rows: Sequence[Review]) -> list[Review]:
    """Each text once, as it first came, with the class that most of its rows have, of equals the first.

    >>> unique([Review("Good", 2), Review("good ", 1), Review("GOOD", 1), Review("bad", 0)])
    [Review(text='Good', label=1, negated=None), Review(text='bad', label=0, negated=None)]
    """
    copies: dict[str, list[Review]] = defaultdict(list)
    for review in rows:
        copies[review.key].append(review)
    # Counter lists equal counts in the order they came.
    return [
        same[0]._replace(label=Counter(review.label for review in same).most_common(1)[0][0])
        for same in copies.values()
    ]


def random_split(rows: Sequence[Review], valid: float, test: float, name: str) -> dict[str, list[Review]]:
    """Rows in a fixed random order: the first are train, then valid, then test, as sklearn's two splits count them.

    >>> {split: len(part) for split, part in random_split([Review("", 0)] * 15_746, 0.05, 0.05, "").items()}
    {'train': 14171, 'valid': 787, 'test': 788}
    """
    held = _rounded_up(len(rows) * (valid + test))
    tested = _rounded_up(held * test / (valid + test))
    sizes = {"train": len(rows) - held, "valid": held - tested, "test": tested}
    if min(sizes.values()) < 1:
        raise DataError(
            f"{name}: {len(rows)} texts, too few to hold out {valid:g} for valid and {test:g} for test.",
            advise("Give more texts, or larger shares with {}.", fields(validation_split=0.2, test_split=0.2)),
        )
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(SPLIT_SEED)).split(list(sizes.values()))
    return {split: [rows[index] for index in part.tolist()] for split, part in zip(sizes, order, strict=True)}


def leakage(splits: Mapping[str, Sequence[Review]]) -> dict[str, float]:
    """The share of each held-out split whose texts are in train, too.

    >>> leakage({"train": [Review("a", 0)], "valid": [Review("A ", 0), Review("b", 0)], "test": [Review("c", 1)]})
    {'valid': 0.5, 'test': 0.0}
    """
    return {split: sum(seen_in_train(splits, split)) / max(1, len(splits[split])) for split in SPLITS[1:]}


def seen_in_train(splits: Mapping[str, Sequence[Review]], split: str) -> list[bool]:
    """Of each review of a split, whether its text is in train."""
    known = {review.key for review in splits["train"]}
    return [review.key in known for review in splits[split]]


def count_duplicates(rows: Sequence[Review], distinct: Sequence[Review]) -> Duplicates:
    labels: dict[str, set[int]] = defaultdict(set)
    for review in rows:
        labels[review.key].add(review.label)
    by_class = Counter(review.label for review in rows)
    return Duplicates(
        rows=len(rows),
        texts=len(distinct),
        conflicting=sum(len(found) > 1 for found in labels.values()),
        by_class=tuple(by_class[label] for label in range(len(CLASSES))),
    )


def _checked(reviews: Reviews) -> Reviews:
    """Refuses splits from which no class can be learned or measured."""
    for split in SPLITS:
        if not reviews.splits[split]:
            raise DataError(f"{reviews.name}: no text is left for {split}. Give more texts, or other splits.")
    if "train" in (missing := reviews.missing()):
        raise DataError(
            f"{reviews.name}: train has no {' and no '.join(missing['train'])} text, and a class without examples "
            "cannot be learned. Scores 1 and 2 are negative, 3 neutral, 4 and 5 positive: give texts of all."
        )
    return reviews


def _rounded_up(size: float) -> int:
    # 0.05 + 0.05 of a round number is no whole number in floating point.
    return math.ceil(round(size, 6))
