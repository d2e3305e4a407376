"""Which part of attention's products is whose: projections, the core over all pairs, W_O. Counted by `porism.cost`."""

from collections.abc import Callable
from fractions import Fraction
from functools import cache

from sympy import Expr

from porism.claims.checks.compare import ABOUT, ROUNDING, answered
from porism.claims.claim import Claim, Empirical, Finding, Statement
from porism.claims.topics.attention.orders import WIDE, grows_like
from porism.claims.topics.attention.scalar import SINGLE, operations
from porism.costing.alphabet import SYMBOLS
from porism.layers.attention.softmax.cost import cost
from porism.runs.exhibits import Table
from porism.tasks.language.recipes import RECIPES

THIRD = Fraction(1, 3)

NAMED = {
    "BERT, its longest text": (512, 768),
    "the first transformer, a sentence": (25, 512),
    "a long text at the same width": (8192, 512),
    **{
        f"language/{name}": (RECIPES[name].seq_len, RECIPES[name].hidden_size)
        for name in ("attention", "attention-ptb")
    },
}
"""T and D of some models and what they read."""


def flops(T: int, D: int, A: int = 1, out_proj: bool = True) -> dict[str, int]:
    """Of the products in each part, a multiply-add counted as two."""
    sizes = {SYMBOLS["B"]: 1, SYMBOLS["T"]: T, SYMBOLS["D"]: D // A, SYMBOLS["A"]: A}
    return {part: int(term.subs(sizes)) for part, term in _terms(out_proj).items()}


@cache
def _terms(out_proj: bool) -> dict[str, Expr]:
    return cost(bias=False, out_proj=out_proj).flops


def around_and_core(T: int, D: int, out_proj: bool) -> tuple[int, int]:
    """FLOPs of the projections, with W_O where it is there, and FLOPs over all pairs."""
    parts = flops(T, D, out_proj=out_proj)
    core = parts["scores"] + parts["values"]
    return sum(parts.values()) - core, core


def projections_to_core(T: int, D: int) -> float:
    """How many times as much the projections take as the core, without W_O."""
    projections, core = around_and_core(T, D, out_proj=False)
    return projections / core


def operations_of_heads(T: int, D: int, A: int) -> float:
    """All operations of A heads over those of a single head, both without W_O and so with as many parameters."""
    return operations(SINGLE)(T, D, A) / operations(SINGLE, "single")(T, D, 1)


def cost_at_equal_parameters(form: Callable[[int, int, int], tuple[float, float]]) -> Finding:
    """form(T, D, A), a span for the cost of A heads over that of one, against all operations, counted.

    measured: how far a ratio lies outside of its span; a span that is wider than "about" allows says nothing.
    """
    worst, evidence = 0.0, "every ratio lies within its span"
    for T, D, A in ((1, 4, 1), (1, 4, 2), (7, 6, 3), (63, 8, 8), (512, 768, 12)):
        ratio, (low, high) = operations_of_heads(T, D, A), form(T, D, A)
        outside = max(low - ratio, ratio - high)
        if high - low > 2.001 * ABOUT:
            outside = float("inf")
        if not outside <= max(worst, ROUNDING):
            worst, evidence = outside, f"T={T}, D={D}, A={A}: {ratio:.4g} is true, {low:.4g} to {high:.4g} stated"
    return Finding(worst, ROUNDING, evidence)


def combining_is_at_most(form: Callable[[int, int, float], bool]) -> Finding:
    """form(T, D, part) against whether the FLOPs of W_O are at most that part of all others."""

    def share(T: int, D: int) -> float:
        parts = flops(T, D)
        return parts["output"] / (sum(parts.values()) - parts["output"])

    sizes = ((1, 1), (7, 2), (2, 7), (64, 1024), (1024, 64), (1, 1000))
    return answered(
        (f"Is W_O at most {part} of the rest at T={T}, D={D}?", share(T, D) <= float(part), form(T, D, float(part)))
        for T, D in sizes
        for part in (THIRD, Fraction(1, 10))
    )


def _named_sizes() -> Table:
    return Table(
        title="Is D much smaller than T?",
        about="Where the last column is above one, the projections take more than the products over all pairs.",
        columns=["model", "T", "D", "projections / core"],
        rows=[[name, T, D, projections_to_core(T, D)] for name, (T, D) in NAMED.items()],
    )


def _ratio_of_heads(T: int, D: int, A: int) -> float:
    # Additions of the scores are T^2 fewer for each head, those of the softmax T (T - 1) more; T^2 more exp and div
    single = 3 * T * D * (2 * D - 1) + T**2 * (2 * D - 1) + T * (3 * T - 1) + T * D * (2 * T - 1)
    return (single + (A - 1) * (2 * T**2 - T)) / single


CLAIMS: tuple[Statement, ...] = (
    Claim(
        id="000-11",
        topic="attention",
        where="I.2(b)",
        says="Where D is larger than T, attention could take O(T D^2) instead.",
        verdict="holds",
        precise=(
            "The projections are 6 T D^2 FLOPs, or 8 T D^2 with W_O, the core 4 T^2 D. So they count for more even up "
            "to T = 3 D / 2, or T = 2 D with W_O."
        ),
        formulas=("6*T*D**2", "8*T*D**2", "4*T**2*D"),
        judge=grows_like({"a single head": operations(SINGLE, "single")}, WIDE),
        stated=lambda T, D, A: T * D * D,
        # What it is where T is larger.
        rival=lambda T, D, A: T * T * D,
    ),
    Empirical(
        id="000-12",
        topic="attention",
        where="I.2(b)",
        says="D is much smaller than T in most cases.",
        precise="Where D is larger than 2 T / 3, the projections take more than the core; the table has some models.",
        formulas=("3*D/(2*T)",),
        picture=_named_sizes,
        way="not by training",
        reason="It depends on the models and texts that people use: a survey of them would have to tell.",
    ),
    Claim(
        id="001-39",
        topic="attention",
        where="2(a)",
        says="As many parameters with several heads as with one: so they cost about the same.",
        verdict="imprecise",
        precise=(
            "Equal numbers of parameters do not make equal cost: each head has a softmax of its own, of 3 T^2 - T "
            "operations, which no parameter counts. In products of matrices alone they cost the same; with a W_O heads "
            "take (8 D + 4 T) / (6 D + 4 T) of those of one head without, at most 4 / 3."
        ),
        formulas=("(8*D + 4*T)/(6*D + 4*T)",),
        judge=cost_at_equal_parameters,
        stated=lambda T, D, A: (1 - ABOUT, 1 + ABOUT),
        corrected=lambda T, D, A: (_ratio_of_heads(T, D, A), _ratio_of_heads(T, D, A)),
        right_where=lambda T, D, A: A == 1,
    ),
    Claim(
        id="001-51",
        topic="attention",
        where="2(b)",
        says="Beside O(T^2 D), the O(T D^2) for combining heads is not too expensive if D is not too large.",
        verdict="imprecise",
        precise=(
            "It is 2 T D^2 on top of 6 T D^2 + 4 T^2 D FLOPs: less than a third however large D is, and a tenth where "
            "D is at most 2 T / 7."
        ),
        formulas=("D/(3*D + 2*T)",),
        judge=combining_is_at_most,
        stated=lambda T, D, part: D <= T,
        corrected=lambda T, D, part: part * (3 * D + 2 * T) >= D,
        right_where=lambda T, D, part: D <= T and part == float(THIRD),
    ),
)
