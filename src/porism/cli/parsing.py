"""From the words of a command to its dataclass. A verb that trains has an option for every field of its recipe."""

import contextlib
import inspect
import io
import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

import tyro
from tyro.conf import FlagCreatePairsOff, OmitArgPrefixes

from porism.cli.fields import command_with_fields, given_fields, refuse_unknown_field
from porism.cli.words import (
    OWN_MODEL,
    field_options,
    option_names,
    own_model,
    positional_words,
    verb_options,
    without_option,
)
from porism.errors import PorismError
from porism.runs.recipe import Recipe
from porism.tasks import choices

LONGEST = 500
"""Letters of what tyro says, which repeats words that it does not know however long they are."""


def parse(kind: Any, verb: str, words: list[str]) -> Any:
    """The command that the words make of a verb's dataclass.

    A class that has `recipes_named(words)` gets the fields of those recipes as options too. Those that are given are
    put into `set`, next to what --set was given.
    """
    recipes: Sequence[Recipe] = kind.recipes_named(words) if hasattr(kind, "recipes_named") else ()
    own = own_model(words) if hasattr(kind, "own_model") else None
    if own is not None:
        words = without_option(words, OWN_MODEL)
    parsed = _parse(kind, verb, words, recipes)
    if not recipes:
        return parsed
    command = parsed.run
    if own is not None:
        command.own_model = own
    command.set = [*command.set, *given_fields(parsed.recipe, words, command.set)]
    return command


def _parse(verb_kind: Any, verb: str, words: list[str], recipes: Sequence[Recipe]) -> Any:
    kind = command_with_fields(verb_kind, recipes) if recipes else verb_kind
    captured = io.StringIO()
    config = (OmitArgPrefixes,) if recipes else (FlagCreatePairsOff,)
    # tyro lists the words that are still to come, so those that are there stand before them.
    flags = {**verb_options(verb_kind), **(field_options(type(recipes[0])) if recipes else {})}
    prog = " ".join(["porism", verb, *(positional_words(words, flags) if recipes else ())])
    try:
        with contextlib.redirect_stderr(captured):
            return tyro.cli(kind, prog=prog, description=_description(kind, recipes), args=words, config=config)
    except SystemExit as leaving:
        if leaving.code in (0, None):
            raise
        text = _out_of_the_box(captured.getvalue())
        if unknown := re.match(r"Unrecognized options: (--[^\s,=.]+)", text):
            raise _unknown(unknown[1], verb, words, option_names(verb_kind, recipes), recipes) from None
        raise PorismError(f"{text} See porism {verb} --help.") from None


def _description(kind: Any, recipes: Sequence[Recipe]) -> str:
    """What the help begins with: what the verb does, and which recipes there are."""
    text = inspect.cleandoc(kind.__doc__)
    if not recipes:
        return text
    task = recipes[0].task
    known = choices(task)
    names = [f"{name} (the default)" if name == known.default else name for name in known.recipes]
    return f"{text}\n\nRecipes of {task}: {', '.join(names)}. What each is: porism recipes {task}"


def _unknown(option: str, verb: str, words: list[str], known: list[str], recipes: Sequence[Recipe]) -> PorismError:
    """What to say of an option that there is not: the nearest one, or for a field of 0.1 what it is now."""
    if recipes:
        refuse_unknown_field(option, words, recipes[0])
    # Without hyphens, by which all options are alike.
    near = get_close_matches(option[2:].replace("_", "-"), [name[2:] for name in known], n=1, cutoff=0.65)
    hint = f"Did you mean --{near[0]}?" if near else f"See porism {verb} --help."
    return PorismError(f"there is no option {option}. {hint}")


def _out_of_the_box(drawing: str) -> str:
    """What tyro writes under a title, in a box where the terminal can draw one, as one line without the title."""
    lines = [line.strip("│ ") for line in drawing.splitlines() if line.strip() and not line.startswith(("╭", "╰"))]
    if len(lines) > 1 and not lines[1].strip("-"):
        lines = lines[2:]
    text = " ".join(line for line in lines if line.strip("─-"))
    for end in ("Argument helptext:", "For full helptext", "Perhaps you meant:"):
        text = text.partition(end)[0]
    text = text.strip().rstrip(".")
    return f"{text}." if len(text) <= LONGEST else f"{text[:LONGEST]}..."
