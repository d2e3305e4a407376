"""Three ways to say how alike two texts are: the task's own similarities, and what was reported of them."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache

from porism.claims.checks.compare import compared, counted_equal
from porism.claims.claim import Claim, Empirical, Finding, Statement
from porism.claims.topics.speech.published import COMMAND, NEEDS, gain, relative_gain
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


def gain_against_others(form: Callable[[str], int]) -> Finding:
    """form(metric) against whether the edit similarity gains more (1) or less (-1) than this one, in shares."""
    ours = relative_gain("damerau_levenshtein")
    others = [metric for metric in METRICS if metric != "damerau_levenshtein"]
    found = counted_equal((other, _sign(ours - relative_gain(other)), form(other)) for other in others)
    gains = ", ".join(f"{metric} {relative_gain(metric):+.1%}" for metric in METRICS)
    return Finding(found.measured, found.tolerance, f"{found.evidence}; {gains}")


def of_reversed(form: Callable[[int], tuple[float, float, float]]) -> Finding:
    """form(n) against the three similarities of n different symbols with the same ones from the end."""
    alphabet = "abcdefghi"
    return compared(
        (f"{n} symbols", [measure(alphabet[:n], alphabet[:n][::-1]) for measure in SIMILARITIES.values()], form(n))
        for n in range(2, len(alphabet) + 1)
    )


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


def _angle_of_word_counts(a: str, b: str, unit: str) -> float:
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
            "Words are compared, and none comes twice in a text. The metric that is measured takes any units, mostly "
            "characters, and counts each as often as it occurs: the same two texts have other values by words and by "
            "characters, and with and without repetitions."
        ),
        judge=similarity("jaccard"),
        stated=_shared_unique_words,
        corrected=_of_multisets,
    ),
    Claim(
        id="003-48",
        topic="speech",
        where="3.4",
        says="The cosine similarity compares the directions of two texts' vectors of word counts.",
        verdict="holds under assumptions",
        precise=(
            "Words are compared, and none comes twice in a text. What libraries measure under this name is Ochiai's "
            "coefficient: the items that both share, over the root of the product of their numbers."
        ),
        formulas=("shared/sqrt(a*b)",),
        judge=similarity("cosine"),
        stated=_angle_of_word_counts,
        corrected=_ochiai,
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
        stated=lambda metric: 1,
        # It attends to everything at once, and so might lose the order.
        rival=lambda metric: -1 if metric == "damerau_levenshtein" else 1,
    ),
    Claim(
        id="003-51",
        topic="speech",
        where="3.4",
        says="The edit similarity gains less than the other two.",
        verdict="imprecise",
        precise=(
            "Against baselines that are not given, which cannot be checked. From the LSTM to attention it gains most: "
            f"{relative_gain('damerau_levenshtein'):+.1%}, against {relative_gain('jaccard'):+.1%} (Jaccard) and "
            f"{relative_gain('cosine'):+.1%} (cosine)."
        ),
        judge=gain_against_others,
        stated=lambda metric: -1,
        corrected=lambda metric: 1,
    ),
    Claim(
        id="003-52",
        topic="speech",
        where="3.4",
        says="That the edit similarity is below the others shows that single characters are predicted badly.",
        verdict="imprecise",
        precise=(
            "The three are not on one scale: the other two do not see the order. A text of n different symbols, "
            "written from the end, has every character right, and an edit similarity of 1 / n."
        ),
        formulas=("1/n",),
        judge=of_reversed,
        stated=lambda n: (1.0, 1.0, 1.0),
        corrected=lambda n: (1.0, 1.0, 1 / n),
    ),
    Empirical(
        id="003-53",
        topic="speech",
        where="3.4",
        says="The edit similarities differ because the LSTM writes coherent words, attention similar ones.",
        precise="Decided by the kinds of errors: insertions, deletions, replacements and swaps of each decoder.",
        command=COMMAND,
        needs=NEEDS,
    ),
)
