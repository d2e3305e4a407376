"""How alike two sequences are, from 0 to 1, in three ways. Two of them do not see the order.

>>> jaccard("abc", "cba"), cosine("abc", "cba"), damerau_levenshtein("abc", "cba")
(1.0, 1.0, 0.33333333333333337)

A and B are multisets: how often each item occurs. Two empty sequences are equal, so 1.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from math import sqrt
from types import ModuleType

from porism.tasks.speech.extra import of_audio

Items = Sequence[Hashable]


def jaccard(a: Items, b: Items) -> float:
    """sum over items of min(A, B) / sum over items of max(A, B)"""
    A, B = Counter(a), Counter(b)
    union = (A | B).total()
    return (A & B).total() / union if union else 1.0


def cosine(a: Items, b: Items) -> float:
    """sum over items of min(A, B) / sqrt(|A| |B|): known by this name, though no angle has it for its cosine."""
    if not a or not b:
        return float(len(a) == len(b))
    return (Counter(a) & Counter(b)).total() / sqrt(len(a) * len(b))


def damerau_levenshtein(a: Items, b: Items) -> float:
    """1 - distance / the longer length, with the least number of items to insert, delete, replace or swap.

    Restricted: two items that were swapped are not edited again, so `ca` to `abc` takes three steps, not two.
    """
    longer = max(len(a), len(b))
    return 1 - edit_distances().OSA.distance(a, b) / longer if longer else 1.0


SIMILARITIES: Mapping[str, Callable[[Items, Items], float]] = {
    "jaccard": jaccard,
    "cosine": cosine,
    "damerau_levenshtein": damerau_levenshtein,
}


def edit_distances() -> ModuleType:
    return of_audio("rapidfuzz.distance", "edit distances")
