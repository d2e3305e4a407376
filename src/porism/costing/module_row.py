"""Kinds of cost, and the formulas of one submodule."""

from collections.abc import Mapping
from dataclasses import dataclass

import sympy
from sympy import Expr

from porism.costing.counting.conventions import Conventions
from porism.costing.fitting.interpolate import Fitted

KINDS = ("parameters", "flops", "backward_flops", "activation_bytes")

TALLIES = (
    *KINDS,
    *("causal", "causal_backward_flops", "elementwise", "elementwise_backward_flops"),
    *("parameter_bytes", "gradient_bytes", "trained_tensors"),
)
"""What is counted of every submodule; the kinds are made of these."""

UNSEEN = "torch.func lets nobody see what autograd keeps"
"""Why there may be no bytes kept for the backward pass."""


@dataclass(frozen=True)
class ModuleRow:
    """One submodule: where it sits, what it is, and the formula of each tally with all below it."""

    path: str
    kind: str
    fitted: Mapping[str, Fitted]

    def formula(self, kind: str, conventions: Conventions) -> Expr | None:
        """One kind of cost under given conventions; None where no formula was found."""
        if kind not in ("flops", "backward_flops"):
            return self.fitted[kind].formula
        parts = [self.fitted[tally].formula for tally in tallies_of(kind)]
        needed = [
            part
            for part, name in zip(parts, ("products", "causal", "elementwise"), strict=True)
            if name in conventions.parts
        ]
        if any(part is None for part in needed):
            return None
        return conventions.join(*(sympy.Integer(0) if part is None else part for part in parts))


def tallies_of(kind: str) -> tuple[str, ...]:
    """The tallies that one kind is made of: of operations those of products, causal products and elementwise work."""
    if kind not in ("flops", "backward_flops"):
        return (kind,)
    return ("flops", "causal", "elementwise") if kind == "flops" else (kind, f"causal_{kind}", f"elementwise_{kind}")
