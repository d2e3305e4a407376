"""The check worker: decides claims."""

import math
from typing import Any

from porism.claims.decide import Decision, decide, seen
from porism.claims.ledger import all_claims
from porism.web.processes.process import JobStep, serve


def check(payload: dict[str, Any], step: JobStep) -> dict[str, Any]:
    """Decide claims, one after the other, and tell of each."""
    claims, found = all_claims(), []
    for done, number in enumerate(payload["ids"]):
        step.progress(done, len(payload["ids"]), "claims")
        found.append(decision_json(decide(claims[number])))
        step.part(claim=found[-1])
    passed = sum(one["passed"] is True for one in found)
    failed = sum(one["passed"] is False for one in found)
    return {"claims": found, "passed": passed, "failed": failed, "open": len(found) - passed - failed}


def decision_json(decision: Decision) -> dict[str, Any]:
    """What became of a claim. passed: None where it is open."""
    claim = decision.claim
    right = decision.known or (decision.stated if claim.verdict == "holds" else decision.other)
    return {
        "id": claim.id,
        "passed": {"pass": True, "fail": False}.get(decision.outcome),
        "word": decision.word,
        "stated": decision.stated.evidence if decision.stated else "",
        "true": decision.other.evidence if decision.other and claim.verdict != "holds" else claim.precise,
        "evidence": seen(decision),
        "measured": _finite(right.measured) if right else None,
        "tolerance": _finite(right.tolerance) if right else None,
        "seconds": round(decision.seconds, 3),
        "command": f"porism check claims --id {claim.id}",
    }


def _finite(number: float) -> float | None:
    """JSON has no NaN and no infinity."""
    return float(number) if math.isfinite(number) else None


def main() -> int:
    return serve({"check": check})
