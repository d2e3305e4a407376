"""Which part of attention's products is whose: projections, the core over all pairs, W_O. Counted by `porism.cost`."""

from collections.abc import Callable
from functools import cache
from itertools import count

from sympy import Expr

from porism.claims.checks.compare import compared, counted_equal, where
from porism.claims.claim import Claim, Empirical, Finding, Statement
from porism.costing.alphabet import SYMBOLS
from porism.layers.attention.softmax.cost import cost
from porism.runs.exhibits import Table
from porism.tasks.language.recipes import RECIPES

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


def where_the_core_catches_up(form: Callable[[int, bool], float]) -> Finding:
    """form(D, out_proj) against the first length at which the core takes as much as the projections, and W_O."""

    def catches_up(T: int, D: int, out_proj: bool) -> bool:
        around, core = around_and_core(T, D, out_proj)
        return core >= around

    def first(D: int, out_proj: bool) -> int:
        return next(T for T in count(1) if catches_up(T, D, out_proj))

    return counted_equal(
        (f"D={D}, {'with' if out_proj else 'without'} W_O", first(D, out_proj), form(D, out_proj))
        for D in (2, 7, 16)
        for out_proj in (False, True)
    )


def many_to_one(form: Callable[[int, int, int, bool], float]) -> Finding:
    """form(T, D, A, out_proj) against FLOPs of A heads, with W_O or not, over those of one head without."""
    cases = []
    for T, D, A in ((1, 4, 2), (7, 6, 3), (63, 8, 8), (512, 768, 12)):
        for out_proj in (False, True):
            ratio = sum(flops(T, D, A, out_proj).values()) / sum(flops(T, D, 1, out_proj=False).values())
            place = f"T={T}, D={D}, A={A}, {'with' if out_proj else 'without'} W_O"
            cases.append((place, ratio, form(T, D, A, out_proj)))
    return compared(cases)


def what_combining_adds(form: Callable[[int, int], float]) -> Finding:
    """form(T, D) against the FLOPs of W_O as a part of all others."""

    def share(T: int, D: int) -> float:
        parts = flops(T, D)
        return parts["output"] / (sum(parts.values()) - parts["output"])

    sizes = ((1, 1), (7, 2), (2, 7), (64, 1024), (1024, 64))
    return compared((f"T={T}, D={D}", share(T, D), form(T, D)) for T, D in sizes)


def named_sizes() -> Finding:
    """3 D / 2 T against what is counted for models that one meets."""
    finding = compared((name, projections_to_core(T, D), 1.5 * D / T) for name, (T, D) in NAMED.items())
    shown = "; ".join(f"{name} (T={T}, D={D}): {projections_to_core(T, D):.3g}" for name, (T, D) in NAMED.items())
    return Finding(finding.measured, finding.tolerance, f"projections as a multiple of the core: {shown}")


def _named_sizes() -> Table:
    return Table(
        title="Is D much smaller than T?",
        about="Where the last column is above one, the projections take more than the products over all pairs.",
        columns=["model", "T", "D", "projections / core"],
        rows=[[name, T, D, projections_to_core(T, D)] for name, (T, D) in NAMED.items()],
    )


CLAIMS: tuple[Statement, ...] = (
    Claim(
        id="000-11",
        topic="attention",
        where="I.2(b)",
        says="Where D is larger than T, attention could take O(T D^2) instead.",
        verdict="holds under assumptions",
        precise=(
            "The projections are 6 T D^2 FLOPs, or 8 T D^2 with W_O, the core 4 T^2 D. So they count for more up to "
            "T = 3 D / 2, or T = 2 D with W_O, and not up to T = D."
        ),
        formulas=("6*T*D**2", "8*T*D**2", "4*T**2*D"),
        judge=where_the_core_catches_up,
        stated=lambda D, out_proj: D,
        corrected=lambda D, out_proj: 2 * D if out_proj else -(-3 * D // 2),
    ),
    Empirical(
        id="000-12",
        topic="attention",
        where="I.2(b)",
        says="D is much smaller than T in most cases.",
        precise=(
            "It depends on the model and its texts, and a survey of what people run would have to tell. Some models "
            "are in the table; where D is larger than 2 T / 3, the projections take more than the core."
        ),
        formulas=("3*D/(2*T)",),
        picture=_named_sizes,
        command="porism cost attention --at B=1,T=512,A=12,D=64",
        known=named_sizes,
    ),
    Claim(
        id="001-39",
        topic="attention",
        where="2(a)",
        says="As many parameters with several heads as with one: so they cost about the same.",
        verdict="imprecise",
        precise=(
            "Equal numbers of parameters do not make equal cost, which depends on T and A too. Heads with a W_O take "
            "(8 D + 4 T) / (6 D + 4 T) of the products of one head without, at most 4 / 3; they take as much where "
            "both have it or neither."
        ),
        formulas=("(8*D + 4*T)/(6*D + 4*T)",),
        judge=many_to_one,
        stated=lambda T, D, A, out_proj: 1.0,
        corrected=where(
            lambda T, D, A, out_proj: not out_proj,
            lambda T, D, A, out_proj: 1.0,
            lambda T, D, A, out_proj: (8 * D + 4 * T) / (6 * D + 4 * T),
        ),
    ),
    Claim(
        id="001-51",
        topic="attention",
        where="2(b)",
        says="Beside O(T^2 D), the O(T D^2) for combining heads is not too expensive if D is not too large.",
        verdict="imprecise",
        precise=(
            "It is 2 T D^2 on top of 6 T D^2 + 4 T^2 D FLOPs: less than a third for every D, and little where D is "
            "much smaller than T."
        ),
        formulas=("D/(3*D + 2*T)",),
        judge=what_combining_adds,
        stated=lambda T, D: D / (2 * T),
        corrected=lambda T, D: D / (3 * D + 2 * T),
    ),
)
