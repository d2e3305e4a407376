"""Every field of a recipe as an option of its own: `--epochs 3`, `--tie-weights`, `--no-tie-weights`."""

import dataclasses
from collections.abc import Sequence
from typing import Annotated, Any

from tyro.conf import FlagCreatePairsOff, arg
from tyro.constructors import PrimitiveConstructorSpec

from porism.cli.words import name_of, option_value
from porism.errors import RecipeError
from porism.runs.field_help import field_names, meanings, shown, values
from porism.runs.old_fields import refuse_old
from porism.runs.recipe import Recipe, option_of, plain_value, settings


def command_with_fields(kind: Any, recipes: Sequence[Recipe]) -> Any:
    """A dataclass with the verb's own options in `run` and the recipes' fields in `recipe`, each a box of the help.

    The values in the help are those of the recipes. Where they differ in a field, the help says so.
    """
    names = ", ".join(recipe.name for recipe in recipes)
    about = recipes[0].description if len(recipes) == 1 else "set for all of them"
    settable = dataclasses.make_dataclass("Fields", _fields(recipes), kw_only=True)
    parts: list[Any] = [
        ("run", Annotated[kind, FlagCreatePairsOff, arg(help="How it is trained and where it is kept.")]),
        ("recipe", Annotated[settable, arg(help=f"Fields of the recipe {names}: {about}.")]),
    ]
    command = dataclasses.make_dataclass("Command", parts)
    command.__doc__ = kind.__doc__
    return command


def given_fields(parsed: Any, words: Sequence[str], assignments: Sequence[str]) -> list[str]:
    """`field=value` of each field that the words give by its own option. assignments: what --set gives."""
    options = {name_of(word): word for word in words if word.startswith("--")}
    by_set = {text.partition("=")[0]: text for text in assignments}
    given = []
    for field in dataclasses.fields(parsed):
        value = getattr(parsed, field.name)
        forms = [option_of(field.name), option_of(f"no_{field.name}")] if isinstance(value, bool) else []
        forms = [form for form in forms or [option_of(field.name)] if form in options]
        if not forms:
            continue
        if isinstance(value, bool) and (wrong := [options[form] for form in forms if "=" in options[form]]):
            raise RecipeError(f"{wrong[0]}: {forms[0]} takes no value. Write {' or '.join(_forms(field.name))}.")
        if field.name in by_set:
            raise RecipeError(
                f"{field.name} is set twice: {forms[0]} and --set {by_set[field.name]}. Give one of them."
            )
        given.append(f"{field.name}={shown(value)}")
    return given


def refuse_unknown_field(option: str, words: Sequence[str], recipe: Recipe) -> None:
    """Refuse an option that is a field of 0.1 by the option that it is now."""
    value = option_value(words, option) or ""
    refuse_old(recipe.task, option[2:].replace("-", "_"), plain_value(value), settings(recipe))


def _fields(recipes: Sequence[Recipe]) -> list[Any]:
    kind = type(recipes[0])
    texts, takes = meanings(kind), values(kind)
    return [
        _field(name, texts[name], takes[name], [getattr(one, name) for one in recipes]) for name in field_names(kind)
    ]


def _field(name: str, text: str, takes: str, held: list[Any]) -> Any:
    same = all(value == held[0] for value in held)
    hint = f"(default: {shown(held[0])})" if same else "(default: each recipe's own)"
    described = arg(help=text, help_behavior_hint=hint)
    if isinstance(held[0], bool):
        return name, Annotated[bool, described], held[0]
    # The text as it is: what --set makes of it, this does too, with the same bounds and the same words for mistakes.
    read = PrimitiveConstructorSpec(
        nargs=1,
        metavar=takes,
        instance_from_str=lambda texts: texts[0],
        is_instance=lambda value: True,
        str_from_instance=lambda value: [shown(value)],
    )
    return name, Annotated[Any, read, described], dataclasses.field(default=held[0])


def _forms(name: str) -> tuple[str, str]:
    return option_of(name), option_of(f"no_{name}")
