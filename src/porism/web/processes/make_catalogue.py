"""Makes catalogue.json: formulas of all layers and recipes, and all claims, so that the page waits for none of them.

    python -m porism.web.processes.make_catalogue                        all of it, some minutes
    python -m porism.web.processes.make_catalogue taylor language/lstm   these anew, and the claims; the rest stays
    python -m porism.web.processes.make_catalogue claims                 the claims alone

A test derives entries anew and compares.
"""

import json
import platform
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch

from porism.api.cost import cost_of, resolve
from porism.claims.claim import VERDICTS, Claim, Empirical, Statement
from porism.claims.ledger import TOPICS, all_claims
from porism.costing.letters import ALPHABET
from porism.errors import RecipeError, nearest
from porism.files import write_atomically
from porism.layers.cases import LAYERS
from porism.report.formula import mathml
from porism.tasks import TASKS, choices
from porism.web.processes.cost_json import cost_json

CLAIMS = "claims"
FILE = Path(__file__).parent.parent / "catalogue.json"


def names() -> list[str]:
    """Layers, their variants, and recipes as TASK/RECIPE."""
    variants = [variant.name for layer in LAYERS for variant in resolve(layer).variants]
    return [*LAYERS, *variants, *(f"{task}/{recipe}" for task in TASKS for recipe in choices(task).recipes)]


def derived(name: str) -> dict[str, Any]:
    """The entry of one name, derived now."""
    target = resolve(name)
    kind = "recipe" if target.recipe is not None else "layer" if name in LAYERS else "variant"
    about = target.about or (target.recipe.description if target.recipe is not None else "")
    return cost_json(cost_of(target), kind, about)


def claims() -> list[dict[str, Any]]:
    """Every statement of the ledger, as the page lists it."""
    return [_claim(statement) for statement in all_claims().values()]


def _claim(claim: Statement) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "id": claim.id,
        "topic": claim.topic,
        "statement": claim.says,
        "verdict": claim.verdict,
        "right": claim.precise,
        "right_mathml": [mathml(formula) for formula in claim.formulas],
        "where": claim.where,
        "needs": "",
        "by": "",
        "command": f"porism check claims --id {claim.id}",
    }
    if isinstance(claim, Empirical):
        by = claim.way if claim.way == "not by training" else "kept run" if claim.kept else "a run to come"
        needs = "a training run" if by == "a run to come" else ""
        return entry | {"needs": claim.needs or needs, "by": by, "command": claim.command or entry["command"]}
    assert isinstance(claim, Claim)
    return entry | {"by": "published numbers" if claim.published else "computation"}


def made_with() -> dict[str, str]:
    """What kept bytes depend on beside the code: which kernels ran."""
    return {"processor": platform.machine(), "torch": torch.__version__.partition("+")[0]}


def encode(catalogue: dict[str, Any]) -> bytes:
    """One line an entry, so that a change of one formula is a change of one line."""

    def line(value: Any) -> str:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))

    costs = ",\n".join(f"{line(name)}:{line(cost)}" for name, cost in catalogue["costs"].items())
    listed = ",\n".join(line(claim) for claim in catalogue["claims"])
    head = {key: catalogue[key] for key in ("made_with", "letters", "topics", "verdicts")}
    rest = "".join(f"{line(key)}:{line(value)},\n" for key, value in head.items())
    return f'{{{rest}"costs":{{\n{costs}\n}},\n"claims":[\n{listed}\n]}}\n'.encode()


def make(only: Iterable[str] = ()) -> None:
    """Write the catalogue: with all entries derived, or with these anew and the others as they stand."""
    chosen, known = set(only), names()
    for name in chosen - {*known, CLAIMS}:
        raise RecipeError(f"catalogue: there is no layer and no recipe {name!r}. {nearest(name, known)}")
    stands = json.loads(FILE.read_text(encoding="utf-8")) if FILE.is_file() and chosen else {"costs": {}}
    if (made := stands.get("made_with")) and made != made_with() and chosen != {CLAIMS}:
        raise RecipeError(
            f"catalogue: its entries were derived with {_told(made)}, here is {_told(made_with())}, and which bytes "
            "are kept differs. Derive all of them: name none."
        )
    before = stands["costs"]
    costs = {}
    for name in known:
        if name in before and name not in chosen:
            costs[name] = before[name]
        elif not chosen or name in chosen:
            print(f"deriving {name}", file=sys.stderr, flush=True)
            costs[name] = derived(name)
    # Where the claims alone are written, the costs are still those of the machine that derived them.
    catalogue = {"made_with": made or made_with(), "letters": ALPHABET, "topics": TOPICS, "verdicts": VERDICTS}
    write_atomically(FILE, encode(catalogue | {"costs": costs, "claims": claims()}))


def _told(made: dict[str, str]) -> str:
    return f"torch {made['torch']} on {made['processor']}"


def main(words: Sequence[str] | None = None) -> int:
    make(sys.argv[1:] if words is None else words)
    return 0


if __name__ == "__main__":
    sys.exit(main())
