"""Three ways to say how alike two texts are: the task's own similarities, and what was reported of them."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache

import torch

import porism.claims.topics.speech.rulings as rulings
from porism.claims.checks.compare import answered, compared, counted_equal
from porism.claims.claim import Claim, Empirical, Finding, Statement
from porism.claims.topics.speech.published import ON_AN4, OTHER_DATA, gain, relative_gain
from porism.tasks.speech.error_kinds import edit_distances
from porism.tasks.speech.metric import SIMILARITIES, damerau_levenshtein

UNITS: dict[str, Callable[[str], Sequence[str]]] = {"words": str.split, "characters": list}
PAIRS = (
    # No word and no character twice; then repeated ones; then an order that is wrong.
    ("red fox", "red box"),
    ("the cat sat on the mat", "the cat sat on a mat"),
    ("one two two three", "three two one one"),
)
METRICS = tuple(SIMILARITIES)

OfTexts = Callable[[str, str, str], float]
"""Two texts, and what they are compared by: words or characters."""


def similarity(name: str) -> Callable[[OfTexts], Finding]:
    """form(a, b, unit) against one of the task's similarities, with words and with characters."""

    def judge(form: OfTexts) -> Finding:
        return compared(
            (f"{a!r} and {b!r}, {unit}", SIMILARITIES[name](take(a), take(b)), form(a, b, unit))
            for a, b in PAIRS
            for unit, take in UNITS.items()
        )

    return judge


def angle_between_counts(form: Callable[[str, str], float]) -> Finding:
    """form(a, b) against the cosine of the two texts' vectors of counts, a number for each word of either."""
    cases = []
    for a, b in PAIRS:
        words = sorted({*a.split(), *b.split()})
        counts = [torch.tensor([text.split().count(word) for word in words]).double() for text in (a, b)]
        cases.append((f"{a!r} and {b!r}", torch.cosine_similarity(counts[0], counts[1], dim=0), form(a, b)))
    return compared(cases)


def edit_similarity(form: Callable[[str, str], float]) -> Finding:
    """form(a, b) against 1 - edits / the longer length, with the least edits found by trying all of them."""
    pairs = [*PAIRS, ("car", "abcr"), ("abc", "abc"), ("ab", "ba")]
    return compared((f"{a!r} and {b!r}", 1 - fewest_edits(a, b) / max(len(a), len(b)), form(a, b)) for a, b in pairs)


@cache
def fewest_edits(a: str, b: str) -> int:
    """Insertions, deletions, replacements and swaps of neighbours that are not edited again.

    >>> fewest_edits("ca", "abc")
    3
    """
    if not a or not b:
        return len(a) + len(b)
    ways = [
        fewest_edits(a[:-1], b) + 1,
        fewest_edits(a, b[:-1]) + 1,
        fewest_edits(a[:-1], b[:-1]) + (a[-1] != b[-1]),
    ]
    if len(a) > 1 and len(b) > 1 and a[-2:] == b[-1] + b[-2]:
        ways.append(fewest_edits(a[:-2], b[:-2]) + 1)
    return min(ways)


def reported_gains(form: Callable[[str], int]) -> Finding:
    """form(metric) against the sign of what attention adds to it, as reported. Each is from one run."""
    found = counted_equal((metric, _sign(gain(metric)), form(metric)) for metric in METRICS)
    gains = ", ".join(f"{metric} {gain(metric):+.3f}" for metric in METRICS)
    return Finding(found.measured, found.tolerance, f"{found.evidence}; {gains}")


def badly_predicted(form: Callable[[float, float], bool]) -> Finding:
    """form(Jaccard, edit similarity) against whether fewer than half of the characters of a text are in the other."""
    texts = ("abcdef", "abcdef"), ("abcdef", "fedcba"), ("abcdef", "xbcdef"), ("abcdef", "uvwxyz"), ("abcdef", "fuvwxy")
    cases = []
    for a, b in texts:
        right = sum(character in b for character in a)
        jaccard, edits = (SIMILARITIES[name](a, b) for name in ("jaccard", "damerau_levenshtein"))
        where = f"{b} for {a}, Jaccard {jaccard:.2f} and edit similarity {edits:.2f}: are characters predicted badly?"
        cases.append((where, right < len(a) / 2, form(jaccard, edits)))
    return answered(cases)


def _sign(number: float) -> int:
    return (number > 0) - (number < 0)


def _shared_unique_words(a: str, b: str, unit: str) -> float:
    first, second = set(a.split()), set(b.split())
    return len(first & second) / len(first | second)


def _shared(a: str, b: str, unit: str) -> int:
    """Items in both, as often as they occur in both."""
    return sum((Counter(UNITS[unit](a)) & Counter(UNITS[unit](b))).values())


def _of_multisets(a: str, b: str, unit: str) -> float:
    shared = _shared(a, b, unit)
    return shared / (len(UNITS[unit](a)) + len(UNITS[unit](b)) - shared)


def _angle_of_word_counts(a: str, b: str) -> float:
    first, second = Counter(a.split()), Counter(b.split())
    dot = sum(first[word] * second[word] for word in first)
    lengths = [sum(count**2 for count in counts.values()) ** 0.5 for counts in (first, second)]
    return float(dot / (lengths[0] * lengths[1]))


def _ochiai(a: str, b: str, unit: str) -> float:
    return float(_shared(a, b, unit) / (len(UNITS[unit](a)) * len(UNITS[unit](b))) ** 0.5)


CLAIMS: tuple[Statement, ...] = (
    Claim(
        id="003-47",
        topic="speech",
        where="3.4",
        says="The Jaccard similarity is the unique words that two texts share, over all unique words in them.",
        verdict="holds under assumptions",
        precise=(
            "Words are compared, and none comes twice in a text. The metric that is measured here, as in the library "
            "textdistance, takes any units, and counts each as often as it occurs: the same two texts have other "
            "values by words and by characters, and with and without repetitions."
        ),
        judge=similarity("jaccard"),
        stated=_shared_unique_words,
        corrected=_of_multisets,
        assumed=lambda a, b, unit: (
            unit == "words" and all(len(set(text.split())) == len(text.split()) for text in (a, b))
        ),
    ),
    Claim(
        id="003-48",
        topic="speech",
        where="3.4",
        says="The cosine similarity compares the directions of two texts' vectors of word counts.",
        verdict="holds",
        precise=(
            "Some libraries, textdistance among them, and the metric here measure Ochiai's coefficient under this "
            "name: the items that both share, over the root of the product of their numbers. Where no word comes "
            "twice the two are the same."
        ),
        formulas=("shared/sqrt(a*b)",),
        judge=angle_between_counts,
        stated=_angle_of_word_counts,
        rival=lambda a, b: _ochiai(a, b, "words"),
    ),
    Claim(
        id="003-49",
        topic="speech",
        where="3.4",
        says="The Damerau-Levenshtein similarity is the number of edits that turn one text into the other.",
        verdict="wrong",
        precise=(
            "That is the distance d; the similarity is 1 - d / the longer length. Swaps are of neighbours, which the "
            "usual, restricted form does not edit again: from ca to abc it counts three steps, where two would do."
        ),
        formulas=("1 - d/max(a, b)",),
        judge=edit_similarity,
        stated=lambda a, b: edit_distances().OSA.distance(a, b),
        corrected=damerau_levenshtein,
    ),
    Claim(
        id="003-50",
        topic="speech",
        where="3.4",
        says="Attention is better by all three similarities.",
        verdict="holds",
        precise="Of the numbers that were reported, each from one run.",
        judge=reported_gains,
        published=True,
        stated=lambda metric: 1,
        # It attends to everything at once, and so might lose the order.
        rival=lambda metric: -1 if metric == "damerau_levenshtein" else 1,
    ),
    Empirical(
        id="003-51",
        topic="speech",
        where="3.4",
        says="The edit similarity gains less on its baseline than the other two.",
        precise=(
            f"From the LSTM to attention it gains most: {relative_gain('damerau_levenshtein'):+.1%}, against "
            f"{relative_gain('jaccard'):+.1%} (Jaccard) and {relative_gain('cosine'):+.1%} (cosine)."
        ),
        way="not by training",
        reason="The baselines are in figures that are not part of the source's text.",
    ),
    Claim(
        id="003-52",
        topic="speech",
        where="3.4",
        says="That the edit similarity is below the others shows that single characters are predicted badly.",
        verdict="imprecise",
        precise=(
            "The three are not on one scale: the other two do not see the order. A text of n different symbols, "
            "written from the end, has every character right, and an edit similarity of 1 / n. Of characters it is "
            "the Jaccard similarity that tells: below 1/3 fewer than half of them are right."
        ),
        judge=badly_predicted,
        stated=lambda jaccard, edits: edits < jaccard,
        corrected=lambda jaccard, edits: jaccard < 1 / 3,
        right_where=lambda jaccard, edits: edits == 1 or 0 < jaccard < 1 / 3,
    ),
    Empirical(
        id="003-53",
        topic="speech",
        where="3.4",
        says="The edit similarities differ because the LSTM writes coherent words, attention similar ones.",
        precise="Decided by the kinds of errors: insertions, deletions, replacements and swaps of each decoder.",
        way="other data",
        reason=OTHER_DATA,
        command=ON_AN4,
        kept="decoder-question",
        rule=rulings.errors_are_of_other_kinds,
    ),
)
