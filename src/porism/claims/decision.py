"""From a claim to a decision: both of its forms before the judge."""

import time
from dataclasses import dataclass
from typing import Any, Literal

from porism.claims.claim import Claim, Empirical, Finding, Statement
from porism.errors import MissingExtra

Outcome = Literal["pass", "fail", "open"]


@dataclass(frozen=True)
class Decision:
    """What became of a claim.

    outcome: `pass` where the judge found what the ledger says, `fail` where not, `open` where only training tells, or
        where a package is missing.
    stated, other: what was found for the statement, and for its rival or its correction.
    missing: what to install, where that keeps the claim open.
    """

    claim: Statement
    outcome: Outcome
    stated: Finding | None
    other: Finding | None
    seconds: float
    missing: str = ""


def decide(claim: Statement) -> Decision:
    """
    >>> decide(ledger()["000-24"]).outcome
    'pass'
    """
    start = time.perf_counter()
    try:
        stated, other, right = _heard(claim)
    except MissingExtra as error:
        return Decision(claim, "open", None, None, time.perf_counter() - start, missing=str(error))
    outcome: Outcome = "open" if stated is None else "pass" if right else "fail"
    return Decision(claim, outcome, stated, other, time.perf_counter() - start)


def _heard(claim: Statement) -> tuple[Finding | None, Finding | None, bool]:
    """The findings, and whether they are those that the verdict asks for."""
    if isinstance(claim, Empirical):
        known = claim.known() if claim.known else None
        return known, None, known is not None and known.agrees
    assert isinstance(claim, Claim)
    stated = _judged(claim, claim.stated)
    if claim.verdict == "holds":
        other = _judged(claim, claim.rival)
        return stated, other, stated.agrees and not other.agrees
    other = _judged(claim, claim.corrected)
    return stated, other, other.agrees and not stated.agrees


def _judged(claim: Claim[Any], form: Any) -> Finding:
    finding: Finding = claim.judge(form)
    return finding
