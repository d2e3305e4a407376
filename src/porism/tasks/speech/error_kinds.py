"""Kinds of errors in transcripts: the edits from a reference to its hypothesis, and which words of it are known.

>>> edit_kinds("put the red box", "putthe rread bo x")
{'substitution': 0, 'deletion': 0, 'insertion': 1, 'repetition': 1, 'split': 1, 'join': 1}

The edits are those of the Levenshtein distance, so that their kinds sum to it. Where several alignments are equally
short, rapidfuzz's counts.
"""

import re
from collections import Counter
from collections.abc import Collection, Sequence
from types import ModuleType
from typing import NamedTuple

from porism.tasks.speech.data.audio import import_audio

EDITS = {
    "substitution": "wrong character",
    "deletion": "missing character",
    "insertion": "extra character",
    "repetition": "extra character that repeats its neighbour",
    "split": "space within a word",
    "join": "no space between two words",
}
"""The kinds of edits, and what they are of a hypothesis."""
WORD = re.compile(r"[^\s,.?-]+")


def edit_distances() -> ModuleType:
    return import_audio("rapidfuzz.distance", "edit distances")


def edit_kinds(reference: str, hypothesis: str) -> dict[str, int]:
    """How many edits there are of each kind."""
    edits = edit_distances().Levenshtein.editops(reference, hypothesis).as_list()
    # Those in a row: insertions before the same character of the reference, deletions before one of the hypothesis.
    in_a_row = Counter(_row(*edit) for edit in edits)
    counts = Counter(
        _kind(reference, hypothesis, edit, at, to, alone=in_a_row[_row(edit, at, to)] == 1) for edit, at, to in edits
    )
    return {kind: counts[kind] for kind in EDITS}


def _row(edit: str, at: int, to: int) -> tuple[str, int]:
    return edit, to if edit == "delete" else at


def _kind(reference: str, hypothesis: str, edit: str, at: int, to: int, alone: bool) -> str:
    """Of one edit, from `at` in the reference to `to` in the hypothesis.

    A space that is extra or missing together with its neighbours belongs to a whole word, and splits or joins none.
    """
    if edit == "delete":
        return "join" if alone and reference[at] == " " and _within_word(hypothesis, to, to) else "deletion"
    if edit == "replace":
        if reference[at] == " " and _within_word(hypothesis, to, to + 1):
            return "join"
        return "split" if hypothesis[to] == " " and _within_word(reference, at, at + 1) else "substitution"
    if hypothesis[to] == " ":
        return "split" if alone and _within_word(reference, at, at) else "insertion"
    neighbours = hypothesis[max(0, to - 1) : to] + hypothesis[to + 1 : to + 2]
    return "repetition" if hypothesis[to] in neighbours else "insertion"


def _within_word(text: str, start: int, end: int) -> bool:
    """Whether characters of words stand directly before `start` and from `end` on."""
    return start > 0 and end < len(text) and " " not in (text[start - 1], text[end])


def swaps(reference: str, hypothesis: str) -> int:
    """How many edits are saved where neighbours may be swapped in one: each swap saves one of two."""
    distances = edit_distances()
    saved: int = distances.Levenshtein.distance(reference, hypothesis) - distances.OSA.distance(reference, hypothesis)
    return saved


def words_in(text: str) -> list[str]:
    """
    >>> words_in("where is it, bob?")
    ['where', 'is', 'it', 'bob']
    """
    return WORD.findall(text)


class TranscriptWords(NamedTuple):
    """Words of a hypothesis: all, those in the vocabulary; and the same of its wrong words alone."""

    words: int
    known: int
    wrong: int
    wrong_known: int


def count_words(reference: str, hypothesis: str, vocabulary: Collection[str]) -> TranscriptWords:
    """A word is wrong if the shortest edit of the reference's words replaces or inserts it.

    >>> count_words("the red box", "the rod bux", vocabulary={"the", "red", "box", "rod"})
    TranscriptWords(words=3, known=2, wrong=2, wrong_known=1)
    """
    words = words_in(hypothesis)
    wrong = _wrong_words(words_in(reference), words)
    return TranscriptWords(len(words), _known(words, vocabulary), len(wrong), _known(wrong, vocabulary))


def _wrong_words(reference: Sequence[str], hypothesis: Sequence[str]) -> list[str]:
    edits = edit_distances().Levenshtein.editops(reference, hypothesis).as_list()
    return [hypothesis[to] for edit, _, to in edits if edit != "delete"]


def _known(words: Sequence[str], vocabulary: Collection[str]) -> int:
    return sum(word in vocabulary for word in words)
