"""The formulas on the page are the form that was judged, or what is counted: none is typed in and left alone."""

import inspect
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product as every
from typing import Any

import pytest
import torch
from sympy import lambdify, sympify

from porism.claims.checks.count import product, tallied
from porism.claims.claim import Claim, Statement
from porism.claims.ledger import all_claims
from porism.claims.topics.attention.orders import HEADS, ONE_HEAD, Ways, grows_like
from porism.claims.topics.attention.scalar import CORE, SINGLE, Part, counts, operations
from porism.claims.topics.attention.shares import flops, projections_to_core
from porism.claims.topics.graphs import propagation, star
from porism.claims.topics.images.grid import steepest_from_corner
from porism.claims.topics.recurrent.training import parameters_and_products
from porism.layers import Attention
from porism.layers.attention.pattern import CAUSAL, Pattern
from porism.layers.attention.taylor.feature_maps import MAPS
from porism.tasks.language.recipes import TABLE
from porism.tasks.speech.error_kinds import edit_distances
from porism.tasks.speech.metric import SIMILARITIES

FORMULAS = [(claim, formula) for claim in all_claims().values() for formula in claim.formulas]
ALIASES = {"terms": "K", "depth": "L", "base": "b"}
SIZES = {
    "T": (3, 4),
    "D": (4, 8),
    "A": (2, 4),
    "k": (0, 3),
    "s": (-0.75, 1.5),
    "R": (0.25, 1.0),
    "K": (2, 3),
    "W": (2, 3),
    "a": (5, 7),
    "b": (5, 7),
    "yhat_z": (0.2, 0.5),
}
"""Two values of each letter: heads divide the width, windows are no longer than the text. Others are 2 and 5."""

IN_INDICES = {
    "000-09", "000-14", "000-23", "001-03", "001-04", "001-05", "001-07", "001-14", "001-19", "001-21", "001-22",
    "003-16",
}  # fmt: skip
"""Sums over indices, and elements of matrices: what the form says in torch."""
MADE_OF_FORMS = {"002-19", "003-26", "003-27", "003-29", "003-30", "003-31", "003-33", "003-34"}
"""Their formulas are written from the expressions that are judged, see tests/claims/test_series.py."""
ELSEWHERE = {"002-14", "003-14", "003-25"}
"""Below, and in test_series.py."""


def head(part: Part, kind: str) -> Callable[[int, int], int]:
    """A count of a scalar run with a single head."""
    return lambda T, D: int(getattr(counts(T, D, 1, D)[part], kind))


def parameters(bias: bool) -> Callable[[int], int]:
    return lambda D: sum(p.numel() for p in Attention(D, 1, bias=bias).parameters())


def more_of(kind: str) -> Callable[[int, int], int]:
    """What A heads take more than a single one, without its sign."""

    def count(A: int, T: int) -> int:
        D = 4
        many, single = counts(T, D, A, D // A), counts(T, D, 1, D)
        more: int = abs(sum(getattr(many[part], kind) - getattr(single[part], kind) for part in SINGLE))
        return more

    return count


def share_of_output(D: int, T: int) -> float:
    parts = flops(T, D)
    return parts["output"] / (sum(parts.values()) - parts["output"])


def work_with_output(D: int, T: int) -> float:
    return sum(flops(T, D).values()) / sum(flops(T, D, out_proj=False).values())


def core(T: int, D: int) -> int:
    parts = flops(T, D)
    return parts["scores"] + parts["values"]


def form_of(number: str) -> Any:
    claim = all_claims()[number]
    assert isinstance(claim, Claim)
    return claim.stated if claim.verdict == "holds" else claim.corrected


def of_text(D: int, H: int, V: int) -> int:
    return parameters_and_products(replace(TABLE["table-02"], embedding_dim=D, hidden_size=H), V)[1]


def edit_similarity(a: int, b: int, d: int) -> float:
    """Of texts that have these lengths, and are d edits apart."""
    first, same = "x" * a, max(a, b) - d
    second = "x" * same + "y" * (b - same)
    assert edit_distances().OSA.distance(first, second) == d
    return SIMILARITIES["damerau_levenshtein"](first, second)


def ochiai(a: int, b: int, shared: int) -> float:
    """Of texts that have these lengths and share so many letters."""
    return SIMILARITIES["cosine"]("x" * shared + "y" * (a - shared), "x" * shared + "z" * (b - shared))


def perplexity_of(yhat_z: float) -> float:
    y, yhat = torch.tensor([[0.0, 1.0]]), torch.tensor([[1 - yhat_z, yhat_z]], dtype=torch.float64)
    return float(form_of("000-02")(y, yhat)[1])


def uniform_loss(V: int) -> float:
    return float(torch.nn.functional.cross_entropy(torch.zeros(1, V).double(), torch.tensor([0])))


def loss_of(yhat_z: float) -> float:
    return float(torch.nn.functional.nll_loss(torch.tensor([[yhat_z]]).double().log(), torch.tensor([0])))


TRUE: dict[tuple[str, str], Callable[..., float]] = {
    **{(claim, "4*D**2"): parameters(False) for claim in ("000-05", "000-06", "001-37", "001-38")},
    **{(claim, "4*D**2 + 4*D"): parameters(True) for claim in ("000-05", "000-06", "001-37", "001-38")},
    **{
        (claim, "m*p*(n - 1)"): lambda m, n, p: tallied(lambda made: product(made.matrix(m, n), made.matrix(n, p))).add
        for claim in ("000-07", "003-02")
    },
    ("000-08", "3*T*D**2"): head("projections", "mul"),
    ("000-11", "6*T*D**2"): lambda T, D: flops(T, D, out_proj=False)["projections"],
    ("000-11", "8*T*D**2"): lambda T, D: sum(flops(T, D).values()) - core(T, D),
    ("000-11", "4*T**2*D"): core,
    ("000-12", "3*D/(2*T)"): projections_to_core,
    ("000-13", "3*T*D**2/A"): lambda T, D, A: counts(T, D, 1, D // A)["projections"].mul,
    ("000-18", "(A - 1)*T"): more_of("add"),
    ("000-18", "(A - 1)*T**2"): more_of("exp"),
    ("000-19", "3*T*D**2 + 2*T**2*D"): lambda T, D: sum(counts(T, D, 2, D // 2)[part].mul for part in SINGLE),
    ("000-19", "T**2*A"): lambda T, A: counts(T, 8, A, 8 // A)["softmax"].exp,
    ("000-24", "1/(m + 1) + m/sqrt(2*(m + 1))"): lambda m: float(propagation(star(m), "sym").sum(1)[0]),
    ("000-29", "H**2 + D*H + H*V"): of_text,
    ("001-39", "(8*D + 4*T)/(6*D + 4*T)"): work_with_output,
    ("001-40", "T*D*(T - 1)"): head("values", "add"),
    **{(claim, "T*(T - 1)"): lambda T: counts(T, 4, 1, 4)["softmax"].add for claim in ("001-41", "002-03", "003-06")},
    ("001-47", "T*(T - 1)*A"): lambda T, A: counts(T, 8, A, 8 // A)["softmax"].add,
    ("001-50", "T*D**2"): head("output", "mul"),
    ("001-50", "3*T*D**2"): head("projections", "mul"),
    ("001-51", "D/(3*D + 2*T)"): share_of_output,
    **{(claim, "T**2*(D - 1)"): head("scores", "add") for claim in ("002-02", "003-04")},
    ("002-04", "T**2*D"): head("values", "mul"),
    ("002-04", "T*D*(T - 1)"): head("values", "add"),
    ("002-05", "2*T**2*D"): lambda T, D: sum(counts(T, D, 1, D)[part].mul for part in CORE),
    ("002-05", "2*T**2"): lambda T: counts(T, 4, 1, 4)["softmax"].exp + counts(T, 4, 1, 4)["softmax"].div,
    ("002-11", "1 + 2*D"): lambda D: MAPS["diagonal"].size(2, D),
    ("003-05", "T*D"): lambda T, D: torch.ones(T, D).numel(),
    ("003-07", "T**2*D"): head("scores", "mul"),
    ("003-08", "2*T**2*D + T**2"): lambda T, D: sum(counts(T, D, 1, D)[p].mul for p in ("scaling", *CORE)),
    ("003-08", "2*T**2*D - T*(D + 1)"): lambda T, D: sum(counts(T, D, 1, D)[p].add for p in ("scaling", *CORE)),
    ("003-10", "t**n/factorial(n)"): lambda t, n: float(form_of("003-10")(n)) * t**n,
    ("003-42", "f**T"): lambda f, T: float(torch.full((T,), f, dtype=torch.float64).prod()),
    ("003-45", "log(V)"): uniform_loss,
    ("003-48", "shared/sqrt(a*b)"): ochiai,
    ("003-49", "1 - d/max(a, b)"): edit_similarity,
    ("004-07", "binomial(2*n - 2, n - 1)*(w_left*w_top/16)**(n - 1)"): steepest_from_corner,
    ("004-08", "Y + X - 1"): lambda X, Y: form_of("004-08")("grid", Y, X),
    ("004-10", "T*(T + 1)/2"): lambda T: CAUSAL.num_pairs(T),
    ("004-11", "T*W*D"): lambda T, W, D: Pattern("block", W).num_pairs(W * T) / W * D,
    ("004-11", "T*W - W*(W - 1)/2"): lambda T, W: Pattern("sliding", W).num_pairs(T),
    ("004-11", "T*W"): lambda T, W: Pattern("block", W).num_pairs(W * T) / W,
    ("004-20", "3*V*D"): lambda V, D: form_of("004-20")(V, D, True),
    ("004-24", "V*D + m*(D + 1)"): lambda V, D, m: form_of("004-24").multiplications(V, D, m, False),
    **{(claim, "1/yhat_z"): perplexity_of for claim in ("000-02", "001-28")},
    ("000-03", "-log(yhat_z)"): loss_of,
    **{(claim, "log(PP)"): lambda PP: float(form_of("000-04")(torch.tensor(PP))) for claim in ("000-04", "001-29")},
    ("001-11", "sigma*(1 - sigma)"): lambda sigma: float(form_of("001-11")(torch.tensor(sigma))),
    ("001-30", "b**CE_b"): lambda b, CE_b: math.exp(CE_b * math.log(b)),
}  # fmt: skip
"""What a formula has to be where it is not the form itself, by the letters in it."""

ORDERS: dict[tuple[str, str], tuple[tuple[Part, ...], Ways]] = {
    ("000-10", "T**2*D + T*D**2"): (SINGLE, ONE_HEAD),
    ("000-16", "T**2*D + T*D**2 + T**2*A"): (SINGLE, HEADS),
    ("003-09", "T**2*D"): (CORE, ONE_HEAD),
}
"""The general orders beside statements that have a condition."""


def points(names: list[str]) -> Iterator[dict[str, float]]:
    for values in every(*(SIZES.get(name, (2, 5)) for name in names)):
        yield dict(zip(names, values, strict=True))


def components(value: Any) -> list[float]:
    """The numbers of a form: several of them in a tuple, all in a mapping of sizes together."""
    if isinstance(value, dict):
        return [float(sum(math.prod(size) for size in value.values()))]
    return [float(part) for part in value] if isinstance(value, tuple) else [float(value)]


def is_the_form(claim: Statement, formula: str) -> bool:
    """Whether the formula is the right form, or one part of it, at all sizes."""
    if not isinstance(claim, Claim):
        return False
    form = claim.stated if claim.verdict == "holds" else claim.corrected
    if not inspect.isfunction(form):
        return False
    names = list(inspect.signature(form).parameters)
    letters = [ALIASES.get(name, name) for name in names]
    if not {str(symbol) for symbol in sympify(formula).free_symbols} <= set(letters):
        return False
    value = lambdify(letters, sympify(formula))
    matches: list[list[bool]] = []
    for at in points(letters):
        try:
            given = components(form(*at.values()))
        except (TypeError, KeyError):
            return False
        matches.append([math.isclose(part, float(value(**at)), rel_tol=1e-12) for part in given])
    return any(all(row[place] for row in matches) for place in range(len(matches[0])))


@pytest.mark.parametrize(("claim", "formula"), FORMULAS, ids=[f"{claim.id} {formula}" for claim, formula in FORMULAS])
def test_a_formula_is_the_form_or_what_is_counted(claim: Statement, formula: str) -> None:
    if claim.id in IN_INDICES | MADE_OF_FORMS | ELSEWHERE:
        return
    key = (claim.id, formula)
    if key in ORDERS:
        parts, ways = ORDERS[key]
        heads = "all" if ways is HEADS else "single"
        order = lambdify(["T", "D", "A"], sympify(formula))
        assert grows_like({"counted": operations(parts, heads)}, ways)(order).agrees  # type: ignore[arg-type]
    elif key in TRUE:
        names = list(inspect.signature(TRUE[key]).parameters)
        value = lambdify(names, sympify(formula))
        for at in points(names):
            assert float(value(**at)) == pytest.approx(float(TRUE[key](**at)), rel=1e-6), at
    else:
        assert is_the_form(claim, formula)


@pytest.mark.parametrize("number", ["002-14", "003-25"])
def test_the_span_on_the_page_is_the_one_that_is_judged(number: str) -> None:
    eps, *ends = all_claims()[number].formulas
    for R, K in ((0.25, 2), (1.0, 3)):
        value = float(sympify(eps).subs({"R": R, "K": K}))
        span = [float(sympify(end).subs({"eps": value})) for end in ends]
        assert span == pytest.approx(list(form_of(number)(R, K))[-len(span) :])


def plain(text: str) -> str:
    """Without what texts and formulas write in different ways."""
    return re.sub(r"[ *]", "", text.replace("**", "^"))


IN_WORDS = {
    "000-05": 3, "000-06": 4, "000-07": 2, "000-08": 2, "000-10": 1, "000-11": 3, "000-13": 2, "000-15": 1,
    "000-17": 1, "000-18": 2, "001-11": 1, "001-37": 2, "001-38": 3, "001-39": 1, "001-40": 2, "001-41": 2,
    "001-42": 1, "001-44": 2, "001-45": 2, "001-46": 1, "001-47": 2, "001-48": 1, "001-49": 1, "001-50": 1,
    "001-52": 1, "002-02": 2, "002-03": 2, "002-04": 1, "002-05": 2, "002-06": 1, "002-14": 2, "003-02": 2,
    "003-03": 1, "003-04": 2, "003-05": 2, "003-06": 2, "003-07": 1, "003-08": 1, "003-09": 1, "003-15": 1,
    "003-25": 1, "003-27": 1, "004-01": 1, "004-03": 1, "004-04": 1, "004-09": 1, "004-11": 3, "004-12": 1,
}  # fmt: skip
"""How many formulas of a claim its text has, letter by letter."""


def test_texts_say_the_formulas() -> None:
    """What is right stands in words too: a number in it that is changed there is noticed."""
    found = Counter(claim.id for claim, formula in FORMULAS if plain(formula) in plain(claim.says + claim.precise))
    assert found == IN_WORDS
