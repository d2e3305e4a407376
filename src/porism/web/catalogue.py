"""The catalogue: formulas of all layers and recipes, and all claims, read from one file of the package.

It is made by `python -m porism.web.processes.make_catalogue`, so that a page waits for no derivation and the server
needs neither torch nor sympy.
"""

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

KINDS = {
    "flops": "forward FLOPs",
    "backward_flops": "backward FLOPs",
    "parameters": "parameters",
    "activation_bytes": "bytes kept for the backward pass",
    "memory": "bytes of training with AdamW",
}
"""What is counted, and what it is called."""

CostEntry = dict[str, Any]
"""The formulas of one target, as `porism.web.processes.cost_json` writes them."""


@dataclass(frozen=True)
class Catalogue:
    """What the file says."""

    letters: dict[str, str]
    costs: dict[str, CostEntry]
    claims: list[dict[str, Any]]
    topics: dict[str, str]
    verdicts: list[str]

    @property
    def layers(self) -> list[CostEntry]:
        """Layers and their variants."""
        return [cost for cost in self.costs.values() if cost["kind"] != "recipe"]

    @property
    def recipes(self) -> list[CostEntry]:
        return [cost for cost in self.costs.values() if cost["kind"] == "recipe"]


@cache
def catalogue() -> Catalogue:
    """
    >>> catalogue().costs["attention"]["flops"]["text"]
    '4*A*B*D*T*(2*A*D + T)'
    """
    found = json.loads(files("porism.web").joinpath("catalogue.json").read_bytes())
    return Catalogue(**{key: found[key] for key in ("letters", "costs", "claims", "topics", "verdicts")})
