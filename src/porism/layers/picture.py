"""Pictures of who looks at whom: a row a query, a column a key."""

from collections.abc import Mapping

import torch

from porism.errors import RecipeError
from porism.layers.pattern import Pattern

_LARGEST = 64


def picture(name: str, T: int, exact: Pattern | None = None, series: Pattern | None = None) -> str:
    """■ for a key that has softmax's weight, ▒ for one that has its series', · for one that is not looked at.

    >>> print(picture("causal, window 2", 4, exact=Pattern("sliding", window=2), series=Pattern("causal")))
    causal, window 2: 7 pairs, and 3 by the series
    ■ · · ·
    ■ ■ · ·
    ▒ ■ ■ ·
    ▒ ▒ ■ ■
    """
    near, seen = (
        torch.zeros(T, T, dtype=torch.bool) if pattern is None else pattern.mask(T, T) for pattern in (exact, series)
    )
    far = seen & ~near
    count = f"{near.sum()} pairs" if near.any() else f"{far.sum()} pairs by the series"
    if near.any() and far.any():
        count += f", and {far.sum()} by the series"
    rows = (far + 2 * near).tolist()
    return "\n".join([f"{name}: {count}", *(" ".join("·▒■"[mark] for mark in row) for row in rows)])


def sizes(letters: Mapping[str, int], **usual: int) -> list[int]:
    """The sizes of a picture: those that were given, the usual ones for the others.

    >>> sizes({"W": 2}, T=8, W=3)
    [8, 2]
    """
    for letter in letters:
        if letter not in usual:
            raise RecipeError(f"cost: a picture has no letter {letter} to set. It has {', '.join(usual)}.")
    found = {**usual, **letters}
    if not 1 <= found["T"] <= _LARGEST:
        fit = ",".join(f"{letter}={size}" for letter, size in usual.items())
        raise RecipeError(
            f"cost: T={found['T']} does not fit a picture. Give T from 1 to {_LARGEST}, for instance --at {fit}."
        )
    return list(found.values())
