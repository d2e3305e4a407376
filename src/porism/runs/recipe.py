"""A recipe: every setting of a training, as a frozen dataclass with a name.

>>> override(recipe, ["hidden_size=200", "learning_rate=0.01"])   # what `--set` does
"""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from porism.errors import Advice, RecipeError, advise, nearest, option, shown
from porism.runs.old_fields import EVERY, assignment, refuse_old

LARGEST = 2**63 - 1
"""What torch can count to."""
LONGEST_SHOWN = 60
"""Letters of a value that a message gives as they are."""

Count = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]

Layers = Annotated[int, msgspec.Meta(ge=1, le=1000)]

Repeats = Annotated[int, msgspec.Meta(ge=1, le=1000)]
"""What a step does one after the other: of more it would not end."""

Whole = Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]

Positive = Annotated[float, msgspec.Meta(gt=0)]

NotNegative = Annotated[float, msgspec.Meta(ge=0)]

Share = Annotated[float, msgspec.Meta(gt=0, le=1)]

Part = Annotated[float, msgspec.Meta(ge=0, lt=1)]


UsedWith = Mapping[str, Mapping[str, tuple[object, ...]]]
"""A field to the fields that decide whether it is used, each with the values for which it is."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The settings every task has. A task's own recipe adds its model and its data."""

    task: ClassVar[str] = ""
    used_with: ClassVar[UsedWith] = {}
    """Fields that not every model has a use for."""
    uncounted: ClassVar[tuple[str, ...]] = ()
    """Fields of this task that no formula depends on: of its data, and of when and how a model is judged."""
    name: str
    description: str
    """One line for people who choose."""
    epochs: Count = 50
    """Passes over the training data."""
    max_seconds: Positive | None = None
    """Stop after this much training time, whatever is left of the epochs. Then two runs are not the same to the bit."""
    patience: Count = 3
    """Stop after this many validations without a better one."""
    restore_best_weights: bool = True
    """Keep the model that is best on valid, and stop early by `patience`; else the last one, after all epochs."""
    batch_size: Count = 64
    """Examples of a step."""
    optimizer: Literal["adam", "adamw", "sgd"] = "adam"
    """How the parameters follow the gradient."""
    learning_rate: Positive = 0.001
    """Of the optimizer, at its largest."""
    weight_decay: NotNegative = 0.0
    """Of the optimizer, for all parameters."""
    max_grad_norm: Positive | None = None
    """Largest norm of the whole gradient."""
    lr_scheduler: Literal["constant", "linear", "cosine"] = "constant"
    """Whether the learning rate stays, or falls to 0 over all epochs, and how."""
    warmup_steps: Whole = 0
    """Steps over which the learning rate rises from 0 first."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """Of the large products while training; evaluation is always in fp32. `auto` takes bf16 on a GPU that has it, and
    on a CPU with AMX where the recipe's products are large enough to gain by it; else fp32."""

    @property
    def check_val_every_n_epoch(self) -> int:
        """Epochs after which the model is validated, where a task does not set it."""
        return 1

    @property
    def gains_from_bf16(self) -> bool:
        """Whether a CPU with matrix units for bf16 trains it faster in bf16. Small products lose more by rounding their
        operands than they gain."""
        return False

    @property
    def epochs_between_validations(self) -> int:
        """`check_val_every_n_epoch`, or all epochs where these are fewer: what a task makes batches for at a time."""
        return min(self.check_val_every_n_epoch, self.epochs)

    @property
    def validations(self) -> int:
        """How often the model is validated. Where they do not divide `epochs`, the last time comes after fewer."""
        return -(-self.epochs // self.check_val_every_n_epoch)

    def numbered(self, **validations: int) -> dict[str, int]:
        """What events and results say of validations: the epochs that are done at each, and how many lie between two.

        >>> recipe.numbered(epoch=3, best_epoch=2)    # with check_val_every_n_epoch=10
        {'epoch': 30, 'best_epoch': 20, 'check_val_every_n_epoch': 10}
        """
        every = {EVERY: self.check_val_every_n_epoch} if self.check_val_every_n_epoch > 1 else {}
        return {**{name: self.epochs_at(number) for name, number in validations.items()}, **every}

    def epochs_at(self, validation: int) -> int:
        """The epochs that are done when the model is validated, from 1, for this time."""
        return min(self.epochs, validation * self.check_val_every_n_epoch)


AnyRecipe = TypeVar("AnyRecipe", bound=Recipe)


def pick(recipes: Mapping[str, AnyRecipe], name: str, task: str) -> AnyRecipe:
    """The recipe of that name."""
    if name not in recipes:
        raise RecipeError(f"{task} has no recipe {name!r}. {nearest(name, list(recipes))}")
    return recipes[name]


def override(recipe: AnyRecipe, assignments: Sequence[str]) -> AnyRecipe:
    """The recipe with some fields set from `field=value` texts. Numbers must be finite."""
    return with_fields(recipe, fields_set(assignments))


def fields_set(assignments: Sequence[str]) -> dict[str, Any]:
    """The fields and plain values of `field=value` texts."""
    changes: dict[str, Any] = {}
    for text in assignments:
        key, equals, value = text.partition("=")
        if not equals:
            raise RecipeError(
                "",
                Advice(
                    f"--set takes field=value, got {shown(text)}. Write for instance --set epochs=10.",
                    f"{shown(text)} sets no field. Write for instance epochs=10.",
                ),
            )
        changes[key] = plain_value(value)
    return changes


def with_fields(recipe: AnyRecipe, fields: Mapping[str, Any]) -> AnyRecipe:
    """The recipe with some fields set. Unknown ones are refused with the nearest name; numbers must be finite.

    >>> with_fields(recipe, {"epochs": 3, "optimizer": "sgd"})
    """
    known = list(settings(recipe))
    for key, value in fields.items():
        if key not in known:
            refuse_old(recipe.task, key, value, settings(recipe))
            raise RecipeError(f"recipe {recipe.name} has no field {shown(key)}. {nearest(key, known)}")
    changed = from_fields(type(recipe), {**dataclasses.asdict(recipe), **fields})
    check_finite(changed, fields)
    return changed


def unused_fields(kind: type[Recipe], fields: Mapping[str, Any]) -> set[str]:
    """The fields that are of no use beside the others: the window of a model that attends to everything.

    >>> unused_fields(LanguageRecipe, {"model": "attention", "window_size": 32, "num_heads": 4})
    {'window_size'}
    """
    return {
        name
        for name, deciding in kind.used_with.items()
        if name in fields and any(fields.get(other, values[0]) not in values for other, values in deciding.items())
    }


def check_finite(recipe: Recipe, fields: Iterable[str] | None = None) -> None:
    """Refuse inf and nan in the fields of these names, or in any.

    No part of `from_fields`, so that a run which was trained with max_grad_norm=inf can still be read.
    """
    for name in dataclasses.asdict(recipe) if fields is None else fields:
        value = getattr(recipe, name)
        if isinstance(value, float) and not math.isfinite(value):
            raise RecipeError(
                f"recipe {recipe.name}: {name}={value:g} cannot be: expected a finite number.",
                advise("Set it with {}.", option(name)),
            )


def settings(recipe: Recipe) -> dict[str, Any]:
    """The fields that decide a training: all but those for people who choose."""
    return {name: value for name, value in dataclasses.asdict(recipe).items() if name not in ("name", "description")}


def assignments(base: Recipe, recipe: Recipe) -> list[str]:
    """The texts with which `override` makes one recipe of another.

    >>> assignments(recipe, override(recipe, ["hidden_size=200", "tie_weights=true"]))
    ['hidden_size=200', 'tie_weights=true']
    """
    before = settings(base)
    changes = {name: value for name, value in settings(recipe).items() if value != before[name]}
    return [assignment(name, value) for name, value in changes.items()]


def plain_value(text: str) -> int | float | str | None:
    """The value of a text: a number where it reads as one, None for `none`, else the text."""
    if text.lower() in ("none", "null"):
        return None
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text


def from_fields(kind: type[AnyRecipe], fields: Mapping[str, Any]) -> AnyRecipe:
    """A recipe from plain values, each checked against its field's type and bounds."""
    known = [f.name for f in dataclasses.fields(kind)]
    for key in fields:
        if key not in known:
            raise RecipeError(f"recipe {fields.get('name', '')} has no field {shown(key)}. {nearest(key, known)}")
    try:
        return msgspec.convert(dict(fields), kind, strict=False)
    except msgspec.ValidationError as error:
        if isinstance(error.__cause__, RecipeError):
            raise error.__cause__ from None
        expected, _, path = str(error).partition(" - at `$.")
        key = path.rstrip("`")
        problem = f"{key}={_value_shown(fields.get(key))} cannot be" if key else "a field is missing"
        expected = _choices(kind, key) or expected[:1].lower() + expected[1:].replace("`", "").replace("null", "none")
        advice = advise("Set it with {}.", option(key)) if key else None
        raise RecipeError(f"recipe {fields.get('name', '')}: {problem}: {expected}.", advice) from error


def _value_shown(value: object) -> str:
    """A value as it was written, cut where it is long."""
    text = str(value)
    return text if len(text) <= LONGEST_SHOWN else shown(text)


def _choices(kind: type[Recipe], key: str) -> str:
    """What a field takes that has a few values only; empty for others."""
    hint = get_type_hints(kind).get(key)
    return f"expected one of {', '.join(map(str, get_args(hint)))}" if get_origin(hint) is Literal else ""


def option_of(name: str) -> str:
    """The option that sets a field.

    >>> option_of("batch_size")
    '--batch-size'
    """
    return "--" + name.replace("_", "-")


def to_fields(recipe: Recipe) -> dict[str, Any]:
    """Plain values for a file; a field that is None is left out, which `from_fields` reads back as the default."""
    for field in dataclasses.fields(recipe):
        # TOML has no null: None of a field with another default would come back as that.
        if getattr(recipe, field.name) is None and field.default is not None:
            raise RecipeError(
                f"recipe {recipe.name}: {field.name} is None, and a file cannot hold it. Make None its default."
            )
    return {key: value for key, value in dataclasses.asdict(recipe).items() if value is not None}
