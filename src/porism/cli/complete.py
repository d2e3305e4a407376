"""What can stand at a place in a command: the answers of `porism --complete`, which shells ask for on Tab.

>>> complete(["2", "porism", "train", "lan"])
['language']
"""

import dataclasses
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from porism.cli.verbs import VERBS
from porism.cli.words import field_options, name_of, option_names, positional_words, verb_options
from porism.errors import PorismError
from porism.runs.field_help import values
from porism.runs.recipe import Recipe


def complete(arguments: Sequence[str]) -> list[str]:
    """The words that may stand at the cursor, those that begin as the word there does.

    arguments: the number of the word at the cursor, from 0, then all words of the line. Where it is a matter of files,
    or the line is wrong already, there is no answer, and the shell lists files.
    """
    try:
        number = int(arguments[0])
        line = list(arguments[1:])
        before, current = line[1:number], line[number] if number < len(line) else ""
        return [word for word in _candidates(before) if word.startswith(current) and _shown(word, current)]
    except (IndexError, ValueError, PorismError):
        return []


def _shown(word: str, current: str) -> bool:
    """Options are many: they are listed once a hyphen is typed."""
    return current.startswith("-") or not word.startswith("-")


def _candidates(before: Sequence[str]) -> list[str]:
    if not before:
        return [*VERBS, "--help", "--version"]
    verb, *words = before
    if verb not in VERBS:
        return []
    kind = getattr(import_module(f"porism.cli.{verb}"), f"{verb.capitalize()}Command")
    recipes: Sequence[Recipe] = kind.recipes_named(words) if hasattr(kind, "recipes_named") else ()
    flags = verb_options(kind) | (field_options(type(recipes[0])) if recipes else {})
    last = words[-1] if words else ""
    if last.startswith("--") and "=" not in last and not flags.get(name_of(last), True):
        return _values(kind, name_of(last), recipes)
    return [*_positional(verb, kind, positional_words(words, flags)), *option_names(kind, recipes)]


def _values(kind: Any, option: str, recipes: Sequence[Recipe]) -> list[str]:
    """What an option takes, where that is one of a few words."""
    if option == "--resume":
        return _runs()
    if option == "--task":
        return _tasks()
    name = option[2:].replace("-", "_")
    for field in dataclasses.fields(kind):
        if field.name == name:
            return _choices(field.type)
    takes = values(type(recipes[0]))
    return [f"{field}=" for field in takes] if option == "--set" else _alternatives(takes.get(name, ""))


def _positional(verb: str, kind: Any, given: Sequence[str]) -> Iterable[str]:
    if verb in ("train", "compare", "sweep", "recipes"):
        if not given:
            return _tasks()
        return _recipes(given[0]) if len(given) == 1 or verb in ("compare", "sweep") else []
    if verb == "cost":
        return [f"{task}/{recipe}" for task in _tasks() for recipe in _recipes(task)]
    if verb in ("evaluate", "predict", "report"):
        return _runs()
    return [] if given else _choices(next(field.type for field in dataclasses.fields(kind)))


def _tasks() -> list[str]:
    from porism.tasks import TASKS

    return list(TASKS)


def _recipes(task: str) -> list[str]:
    from porism.tasks import choices

    known = choices(task)
    return [*known.recipes, *known.experiments]


def _runs() -> list[str]:
    from porism.cli.runs import run_folders

    return [str(path) for path in run_folders(Path("runs"))]


def _choices(hint: Any) -> list[str]:
    """The few values of a verb's own option, by its type or by what its help shows."""
    parts = (hint, *get_args(hint))
    for part in parts:
        if get_origin(part) is Literal:
            return [str(value) for value in get_args(part)]
    shown = [part.metavar for part in parts if getattr(part, "metavar", None)]
    return _alternatives(shown[0]) if shown else []


def _alternatives(text: str) -> list[str]:
    """
    >>> _alternatives("auto|cpu|cuda"), _alternatives("FLOAT|none"), _alternatives("FOLDER")
    (['auto', 'cpu', 'cuda'], ['none'], [])
    """
    return [word for word in text.split("|") if not word.isupper()] if "|" in text else []
