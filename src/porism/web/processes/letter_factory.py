"""Classes of modules as functions of letters: torch.nn.LSTM is costed as LSTM(input_size=D, hidden_size=H)."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any, get_overloads

from torch import nn

from porism.costing.letters import ALPHABET
from porism.errors import RecipeError

LETTERS = {
    **dict.fromkeys(("input_size", "in_features", "embed_dim", "d_model", "embedding_dim", "normalized_shape"), "D"),
    **dict.fromkeys(("hidden_size", "out_features", "out_channels"), "H"),
    **dict.fromkeys(("num_heads", "nhead"), "A"),
    **dict.fromkeys(("in_channels", "num_features", "num_channels"), "C"),
    **dict.fromkeys(("num_embeddings", "vocab_size"), "V"),
    **dict.fromkeys(("num_layers",), "L"),
}
"""The letters of arguments as torch names them."""
ADVICE = 'Give numbers or letters for them in order, such as "D, H".'


def letter_factory(target: Any, arguments: str) -> tuple[Any, str]:
    """A function of letters that makes a class's module, and how it calls the class; other targets as they are.

    arguments: numbers and letters for the class's arguments; left out, those it needs are known by their names.

    >>> factory, call = letter_factory(nn.LSTM, "")
    >>> call, factory(D=3, H=4)
    ('LSTM(input_size=D, hidden_size=H)', LSTM(3, 4))
    """
    if not (isinstance(target, type) and issubclass(target, nn.Module)):
        return target, ""
    if arguments:
        words = [word.strip() for word in arguments.split(",")]
        return _factory(target, [""] * len(words), [_read(target, word) for word in words])
    names = _needed(target)
    if unknown := [name for name in names if name not in LETTERS]:
        raise RecipeError(f"cost: {target.__name__} needs {', '.join(unknown)}, for which no letter stands. {ADVICE}")
    letters = [LETTERS[name] for name in names]
    return _factory(target, names, letters) if names else (target, "")


def _needed(target: type[nn.Module]) -> list[str]:
    """The arguments that a class cannot be made without."""
    signatures = [inspect.signature(form) for form in get_overloads(target.__init__)] or [inspect.signature(target)]
    return [
        name
        for name, parameter in signatures[0].parameters.items()
        if name != "self"
        and parameter.default is inspect.Parameter.empty
        and parameter.kind in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.POSITIONAL_ONLY)
        and not (len(name) == 1 and name.isupper())  # a class of letters is a factory already
    ]


def _read(target: type[nn.Module], word: str) -> int | str:
    if word in ALPHABET:
        return word
    if word.isascii() and word.isdigit() and len(word) < 10:
        return int(word)
    raise RecipeError(f"cost: {target.__name__}: {word[:40]!r} is neither a number nor a letter. {ADVICE}")


def _factory(target: type[nn.Module], names: Sequence[str], values: Sequence[int | str]) -> tuple[Any, str]:
    letters = list(dict.fromkeys(value for value in values if isinstance(value, str)))
    call = ", ".join(f"{name}={value}" if name else str(value) for name, value in zip(names, values, strict=True))
    if not letters:
        return target(*values), f"{target.__name__}({call})"

    def make(*sizes: int, **named: int) -> nn.Module:
        given = {**dict(zip(letters, sizes, strict=False)), **named}
        return target(*(given[value] if isinstance(value, str) else value for value in values))

    factory: Callable[..., nn.Module] = make
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    factory.__signature__ = inspect.Signature([inspect.Parameter(one, kind) for one in letters])  # type: ignore[attr-defined]
    factory.__name__ = target.__name__
    return factory, f"{target.__name__}({call})"
