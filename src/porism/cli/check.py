"""porism check: decide by machine."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, arg

from porism.cli.options import Json, optional
from porism.errors import ClaimError, RecipeError

if TYPE_CHECKING:
    from rich.console import Console

    from porism.claims.decide import Decision
    from porism.testing.report import CheckResult

What = Literal["gradients", "kernels", "claims", "all"]


@dataclass(kw_only=True)
class CheckCommand:
    """Decide by machine: gradients derived by hand against autograd and finite differences, GPU kernels against their
    oracles (in Triton's interpreter where there is no GPU), and the ledger of textbook claims.

    $ porism check gradients
    $ porism check claims --topic attention
    $ porism check claims --id 000-24
    $ porism check claims --out ledger.html
    $ porism check claims --ledger my_claims.py
    $ porism check claims --rerun 000-18 --out kept/heads-timing.json
    $ porism check claims --kept kept/
    $ porism check all --json
    """

    what: Annotated[Positional[What], arg(metavar="WHAT")] = "all"
    """gradients, kernels, claims, or all."""
    topic: Annotated[str | None, optional("TOPIC", str)] = None
    """Only the claims of a topic."""
    id: Annotated[str | None, optional("ID", str)] = None
    """Only the claim of that number."""
    ledger: Annotated[Path | None, optional("FILE.py", Path)] = None
    """Claims of your own, in place of ours: a Python file that holds them as CLAIMS."""
    out: Annotated[Path | None, optional("FILE", Path)] = None
    """Write the ledger to a file, .html to look at or .md; with --rerun the result, .json."""
    rerun: Annotated[str | None, optional("ID", str)] = None
    """Make the kept result that decides a claim anew by its command, into --out or beside the one that is kept."""
    kept: Annotated[Path | None, optional("FOLDER", Path)] = None
    """Kept results of your own, in place of those of the package."""
    seed: Annotated[int, arg(metavar="N")] = 0
    """Of the random inputs of gradients and kernels."""
    json: Json = False
    """Print the result as one JSON line on standard output, all else on standard error."""

    def run(self) -> int:
        from porism.cli.output import console_for, print_json, tell
        from porism.training.limits import check_seed

        check_seed(self.seed)
        claims_only = (self.topic, self.id, self.ledger, self.out, self.rerun, self.kept)
        if self.what not in ("claims", "all") and any(claims_only):
            raise RecipeError(
                "--topic, --id, --ledger, --out, --rerun and --kept are for claims, "
                f"got {self.what}. Write porism check claims."
            )
        if self.kept is not None and not self.kept.is_dir():
            raise ClaimError(f"{self.kept}: there is no such folder. Give --kept a folder of kept results.")
        if self.rerun is not None:
            from porism.cli.rerun import rerun

            return rerun(self.rerun, self.out, self.json)
        console = console_for(self.json)
        rows: list[dict[str, Any]] = []
        decisions: Sequence[Decision] = []
        if self.what in ("gradients", "all"):
            from porism.testing.gradients import gradients

            rows += _compared(gradients(seed=self.seed), console)
        if self.what in ("kernels", "all"):
            from porism.testing.kernels import check_kernels

            rows += _compared(check_kernels(seed=self.seed), console)
        if self.what in ("claims", "all"):
            decisions = self._claims(console)
            rows += [_plain(decision) for decision in decisions]
        counts = {verdict: sum(row["verdict"] == verdict for row in rows) for verdict in ("pass", "fail", "open")}
        still_open = f", {counts['open']} open" if counts["open"] else ""
        tell(console, f"{counts['pass']} passed, {counts['fail']} failed{still_open}")
        if decisions:
            from porism.claims.decide import tally

            tell(console, f"claims: {tally(decisions)}")
        if self.json:
            print_json({"checks": rows, "passed": counts["pass"], "failed": counts["fail"], "open": counts["open"]})
        return 1 if counts["fail"] else 0

    def _claims(self, console: "Console") -> "list[Decision]":
        from rich.progress import track

        from porism.claims.decide import decide
        from porism.claims.ledger import all_claims, read_ledger, select
        from porism.cli.output import tell

        claims = all_claims() if self.ledger is None else read_ledger(self.ledger)
        chosen = select(claims, self.topic, self.id)
        decisions = [
            decide(claim, self.kept)
            for claim in track(chosen, "deciding", console=console, disable=not console.is_terminal)
        ]
        _print_decisions(decisions, console)
        if self.out:
            _write(decisions, self.out)
            tell(console, f"written to {self.out}")
        return decisions


def _compared(checks: "Sequence[CheckResult]", console: "Console") -> list[dict[str, Any]]:
    from rich.table import Table

    shown = Table("check", "verdict", "measured", "tolerance")
    for check in checks:
        shown.add_row(check.name, check.verdict, f"{check.measured:.1e}", f"{check.tolerance:.0e}")
    console.print(shown)
    return [{key: getattr(check, key) for key in ("name", "verdict", "measured", "tolerance")} for check in checks]


def _print_decisions(decisions: "Sequence[Decision]", console: "Console") -> None:
    from rich.table import Table
    from rich.text import Text

    from porism.claims.decide import seen

    shown = Table("claim", "statement", "verdict", "check", "seen")
    for decision in decisions:
        claim = decision.claim
        shown.add_row(claim.id, Text(claim.says), claim.verdict, decision.word, Text(seen(decision)))
    console.print(shown)


def _plain(decision: "Decision") -> dict[str, Any]:
    """As scripts read it: `measured` and `tolerance` are those of the form that is right."""
    from porism.claims.decide import seen

    claim = decision.claim
    right = decision.known or (decision.stated if claim.verdict == "holds" else decision.other)
    return {
        "name": claim.id,
        "verdict": decision.outcome,
        "measured": right.measured if right else None,
        "tolerance": right.tolerance if right else None,
        "topic": claim.topic,
        "says": claim.says,
        "ledger": claim.verdict,
        "precise": claim.precise,
        "evidence": seen(decision),
        "by": decision.by or None,
        "answer": decision.answer,
        "side_fact": decision.known.evidence if decision.known else None,
        "seconds": round(decision.seconds, 3),
    }


def _write(decisions: "Sequence[Decision]", to: Path) -> None:
    from porism.claims.decide import tally
    from porism.claims.ledger import TOPICS
    from porism.report.ledger import Row, write_ledger

    rows = []
    for decision in decisions:
        claim = decision.claim
        rows.append(
            Row(
                claim.id, claim.topic, claim.where, claim.says, claim.verdict, claim.precise, claim.formulas,
                decision.outcome,
                stated=decision.stated.evidence if decision.stated else decision.why,
                other=decision.other.evidence if decision.other else "",
                check=decision.word,
                kept=decision.kept,
                side_fact=decision.known.evidence if decision.known else "",
                reason=getattr(claim, "reason", ""),
                command=getattr(claim, "command", ""),
                needs=decision.missing or getattr(claim, "needs", ""),
                picture=claim.picture() if claim.picture and to.suffix == ".html" else None,
            )
        )  # fmt: skip
    # A topic that is not ours is its own heading.
    topics = {**TOPICS, **{row.topic: row.topic for row in rows if row.topic not in TOPICS}}
    write_ledger(rows, topics, to, counts=tally(decisions))
