"""From which length on a mechanism takes fewer operations than softmax over all previous words.

All else in two models of the same widths is the same, so that the mechanisms alone decide: their costs by hand, which
the layers hold against counts.
"""

import numpy as np
from sympy import Expr, lambdify

from porism.costing.alphabet import B, D, H, T
from porism.layers.attention.hybrid.cost import core as hybrid
from porism.layers.attention.softmax.cost import core as softmax
from porism.layers.attention.taylor.cost import core as series
from porism.layers.attention.taylor.cost import features
from porism.layers.attention.window.cost import pairs
from porism.tasks.language.recipes import LanguageRecipe

LONGEST = 2**20
"""Lengths that are looked at, one by one: spans and windows make the costs rise in steps, so that they cross often."""


def crossing_notes(recipe: LanguageRecipe) -> list[str]:
    """A sentence for a report; none for a model that attends to all previous words by softmax, or to none.

    >>> crossing_notes(RECIPES["window"])
    ['By the formulas, all else alike, window takes fewer forward FLOPs than softmax over all previous words from \
T=42 on; here T=40.']
    """
    if (flops := mechanism_flops(recipe)) is None:
        return []
    start = cheaper_from(*flops)
    where = f"from T={start:,} on" if start else f"at no length up to T={LONGEST:,}"
    return [
        f"By the formulas, all else alike, {recipe.model} takes fewer forward FLOPs than softmax over all previous "
        f"words {where}; here T={recipe.seq_len:,}."
    ]


def mechanism_flops(recipe: LanguageRecipe) -> tuple[Expr, Expr] | None:
    """Forward FLOPs of a head and of one by softmax as formulas in T, for a batch of one."""
    width, everything = recipe.hidden_size // recipe.num_heads, softmax(1).total("flops")
    match recipe.model:
        case "window":
            own = everything * pairs("sliding", recipe.window_size) / T**2
        case "taylor":
            count, diagonal = features(recipe.series_map, recipe.order), recipe.series_map == "diagonal"
            own = series(1, causal=True, count=count, products=2 if diagonal else 1).total("flops")
        case "hybrid":
            own = hybrid(1, window_size=recipe.window_size, causal=True, order=recipe.order).total("flops")
        case _:
            return None
    sizes = {B: 1, D: width, H: width}
    return own.subs(sizes), everything.subs(sizes)


def cheaper_from(ours: Expr, theirs: Expr) -> int | None:
    """The length from which on the first formula stays below the second; None where it does not by `LONGEST`.

    >>> cheaper_from(64 * T, T**2)
    65
    """
    # Numbers stay below 2^53 wherever both are near each other, so that none of them is rounded.
    lengths = np.arange(1, LONGEST + 1, dtype=np.float64)
    difference = np.broadcast_to(lambdify(T, ours - theirs, modules="numpy")(lengths), lengths.shape)
    dearer = np.flatnonzero(difference >= 0)
    first = int(dearer[-1]) + 2 if len(dearer) else 1
    return first if first <= LONGEST else None
