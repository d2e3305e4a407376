"""What becomes of a claim: computed, decided by a kept run, open, or failed."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from porism.claims.checks.compare import where
from porism.claims.claim import Claim, Empirical, Finding, Ruling, Statement
from porism.claims.kept.result import KeptResult, read_kept
from porism.errors import MissingExtra

Outcome = Literal["pass", "fail", "open"]
UNDECIDED = "open: its kept run is too small to decide it"
By = Literal["computation", "published numbers", "kept run", ""]


@dataclass(frozen=True)
class Decision:
    """What became of a claim.

    outcome: `pass` where the judge found what the ledger says or a kept run decides, `fail` where a check found
        something else or could not be run, `open` where only training tells, or where a package is missing.
    by: what decided it; empty where nothing did.
    stated, other: what was found for the statement, and for its rival or its correction.
    within: what was found for the statement in the cases for which the ledger says that it agrees.
    answer: whether an empirical statement holds, by its kept run.
    kept: the evidence of that run, or what it lacks.
    is_undecided: whether there is a kept run that leaves the answer open.
    known: the side fact of an empirical statement, which decides nothing.
    missing: what to install, where that keeps the claim open.
    why: why it failed.
    """

    claim: Statement
    outcome: Outcome
    by: By = ""
    stated: Finding | None = None
    other: Finding | None = None
    within: Finding | None = None
    answer: bool | None = None
    kept: str = ""
    is_undecided: bool = False
    known: Finding | None = None
    seconds: float = 0.0
    missing: str = ""
    why: str = ""

    @property
    def word(self) -> str:
        """The outcome for people."""
        match self.outcome:
            case "fail":
                return "failed"
            case "pass" if self.by == "kept run":
                return f"kept run: {'holds' if self.answer else 'does not hold'}"
            case "pass":
                return "computed" if self.by == "computation" else "by published numbers"
        if isinstance(self.claim, Empirical) and self.claim.way == "not by training":
            return "open: not for training to decide"
        if self.missing:
            return "open: a package is missing"
        return UNDECIDED if self.is_undecided else "open: no run decides it yet"


def tally(decisions: Sequence[Decision]) -> str:
    """How many claims were decided by what.

    >>> tally([decide(all_claims()["000-24"])])
    '1 computed, 0 decided by kept runs, 0 open'
    """
    words = Counter(decision.word for decision in decisions)
    computed, published, failed = (words[word] for word in ("computed", "by published numbers", "failed"))
    kept = sum(decision.by == "kept run" for decision in decisions)
    undecided, undecidable = words[UNDECIDED], words["open: not for training to decide"]
    still_open = sum(decision.outcome == "open" for decision in decisions)
    side_facts = sum(decision.outcome == "open" and decision.known is not None for decision in decisions)
    kinds = []
    if undecidable:
        kinds.append(f"{undecidable} not for training to decide")
    if undecided:
        kinds.append(f"{undecided} by runs too small to decide them")
    if wanting := still_open - undecidable - undecided:
        kinds.append(f"{wanting} for want of a run, data or a package")
    if side_facts:
        kinds.append(f"{side_facts} of them with a side fact that was computed and decides nothing")
    by_published = f" {published} by published numbers," if published else ""
    text = f"{computed} computed,{by_published} {kept} decided by kept runs, {still_open} open"
    return text + (f" ({', '.join(kinds)})" if kinds else "") + (f", {failed} failed" if failed else "")


def seen(decision: Decision) -> str:
    """What the check saw, for people: why it failed, a kept run, or what became of the statement."""
    if decision.why or decision.missing:
        return decision.why or decision.missing
    if isinstance(decision.claim, Empirical):
        side = f"side fact: {decision.known.evidence}" if decision.known else ""
        return "; ".join(part for part in (decision.kept, side) if part) or decision.claim.reason
    assert decision.stated is not None
    return ("" if decision.stated.computable else "not computable: ") + decision.stated.evidence


def decide(claim: Statement, kept: Path | None = None) -> Decision:
    """What becomes of a claim. A judge that raises is a check that failed, and the error is its evidence.

    kept: a folder with kept results, in place of the package's.

    >>> decide(all_claims()["000-24"]).outcome
    'pass'
    """
    start = time.perf_counter()
    try:
        decision = _decided(claim, kept)
    except MissingExtra as error:
        decision = Decision(claim, "open", missing=str(error))
    except Exception as error:
        decision = Decision(claim, "fail", why=f"the check itself failed: {type(error).__name__}: {error}")
    return replace(decision, seconds=time.perf_counter() - start)


def _decided(claim: Statement, kept: Path | None) -> Decision:
    if isinstance(claim, Empirical):
        return _of_kept(claim, kept)
    assert isinstance(claim, Claim)
    return _computed(claim)


def _of_kept(claim: Empirical, folder: Path | None) -> Decision:
    known = claim.known() if claim.known else None
    if known is not None and not known.agrees:
        return Decision(claim, "fail", known=known, why=f"what is known without training is not so: {known.evidence}")
    ruling = _ruling(claim, folder)
    if ruling.answer is None:
        has_run = claim.rule is not None and read_kept(claim.kept, folder) is not None
        return Decision(claim, "open", known=known, kept=ruling.evidence, is_undecided=has_run)
    return Decision(claim, "pass", "kept run", answer=ruling.answer, kept=ruling.evidence, known=known)


def _ruling(claim: Empirical, folder: Path | None) -> Ruling:
    if claim.rule is None:
        return Ruling(None, "")
    result = read_kept(claim.kept, folder)
    if result is None:
        return Ruling(None, f"no result {claim.kept} is kept yet")
    ruling = claim.rule(result)
    return replace(ruling, evidence=f"{ruling.evidence} ({_origin(result)})")


def _origin(result: KeptResult) -> str:
    count = " to ".join(str(seeds) for seeds in sorted({result.fewest_seeds, result.seeds}))
    # A time is of no seed: what is repeated are turns.
    repeated = "turn" if result.runs[0].numbers.keys() == {"milliseconds"} else "seed"
    seeds = "" if result.runs[0].seed is None else f"{count} {repeated}{'s' if result.seeds > 1 else ''}, "
    machine = result.hardware.get("gpu") or result.hardware.get("cpu") or "a machine that is not known"
    return f"{result.data + ', ' if result.data else ''}{seeds}{machine}"


def _computed(claim: Claim[Any]) -> Decision:
    """Both forms before the judge, and the statement in the cases for which the ledger says that it agrees."""
    holds = claim.verdict == "holds"
    stated, other = claim.judge(claim.stated), claim.judge(claim.rival if holds else claim.corrected)
    right, refused = (stated, other) if holds else (other, stated)
    within, faults = None, []
    if not right.agrees:
        faults.append(f"{'the statement' if holds else 'the correction'} is refused: {right.evidence}")
    if refused.agrees:
        faults.append(f"{'the rival' if holds else 'the statement'} is not refused")
    # A slip in writing a form also gives a wrong shape: a claim must declare that a form is not computable.
    elif refused.computable != (True if holds else claim.computable):
        faults.append(
            f"{'the rival' if holds else 'the statement'} is {'' if refused.computable else 'not '}computable, "
            f"against what the claim says: {refused.evidence}"
        )
    if claim.condition is not None:
        cases = Cases(claim.condition)
        within = claim.judge(mixed(cases, claim.stated, claim.corrected))
        if not within.agrees:
            faults.append(f"the statement is refused where it should agree: {within.evidence}")
        if not cases.met or not cases.unmet:
            faults.append(
                f"of {cases.met + cases.unmet} cases {cases.met} meet the condition: there must be both kinds"
            )
    why = "; ".join(faults)
    by: By = "" if why else "published numbers" if claim.published else "computation"
    return Decision(claim, "fail" if why else "pass", by, stated, other, within=within, why=why)


@dataclass
class Cases:
    """A condition that counts the cases that met it."""

    condition: Callable[..., bool]
    met: int = field(default=0, init=False)
    unmet: int = field(default=0, init=False)

    def __call__(self, *case: Any) -> bool:
        met = bool(self.condition(*case))
        self.met, self.unmet = self.met + met, self.unmet + (not met)
        return met


def mixed(condition: Callable[..., bool], stated: Any, corrected: Any) -> Any:
    """The statement in the cases that meet a condition, and what is right in all others.

    A judge that agrees with what is right, and with this, agrees with the statement wherever the condition is met.
    Forms are functions, or tuples of functions.

    >>> form = mixed(lambda n: n == 2, stated=lambda n: n + n, corrected=lambda n: n * n)
    >>> form(2), form(3)
    (4, 9)
    """
    if isinstance(stated, tuple):
        parts = (mixed(condition, one, other) for one, other in zip(stated, corrected, strict=True))
        return type(stated)._make(parts) if hasattr(stated, "_make") else tuple(parts)
    return where(condition, stated, corrected)
