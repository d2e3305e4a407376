"""Every claim is decided or open for a reason, and no check says yes to its opposite."""

import dataclasses
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from porism.claims.claim import VERDICTS, Claim, Empirical
from porism.claims.decide import Decision, decide, tally
from porism.claims.ledger import TOPICS, all_claims, select
from porism.claims.topics.attention.orders import LOOSE
from porism.cli import main
from porism.errors import RecipeError

CLAIMS = list(all_claims().values())
DECIDED: list[Claim[Any]] = [claim for claim in CLAIMS if isinstance(claim, Claim)]
DOCS = Path(__file__).parents[2] / "docs"
STATEMENTS = 189
"""A statement with a letter is one part of several."""

NOWHERE_RIGHT = {
    "000-09": "exp(s) is larger than s, so that the two sums are never the same",
    "000-14": "the same as 000-09",
    "000-23": "d_i d_j is the root of (d_i + 1)(d_j + 1) for no whole degrees",
    "000-28": "two numbers, and no cases",
    "001-36": "the share that is dropped and the one that is kept are the same at a half only, which the table has not",
    "001-57": "the eigenvalues of A + I sum to another number: its trace is not zero",
    "002-18": "an inverse is a transpose for orthogonal features only, and these have a column of ones",
    "003-49": "a distance is 0 where a similarity is 1, and a whole number elsewhere",
    "004-17": "the probability of a context that was not seen is never one",
    "004-18": "it is the same vector for every context, and the gradients are not",
    "004-21": "a vector where a matrix is due",
}
"""Statements that are refused in every case, and why there is no case to show that they are not misquoted."""


@pytest.fixture(scope="module")
def decisions() -> Mapping[str, Decision]:
    return {claim.id: decide(claim) for claim in CLAIMS}


def forms_exchanged(claim: Claim[Any]) -> Claim[Any]:
    if claim.verdict == "holds":
        return dataclasses.replace(claim, stated=claim.rival, rival=claim.stated)
    return dataclasses.replace(claim, stated=claim.corrected, corrected=claim.stated)


def test_the_ledger_is_whole() -> None:
    assert len({claim.id[:6] for claim in CLAIMS}) == STATEMENTS
    assert [claim.id for claim in select(all_claims(), number="003-39")] == ["003-39a", "003-39b"]
    with pytest.raises(RecipeError, match="no claim '003-99'"):
        select(all_claims(), number="003-99")


def test_the_judges_find_what_the_ledger_says(decisions: Mapping[str, Decision]) -> None:
    failed = {number: decision.why for number, decision in decisions.items() if decision.outcome == "fail"}
    assert not failed
    for claim in DECIDED:
        decision = decisions[claim.id]
        expected = "published numbers" if claim.published else "computation"
        assert decision.by == expected or decision.missing, claim.id


def test_what_is_empirical_is_open_or_decided_by_a_kept_run(decisions: Mapping[str, Decision]) -> None:
    for claim in CLAIMS:
        if isinstance(claim, Empirical):
            assert decisions[claim.id].by in ("", "kept run")
            assert (decisions[claim.id].outcome == "pass") == (decisions[claim.id].by == "kept run"), claim.id


def test_every_claim_is_counted_once(decisions: Mapping[str, Decision]) -> None:
    told = r"(\d+) computed, (\d+) by published numbers, (\d+) decided by kept runs, (\d+) open"
    numbers = re.match(told, tally(list(decisions.values())))
    assert numbers
    assert sum(map(int, numbers.groups())) == len(CLAIMS)


def test_the_ledger_is_what_the_program_writes(
    decisions: Mapping[str, Decision], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if lacking := {one.missing for one in decisions.values() if one.missing}:
        pytest.skip(f"the ledger is written with all packages: {'; '.join(sorted(lacking))}")
    # All claims are decided once for all tests of this file.
    monkeypatch.setattr(sys.modules["porism.claims.decide"], "decide", lambda claim, _kept: decisions[claim.id])
    assert main(["check", "claims", "--out", str(tmp_path / "ledger.md")]) == 0
    written = (tmp_path / "ledger.md").read_text()
    assert written == (DOCS / "ledger.md").read_text(), "write it anew: porism check claims --out docs/ledger.md"
    counts = re.sub(r" \(.*?\)", "", next(line for line in written.splitlines() if " statements: " in line))
    readme = " ".join((DOCS.parent / "README.md").read_text().split())
    assert counts in readme, "README says other counts than the ledger"


@pytest.mark.sweep(12)
@pytest.mark.parametrize("claim", DECIDED, ids=lambda claim: claim.id)
def test_the_opposite_is_refused(claim: Claim[Any]) -> None:
    """The two forms in each other's place: a check that is decided by a constant does not notice."""
    assert decide(forms_exchanged(claim)).outcome == "fail" or decide(claim).missing


@pytest.mark.sweep(12)
@pytest.mark.parametrize("claim", DECIDED, ids=lambda claim: claim.id)
def test_the_other_verdict_is_refused(claim: Claim[Any]) -> None:
    if claim.verdict == "holds":
        other = dataclasses.replace(claim, verdict="wrong", precise="x", corrected=claim.rival, rival=None)
    else:
        changes: dict[str, Any] = {"rival": claim.corrected, "corrected": None, "assumed": None, "right_where": None}
        other = dataclasses.replace(claim, verdict="holds", **changes)
    assert decide(other).outcome == "fail" or decide(claim).missing


def test_refused_statements_are_right_somewhere_or_say_why_not() -> None:
    refused = [claim for claim in DECIDED if claim.verdict in ("wrong", "imprecise")]
    assert {claim.id for claim in refused if claim.right_where is None} == NOWHERE_RIGHT.keys()


def test_no_upper_bound_is_refused_for_being_loose(decisions: Mapping[str, Decision]) -> None:
    """O is an upper bound: what is refused, a statement or a rival, falls short somewhere."""
    for claim in DECIDED:
        decision = decisions[claim.id]
        refused = decision.other if claim.verdict == "holds" else decision.stated
        assert refused is None or not refused.evidence.startswith(LOOSE), claim.id


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.id)
def test_a_claim_is_written_for_people(claim: Any) -> None:
    assert re.fullmatch(r"\d{3}-\d{2}[a-c]?", claim.id)
    assert claim.topic in TOPICS
    assert claim.verdict in VERDICTS
    for sentence in (claim.says, claim.precise, getattr(claim, "reason", "")):
        assert not sentence or (sentence[0].isupper() or not sentence[0].isalpha()), sentence
        assert not sentence or sentence.endswith("."), sentence
