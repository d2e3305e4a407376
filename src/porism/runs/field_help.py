"""What the fields of a recipe mean, and which values each takes: the texts under the fields of its dataclass.

>>> meanings(LanguageRecipe)["seq_len"]
'Tokens of a window, through which the gradient runs back.'
>>> values(LanguageRecipe)["optimizer"]
'adam|adamw|sgd'
"""

import ast
import dataclasses
import functools
import inspect
import sys
import types
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from porism.runs.recipe import Recipe

FOR_PEOPLE = ("name", "description")
"""Fields that decide nothing of a training."""


def field_names(kind: type[Recipe]) -> list[str]:
    """The fields that can be set, a task's own first."""
    names = [field.name for field in dataclasses.fields(kind) if field.name not in FOR_PEOPLE]
    shared = {field.name for field in dataclasses.fields(Recipe)}
    return [name for name in names if name not in shared] + [name for name in names if name in shared]


def meanings(kind: type[Recipe]) -> dict[str, str]:
    """The text under each field, on one line; empty where there is none, or no source."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if issubclass(base, Recipe):
            found |= _texts(sys.modules[base.__module__].__file__ or "").get(base.__name__, {})
    return {field.name: found.get(field.name, "") for field in dataclasses.fields(kind)}


@functools.cache
def _texts(file: str) -> dict[str, dict[str, str]]:
    """The texts under the fields of every class of a file."""
    try:
        tree = ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError):  # installed without its source
        return {}
    return {node.name: dict(_texts_of(node)) for node in tree.body if isinstance(node, ast.ClassDef)}


def _texts_of(node: ast.ClassDef) -> list[tuple[str, str]]:
    return [
        (field.target.id, inspect.cleandoc(text.value.value).replace("\n", " "))
        for field, text in zip(node.body, node.body[1:], strict=False)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    ]


def values(kind: type[Recipe]) -> dict[str, str]:
    """What may be set, in a word: `INT`, `FLOAT|none`, `adam|adamw|sgd`; `true|false` for a switch."""
    hints = get_type_hints(kind)
    return {field.name: "|".join(_words(hints[field.name])) for field in dataclasses.fields(kind)}


def _words(hint: Any) -> list[str]:
    if get_origin(hint) in (Union, types.UnionType):
        return [word for part in get_args(hint) for word in _words(part)]
    if get_origin(hint) is Annotated:
        return _words(get_args(hint)[0])
    if get_origin(hint) is Literal:
        return [str(value) for value in get_args(hint)]
    if hint is bool:
        return ["true", "false"]
    return ["none"] if hint is type(None) else [hint.__name__.upper()]


def shown(value: Any) -> str:
    """A field's value as it is written on a command line."""
    if isinstance(value, bool):
        return str(value).lower()
    return "none" if value is None else str(value)
