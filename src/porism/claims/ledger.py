"""All claims, by id. Each topic is a module or a folder of `topics/` whose CLAIMS are listed here."""

import importlib.util
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

from porism.claims.claim import Claim, Empirical, Finding, Statement
from porism.errors import ClaimError, MissingExtra

TOPICS = {
    "recurrent": "Recurrent language models: gradients and perplexity",
    "attention": "Attention: parameters and operations",
    "series": "Attention by a series: features, errors, order of products",
    "windows": "Attention within windows",
    "graphs": "Graph convolutions: normalising a graph",
    "images": "Images: pooling, strides, and a recurrent net on a grid",
    "speech": "Speech: decoders and similarities",
    "words": "Skip-gram: gradients, and estimates of them",
}
"""A topic's name, which is its module in `topics`, and what it is about."""


@cache
def all_claims() -> dict[str, Statement]:
    """
    >>> all_claims()["000-24"].verdict
    'wrong'
    """
    claims = [claim for topic in TOPICS for claim in import_module(f"porism.claims.topics.{topic}").CLAIMS]
    return _by_id(claims, "the ledger")


def read_ledger(path: Path) -> dict[str, Statement]:
    """The claims of a Python file of your own, which holds them as CLAIMS."""
    if not path.is_file():
        raise ClaimError(f"{path}: there is no such file. Give a Python file that holds CLAIMS.")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ClaimError(f"{path}: not a Python file. Give one that holds CLAIMS, with the suffix .py.")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ClaimError(f"{path}: cannot be run: {type(error).__name__}: {error}. Put it right first.") from error
    claims = getattr(module, "CLAIMS", ())
    if not claims or not all(isinstance(claim, Statement) for claim in claims):
        raise ClaimError(f"{path}: holds no CLAIMS, expected a list of Claim and Empirical. See docs/claims.md.")
    return _by_id(claims, str(path))


def _by_id(claims: Iterable[Statement], place: str) -> dict[str, Statement]:
    ordered = sorted(claims, key=lambda claim: claim.id)
    for number, same in groupby(ordered, key=lambda claim: claim.id):
        if len(list(same)) > 1:
            raise ClaimError(f"{place} has claim {number} twice. Give one of them another id.")
    return {claim.id: claim for claim in ordered}


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
    >>> decide(all_claims()["000-24"]).outcome
    'pass'
    """
    start = time.perf_counter()
    try:
        stated, other, right = _findings(claim)
    except MissingExtra as error:
        return Decision(claim, "open", None, None, time.perf_counter() - start, missing=str(error))
    outcome: Outcome = "open" if stated is None else "pass" if right else "fail"
    return Decision(claim, outcome, stated, other, time.perf_counter() - start)


def _findings(claim: Statement) -> tuple[Finding | None, Finding | None, bool]:
    """The findings, and whether they agree with the verdict."""
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
