"""The words of a command before they are parsed: which are options, and which stand by themselves."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

from tyro.conf import Positional

from porism.runs.field_help import field_names, values
from porism.runs.recipe import Recipe, option_of

if TYPE_CHECKING:
    from porism.tasks import Choices

OWN_MODEL = "--model"
_POSITIONAL = get_args(Positional[int])[1]


def name_of(word: str) -> str:
    """The option of a word without its value, spelled with hyphens.

    >>> name_of("--batch_size=3")
    '--batch-size'
    """
    return "--" + word[2:].partition("=")[0].replace("_", "-")


def verb_options(kind: Any) -> dict[str, bool]:
    """The options of a verb's dataclass, and whether each is a flag, which takes no value."""
    fields = [field for field in dataclasses.fields(kind) if _named(field)]
    # What is done unless it is switched off.
    off = {option_of(f"no_{field.name}"): True for field in fields if field.default is True}
    return {option_of(field.name): _bare(field.type) is bool for field in fields} | off


def field_options(kind: type[Recipe]) -> dict[str, bool]:
    """The options that set the fields of a recipe, and whether each is a flag."""
    takes = values(kind)
    flags = {name: takes[name] == "true|false" for name in field_names(kind)}
    return {
        option: flag
        for name, flag in flags.items()
        for option in ([option_of(name), option_of(f"no_{name}")] if flag else [option_of(name)])
    }


def option_names(kind: Any, recipes: Sequence[Recipe] = ()) -> list[str]:
    """Every option that a command takes."""
    fields = field_options(type(recipes[0])) if recipes else {}
    return [*verb_options(kind), *fields, "--help", "--debug"]


def positional_words(words: Sequence[str], flags: dict[str, bool]) -> list[str]:
    """The words that are neither options nor their values. An option that is not known counts as one with a value.

    >>> positional_words(["--json", "language", "--epochs", "3", "elman"], {"--json": True})
    ['language', 'elman']
    """
    return list(_positional_words(words, flags))


def _positional_words(words: Sequence[str], flags: dict[str, bool]) -> Iterator[str]:
    rest = iter(words)
    for word in rest:
        if not word.startswith("-") or word == "-":
            yield word
        elif word.startswith("--") and "=" not in word and not flags.get(name_of(word), word == "--help"):
            next(rest, None)


def task_and_names(words: Sequence[str], verb: Any) -> "tuple[Choices, list[str]] | None":
    """What the task among the words can train, and the words after it; None where no task is named."""
    from porism.tasks import choices

    flags = verb_options(verb)
    task = next(iter(positional_words(words, flags)), None)
    if task is None:
        return None
    known = choices(task)
    _, *names = positional_words(words, flags | field_options(type(known.recipes[known.default])))
    return known, names


def option_value(words: Sequence[str], option: str) -> str | None:
    """What an option is given, the last time it is.

    >>> option_value(["--resume=runs/one", "--resume", "runs/two"], "--resume")
    'runs/two'
    """
    value = None
    for word, after in zip(words, [*words[1:], None], strict=False):
        if word.startswith("--") and name_of(word) == option:
            value = word.partition("=")[2] if "=" in word else after
    return value


def own_model(words: Sequence[str]) -> str | None:
    """Where --model names a module of the user's own, by `FILE.py:Name` or `package.module:Name`; None for a recipe's.

    >>> own_model(["images", "--model", "net.py:Net"]), own_model(["images", "--model", "pooled"])
    ('net.py:Net', None)
    """
    value = option_value(words, OWN_MODEL)
    return value if value is not None and ":" in value else None


def without_option(words: Sequence[str], option: str) -> list[str]:
    """The words without an option and its value.

    >>> without_option(["a", "--model", "net.py:Net", "b"], "--model")
    ['a', 'b']
    """
    kept, rest = [], iter(words)
    for word in rest:
        if not (word.startswith("--") and name_of(word) == option):
            kept.append(word)
        elif "=" not in word:
            next(rest, None)
    return kept


def _named(field: Any) -> bool:
    return field.init and _POSITIONAL not in getattr(field.type, "__metadata__", ())


def _bare(hint: Any) -> Any:
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint
