"""Where a statement says yes or no: which cases it gets wrong."""

from collections.abc import Iterable

from porism.claims.claim import Finding


def answered(cases: Iterable[tuple[str, bool, bool]]) -> Finding:
    """The number of cases in which the answer that is true and the one that a form gives differ.

    >>> answered([("Is 1 odd?", True, True), ("Is 2 odd?", False, True)]).evidence
    'Is 2 odd? No is true, yes stated; wrong in 1 of 2 cases'
    """
    listed = list(cases)
    wrong = [case for case in listed if case[1] != case[2]]
    if not listed:
        return Finding(float("nan"), 0, "nothing was asked")
    if not wrong:
        return Finding(0, 0, f"the same answer in {len(listed)} cases")
    where, true, given = wrong[0]
    told = f"{where} {_word(true).capitalize()} is true, {_word(given)} stated"
    return Finding(len(wrong), 0, f"{told}; wrong in {len(wrong)} of {len(listed)} cases")


def _word(answer: bool) -> str:
    return "yes" if answer else "no"
