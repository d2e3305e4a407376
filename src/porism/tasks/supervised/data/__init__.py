"""The examples of the task: arrays, a Dataset or a file, split in three.

>>> data = load_data(None, RECIPES["mlp"])
>>> {split: len(examples) for split, examples in data.splits.items()}
{'train': 420, 'valid': 90, 'test': 90}
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from porism.errors import Advice, DataError, nearest, shown
from porism.tasks.blocks.finite import check_finite
from porism.tasks.blocks.held_out import split_positions
from porism.tasks.blocks.in_memory import (
    Arrays,
    Chosen,
    Examples,
    Items,
    by_split,
    examples_of,
    fixed_randomness,
)
from porism.tasks.blocks.labels import check_class_count
from porism.tasks.blocks.splits import missing_classes
from porism.tasks.supervised.catalogue import CATALOGUE
from porism.tasks.supervised.data.embedded import CLASSES, rings
from porism.tasks.supervised.data.files import read_examples
from porism.tasks.supervised.recipes import SupervisedRecipe

__all__ = ["OWN", "SupervisedData", "check_inputs", "load_data", "own_data", "targets_of"]

SPLITS = ("train", "valid", "test")
READ_AT_ONCE = 256
OWN: Literal["own"] = "own"
"""What the recipe calls a model of the user's own."""
NAMED_LOSSES = ("cross_entropy", "mse", "bce")
TARGETS = ("label", "labels", "target", "targets", "y")
"""Usual names of the column that is predicted."""


@dataclass(frozen=True, eq=False)
class SupervisedData:
    """Examples by split, and the names of classes where targets are classes."""

    splits: Mapping[str, Examples]
    classes: tuple[str, ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    """How the splits came to be."""

    def fingerprint(self) -> str:
        """The sha256 of all examples, of a Dataset of some of them."""
        digests = [f"{split} {len(examples)} {examples.digest()}" for split, examples in self.splits.items()]
        return hashlib.sha256("\n".join([*self.classes, *digests]).encode()).hexdigest()


def load_data(source: str | None, recipe: SupervisedRecipe) -> SupervisedData:
    """The data of a name or a file; None is the embedded one."""
    if source is None or source == "rings":
        return split_up(Arrays(None, rings()), recipe, CLASSES if recipe.loss == "cross_entropy" else ())
    path = Path(source).expanduser()
    if not path.exists():
        raise DataError(f"{source}: no such file, and no data of that name. {nearest(source, list(CATALOGUE))}")
    examples, header = read_examples(path, of_classes=recipe.loss == "cross_entropy")
    try:
        found = split_up(examples, recipe)
    except DataError as error:
        # The same message serves data in memory, which has no name of its own.
        raise DataError(f"{path}: {error.problem.removeprefix('data: ')}", error.advice) from error
    columns = ", ".join(shown(name)[1:-1] for name in header)
    return replace(found, facts={**found.facts, "header": columns}) if header else found


def own_data(data: Any, recipe: SupervisedRecipe) -> SupervisedData:
    """Data that is in memory."""
    parts = by_split(data)
    examples = {
        split: examples_of(parts[split], "data" if len(parts) == 1 else split) for split in SPLITS if split in parts
    }
    if recipe.loss in NAMED_LOSSES:
        examples = {split: _as_pairs(found, split) for split, found in examples.items()}
    if "valid" in examples:
        return _checked(examples, recipe, {"split": "as it came"})
    return split_up(examples["train"], recipe, test=examples.get("test"))


def _as_pairs(examples: Examples, split: str) -> Examples:
    """Examples that are dicts as inputs and, last, the target, by the usual names of its column."""
    if examples.names is None or not isinstance(examples, Items):
        return examples
    found = [name for name in examples.names if name in TARGETS]
    if len(found) != 1 or len(examples.names) < 2:
        raise DataError(
            f"{split}: examples are dicts of {', '.join(examples.names)}, expected inputs and one of "
            f"{', '.join(TARGETS)}. Rename the column of the target, or give pairs of input and target."
        )
    order = [*(name for name in examples.names if name != found[0]), found[0]]

    def collate(items: list[Any]) -> list[Any]:
        batch = examples.collate(items)
        return [batch[name] for name in order]

    return replace(examples, names=None, collate=collate)


def split_up(
    examples: Examples, recipe: SupervisedRecipe, classes: tuple[str, ...] = (), test: Examples | None = None
) -> SupervisedData:
    """Examples without a split of their own, shared out by the recipe: stratified where targets are classes."""
    examples = _with_classes(examples, recipe)
    labels = _labels(examples, recipe)
    shares = {"valid": recipe.validation_split} | ({} if test is not None else {"test": recipe.test_split})
    positions = split_positions(len(examples), shares, recipe.split_seed, labels)
    splits: dict[str, Examples] = {
        split: Chosen(examples.names, examples, chosen) for split, chosen in positions.items()
    }
    if test is not None:
        splits["test"] = test
    percent = ", ".join(f"{share:.0%} {split}" for split, share in shares.items())
    how = f"{percent} held out at random by split_seed {recipe.split_seed}"
    found = _checked(splits, recipe, {"split": how if labels is None else f"{how}, in each class"})
    return found if not classes else SupervisedData(found.splits, classes, found.facts)


def _with_classes(examples: Examples, recipe: SupervisedRecipe) -> Examples:
    """Classes in memory as 64 bits: torch takes True and False, or bytes, for a mask where it takes indices."""
    if recipe.loss != "cross_entropy" or not isinstance(examples, Arrays):
        return examples
    *inputs, target = examples.tensors
    if target.is_floating_point() or target.is_complex() or target.dtype == torch.int64:
        return examples
    return replace(examples, tensors=(*inputs, target.long()))


def _labels(examples: Examples, recipe: SupervisedRecipe) -> Tensor | None:
    """One class an example, where all targets are in memory and are classes."""
    if recipe.loss != "cross_entropy" or not isinstance(examples, Arrays):
        return None
    target = examples.tensors[-1]
    if target.dim() != 1 or target.is_floating_point() or target.min() < 0:
        return None
    if not examples.classes:
        check_class_count("data", int(target.max()) + 1, len(target))
    return target


def _checked(splits: Mapping[str, Examples], recipe: SupervisedRecipe, facts: dict[str, str]) -> SupervisedData:
    """Targets as the loss takes them, the same in all splits."""
    if recipe.loss not in NAMED_LOSSES:
        return SupervisedData(splits, (), facts)
    splits, names = _numbered_alike({split: _with_classes(found, recipe) for split, found in splits.items()})
    if recipe.model != OWN:
        # A module of the user's own may know what to do with a missing number; ours do not.
        for split, examples in splits.items():
            check_inputs(examples, split, read_items=False)
    if recipe.loss != "cross_entropy":
        if names:
            raise DataError(
                f"targets are text, and {recipe.loss} takes numbers.",
                Advice("For classes use --loss cross_entropy.", 'For classes use loss="cross_entropy".'),
            )
        for split, examples in splits.items():
            _check_numbers(targets_of(examples), recipe.loss, split)
        return SupervisedData(splits, (), facts)
    targets = {split: targets_of(examples) for split, examples in splits.items()}
    highest = max(_highest_class(of_split, split) for split, of_split in targets.items())
    known = names or _names_of(splits["train"])
    if not known:
        check_class_count("data", highest + 1, sum(map(len, splits.values())))
    if known and highest >= len(known):
        raise DataError(f"class {highest}, and the data names {len(known)} classes, 0 to {len(known) - 1}.")
    classes = known or tuple(str(number) for number in range(highest + 1))
    missing = missing_classes(
        {split: of_split[of_split >= 0] for split, of_split in targets.items()}, classes, "example"
    )
    return SupervisedData(splits, classes, facts | missing)


def _numbered_alike(splits: Mapping[str, Examples]) -> tuple[Mapping[str, Examples], tuple[str, ...]]:
    """Classes that came as text, with the same number in every split."""
    whole = {split: _whole(examples) for split, examples in splits.items()}
    of_split = {split: found.classes if isinstance(found, Arrays) else () for split, found in whole.items()}
    if not any(of_split.values()):
        return splits, ()
    if bare := [split for split, names in of_split.items() if not names]:
        raise DataError(f"{bare[0]}: targets are numbers, and those of other splits text. Give the same in all.")
    names = tuple(sorted(set().union(*of_split.values())))
    if all(found == names for found in of_split.values()):
        return splits, names
    alike: dict[str, Examples] = {}
    for split, examples in splits.items():
        number = torch.tensor([names.index(name) for name in of_split[split]])
        assert isinstance(examples, Arrays)
        alike[split] = Arrays(None, (*examples.tensors[:-1], number[examples.tensors[-1]]), names)
    return alike, names


def _names_of(examples: Examples) -> tuple[str, ...]:
    """The names of classes that a Dataset has, as those of torchvision do."""
    whole = _whole(examples)
    found = getattr(whole.items, "classes", ()) if isinstance(whole, Items) else ()
    return tuple(map(str, found)) if isinstance(found, list | tuple) else ()


def _whole(examples: Examples) -> Examples:
    return examples.whole if isinstance(examples, Chosen) else examples


def targets_of(examples: Examples) -> Tensor:
    """All targets of a split. Of a Dataset every example is read, since the last may have a class of its own."""
    whole = _whole(examples)
    if isinstance(whole, Arrays):
        return whole.tensors[-1] if whole is examples else examples.batch(torch.arange(len(examples)))[-1]
    with fixed_randomness():
        return torch.cat([examples.batch(some)[-1] for some in torch.arange(len(examples)).split(READ_AT_ONCE)])


def mean_and_deviation(examples: Examples) -> tuple[Tensor, Tensor]:
    """Of each number of the first input over all examples, (D,) each in float64."""
    with fixed_randomness():
        mean = _mean(examples, lambda x: x)
        return mean, _mean(examples, lambda x: (x - mean) ** 2).sqrt()


def _mean(examples: Examples, of: Callable[[Tensor], Tensor]) -> Tensor:
    parts = torch.arange(len(examples)).split(READ_AT_ONCE)
    sums = [of(examples.batch(some)[0].flatten(1).double()).sum(0) for some in parts]
    return torch.stack(sums).sum(0) / len(examples)


def inputs_of(examples: Examples) -> Tensor | None:
    """All inputs of a split as rows of numbers, where they are one tensor of them in memory; None elsewhere."""
    whole = _whole(examples)
    if not isinstance(whole, Arrays) or len(whole.tensors) != 2 or whole.names is not None:
        return None
    x = whole.tensors[0] if whole is examples else examples.batch(torch.arange(len(examples)))[0]
    return x.reshape(len(x), -1) if x.is_floating_point() else None


def _highest_class(target: Tensor, split: str) -> int:
    if target.is_floating_point():
        raise DataError(
            f"{split}: targets are {target.dtype}, and cross_entropy takes classes as whole numbers.",
            Advice(
                "For numbers use --loss mse, for probabilities --loss bce.",
                'For numbers use loss="mse", for probabilities "bce".',
            ),
        )
    if int(target.min()) < 0:
        raise DataError(f"{split}: class {int(target.min())}, expected classes from 0 on.")
    return int(target.max())


def check_inputs(examples: Examples, split: str, *, read_items: bool = True) -> None:
    """Refuse inputs that are NaN or infinite, by the number of the example. read_items: of a Dataset too, all of it."""
    whole = _whole(examples)
    if isinstance(whole, Arrays):
        for number, x in enumerate(whole.tensors[:-1]):
            # By the row that the user gave, whichever split it came to.
            check_finite(x, "data" if whole is not examples else split, _called("input", number, whole))
    elif read_items:
        with fixed_randomness():
            for some in torch.arange(len(examples)).split(READ_AT_ONCE):
                for number, x in enumerate(examples.batch(some)):
                    check_finite(x, f"{split}, from example {int(some[0])} on", _called("tensor", number, examples))


def _called(what: str, number: int, examples: Examples) -> str:
    if examples.names is not None:
        return f"{examples.names[number]} at"
    return f"{what} at" if isinstance(examples, Arrays) and len(examples.tensors) == 2 else f"{what} {number} at"


def _check_numbers(target: Tensor, loss: str, split: str) -> None:
    check_finite(target, split, "target at")
    if loss == "bce" and not bool(((target >= 0) & (target <= 1)).all()):
        raise DataError(f"{split}: targets from {float(target.min()):g} to {float(target.max()):g}, expected 0 to 1.")
