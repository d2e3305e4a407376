"""Refuses splits that share examples, tells of classes that one lacks. Imports no torch: lists of data need it too."""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

from porism.errors import DataError
from porism.tasks.blocks.download import readable

if TYPE_CHECKING:
    from torch import Tensor


def check_disjoint(
    name: str, splits: Mapping[str, Collection[Hashable]], thing: str, shown: Callable[[Any], str] = str
) -> None:
    """Refuses a split that holds something twice, and two that share something.

    >>> check_disjoint("club", {"train": [0, 1, 2], "test": [2, 1]}, "node")
    Traceback (most recent call last):
    porism.errors.DataError: club: 2 nodes are in train and test, 2 for instance. Put each into one split.
    """
    for one, other in combinations(splits, 2):
        both = set(splits[one])
        shared = [member for member in splits[other] if member in both]
        _refuse(name, shared, f"{one} and {other}", "Put each into one split.", thing, shown)
    for split, members in splits.items():
        twice = [member for member, times in Counter(iter(members)).items() if times > 1]
        _refuse(name, twice, f"{split} twice", "Name each once.", thing, shown)


NAMED = 5
"""Classes that are named; of more only the number is."""


def missing_classes(labels: "Mapping[str, Tensor]", classes: Sequence[str], thing: str) -> dict[str, str]:
    """The classes that a split has no example of, as a fact; none where every split has all that any has.

    >>> missing_classes({"train": torch.tensor([0, 1, 2]), "test": torch.tensor([0, 0])}, "abc", "image")
    {'missing classes': 'test has no b and no c image'}
    """
    held = {split: set(found.unique().tolist()) for split, found in labels.items()}
    known = sorted(set().union(*held.values()))
    told = []
    for split, found in held.items():
        names = [classes[label] for label in known if label not in found]
        listed = " and ".join(f"no {name}" for name in names)
        if names:
            told.append(f"{split} has {listed if len(names) <= NAMED else f'{len(names)} classes without any'} {thing}")
    return {"missing classes": "; ".join(told)} if told else {}


def file_identity(path: Path) -> Hashable:
    """The same for whatever leads to the same file: its own name, or a link."""
    with readable(path):
        found = path.stat()
    # Some file systems of networks give no inode numbers.
    return (found.st_dev, found.st_ino) if found.st_ino else path.resolve()


def _refuse(name: str, wrong: list[Hashable], where: str, advice: str, thing: str, shown: Callable[[Any], str]) -> None:
    if wrong:
        those = f"1 {thing} is" if len(wrong) == 1 else f"{len(wrong)} {thing}s are"
        raise DataError(f"{name}: {those} in {where}, {shown(wrong[0])} for instance. {advice}")
