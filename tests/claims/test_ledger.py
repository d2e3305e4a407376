"""Every claim is decided, and no check says yes to its opposite."""

import dataclasses
import re
from typing import Any

import pytest

from porism.claims.claim import VERDICTS, Claim, Empirical
from porism.claims.ledger import TOPICS, Decision, all_claims, decide

CLAIMS = list(all_claims().values())
DECIDED: list[Claim[Any]] = [claim for claim in CLAIMS if isinstance(claim, Claim)]


SOURCES = {
    "000": (3, 12, 7, 3, 7),
    "001": (17, 10, 11, 17, 3),
    "002": (5, 2, 5, 7, 3),
    "003": (23, 9, 10, 3, 8),
    "004": (7, 6, 3, 7, 1),
}
"""How many statements of each source have each of VERDICTS."""


def test_the_ledger_is_whole() -> None:
    found = {source: tuple(_count(source, verdict) for verdict in VERDICTS) for source in SOURCES}
    assert found == SOURCES
    assert len(CLAIMS) == sum(map(sum, SOURCES.values()))


def _count(source: str, verdict: str) -> int:
    return sum(claim.id.startswith(source) and claim.verdict == verdict for claim in CLAIMS)


def decided(claim: Claim[Any]) -> Decision:
    decision = decide(claim)
    if decision.missing:
        pytest.skip(decision.missing)
    return decision


@pytest.mark.parametrize("claim", DECIDED, ids=lambda claim: claim.id)
def test_the_judge_finds_what_the_ledger_says(claim: Claim[Any]) -> None:
    decision = decided(claim)
    assert decision.outcome == "pass", (decision.stated, decision.other)


@pytest.mark.parametrize("claim", DECIDED, ids=lambda claim: claim.id)
def test_the_opposite_is_refused(claim: Claim[Any]) -> None:
    """The two forms in each other's place: a check that is decided by a constant does not notice."""
    if claim.verdict == "holds":
        opposite = dataclasses.replace(claim, stated=claim.rival, rival=claim.stated)
    else:
        opposite = dataclasses.replace(claim, stated=claim.corrected, corrected=claim.stated)
    assert decided(opposite).outcome == "fail"


@pytest.mark.parametrize("claim", DECIDED, ids=lambda claim: claim.id)
def test_the_other_verdict_is_refused(claim: Claim[Any]) -> None:
    if claim.verdict == "holds":
        other = dataclasses.replace(claim, verdict="wrong", precise="x", corrected=claim.rival, rival=None)
    else:
        other = dataclasses.replace(claim, verdict="holds", rival=claim.corrected, corrected=None)
    assert decided(other).outcome == "fail"


def test_what_is_known_without_training_agrees() -> None:
    for claim in CLAIMS:
        if isinstance(claim, Empirical):
            assert decide(claim).outcome == ("pass" if claim.known else "open"), claim.id
            assert claim.command or claim.needs


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.id)
def test_a_claim_is_written_for_people(claim: Any) -> None:
    assert re.fullmatch(r"\d{3}-\d{2}", claim.id)
    assert claim.topic in TOPICS
    assert claim.verdict in VERDICTS
    for sentence in (claim.says, claim.precise):
        assert not sentence or (sentence[0].isupper() or not sentence[0].isalpha()), sentence
        assert not sentence or sentence.endswith("."), sentence
