"""Options of a prediction: today's names for those of 0.1."""

from collections.abc import Mapping
from typing import Any

from porism.errors import RecipeError


def renamed(options: Mapping[str, Any], old: Mapping[str, str]) -> dict[str, Any]:
    """The options under today's names. old: names of 0.1, and what each is now.

    >>> renamed({"count": 3}, {"count": "topn"})
    {'topn': 3}
    """
    found: dict[str, Any] = {}
    for given, value in options.items():
        name = old.get(given, given)
        if name in found:
            raise RecipeError(f"predict: {name} is given twice, as {given} too. Leave one.")
        found[name] = value
    return found
