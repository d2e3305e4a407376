"""What attention by the series costs: runs on single numbers, every operation counted."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise, product
from math import comb

from sympy import Expr, S, degree

import porism.claims.topics.series.scalar as scalar
from porism.claims.checks.compare import answered, counted_equal
from porism.claims.checks.count import Maker, Matrix, Noted, Tally, tallied
from porism.claims.checks.count import product as matrix_product
from porism.claims.claim import Claim, Finding, Statement
from porism.costing.alphabet import A, B, D, K, M, T
from porism.layers.attention.softmax.cost import core
from porism.layers.attention.taylor.feature_maps import MAPS
from porism.runs.exhibits import Lines

Program = Callable[[Maker, int, int, int], Matrix]
"""A step of the algorithm on fresh numbers of length T, with M features and values of width D."""

Attention = Callable[[Matrix, Matrix, Matrix, int], Matrix]

KEYS_FIRST, FROM_LEFT = "sums over keys first", "from the left"

SIZES = ((1, 1, 1), (2, 3, 1), (3, 2, 5), (7, 6, 2), (4, 10, 3))


@dataclass(frozen=True)
class OperationCount:
    """The operations of a step, and the rows and columns of what it gives."""

    shape: tuple[Expr, Expr]
    mul: Expr = S.Zero
    add: Expr = S.Zero
    div: Expr = S.Zero

    @property
    def formulas(self) -> tuple[str, ...]:
        return tuple(str(count) for count in (self.mul, self.add, self.div) if count != 0)


OF_FEATURES = M - 1 + D * (K - 2)
"""Multiplications for the features of one token: D (K - 1) for x_i / sqrt(m), m = 2 ... K, and one for each of the
M - 1 - D monomials from degree 2 on, made from a shorter one."""

IN_ALL = OperationCount(
    shape=(T, D),
    mul=2 * T * OF_FEATURES + 2 * T * M * D + T * M,
    add=(D + 1) * (2 * T * M - T - M),
    div=T * D,
)
"""Attention by the series, sums over keys first, at order K."""

BREAK_EVEN = M * (1 + 1 / (2 * D)) + OF_FEATURES / D
"""The length from which on that takes fewer multiplications than softmax."""


def work_of(program: Program) -> Callable[[OperationCount], Finding]:
    """A form's shape and counts against those of runs."""

    def judge(form: OperationCount) -> Finding:
        stated = (*form.shape, form.mul, form.add, form.div)
        cases = []
        for sizes in SIZES:
            where, at = "T={}, M={}, D={}".format(*sizes), dict(zip((T, M, D), sizes, strict=True))
            for (what, true), given in zip(_run(program, sizes), stated, strict=True):
                cases.append((f"{where}, {what}", true, given.subs(at)))
        return counted_equal(cases)

    return judge


def features_within_a_multiple(form: Callable[[str, str], bool]) -> Finding:
    """form(way, growth), whether a token's features take O(M) multiplications, against how many times M they are."""
    ways = {"from shorter ones": _from_shorter, "from their factors": _anew}
    growths = {"D grows": ((200, 3), (400, 3)), "K grows": ((2, 200), (2, 400))}
    cases = []
    for (way, count), (growth, sizes) in product(ways.items(), growths.items()):
        before, after = (count(D, K) / MAPS["exact"].size(K, D) for D, K in sizes)
        where = f"{way.capitalize()}, as {growth}, {before:.3g} to {after:.3g} times M: is it O(M)?"
        cases.append((where, after < 1.1 * before, form(way, growth)))
    return answered(cases)


def exponents_of_length(form: Callable[[str], Expr]) -> Finding:
    """The exponents of T in form(way), sums over keys first or from the left, against those of multiplications."""
    ways = {KEYS_FIRST: scalar.attention, FROM_LEFT: scalar.attention_from_the_left}
    return counted_equal(
        (f"{way}, D={D}, K={K}, exponent of T", _exponent_of_length(D, K, attention), int(degree(form(way), T)))
        for way, attention in ways.items()
        for D, K in ((1, 2), (3, 2), (2, 3))
    )


def exponents(form: Expr) -> Finding:
    """The exponents of T, M and D in a form against those of the multiplications that follow the features."""

    def after_features(made: Maker, T: int, M: int, D: int) -> Matrix:
        phi_q, phi_k = made.matrix(T, M), made.matrix(T, M)
        return scalar.divided(
            matrix_product(phi_q, scalar.sums_over_keys(phi_k, made.matrix(T, D))), scalar.totals(phi_q, phi_k)
        )

    def count(letter: str, size: int) -> int:
        T, M, D = ({"T": 2, "M": 2, "D": 2} | {letter: size}).values()
        return tallied(lambda made: after_features(made, T, M, D)).mul

    of_length = [
        (f"K={K}, all of it, exponent of T", _exponent_of_length(2, K), int(degree(form, T))) for K in (1, 2, 3)
    ]
    of_each = []
    for letter in (T, M, D):
        found = exponent(partial(count, str(letter)))
        of_each.append((f"after the features, exponent of {letter}", found, int(degree(form, letter))))
    return counted_equal(of_length + of_each)


def exponent(count: Callable[[int], int]) -> int:
    """The degree of a count that is a polynomial of a size: how often one takes differences until they are 0.

    >>> exponent(lambda n: 3 * n**2 + 5 * n)
    2
    """
    values, steps = [count(size) for size in range(1, 8)], -1
    while any(values):
        values, steps = [after - before for before, after in pairwise(values)], steps + 1
    assert len(values) > 1, "of so high a degree, or of no polynomial, that differences cannot tell"
    return steps


@cache
def in_all(T: int, D: int, K: int, attention: Attention = scalar.attention) -> Tally:
    """Operations of a run of the whole."""
    return tallied(lambda made: attention(made.matrix(T, D), made.matrix(T, D), made.matrix(T, D), K))


def _run(program: Program, sizes: tuple[int, int, int]) -> list[tuple[str, int]]:
    results: list[Matrix] = []
    tally = tallied(lambda made: results.append(program(made, *sizes)))
    shape = [("rows", len(results[0])), ("columns", len(results[0][0]))]
    return [*shape, ("multiplications", tally.mul), ("additions", tally.add), ("divisions", tally.div)]


def _exponent_of_length(D: int, K: int, attention: Attention = scalar.attention) -> int:
    return exponent(lambda T: in_all(T, D, K, attention).mul)


def _inverse_sums(made: Maker, T: int, M: int, D: int) -> Matrix:
    sums = scalar.totals(made.matrix(T, M), made.matrix(T, M))
    return scalar.divided([[Noted(1.0, made.tally)] for _ in sums], sums)


def _anew(D: int, K: int) -> int:
    # A monomial of degree k takes k - 1 products, and there are C(D + k - 1, k) of them.
    return sum((k - 1) * comb(D + k - 1, k) for k in range(2, K + 1)) + D * (K - 1)


def _from_shorter(D: int, K: int) -> int:
    return MAPS["exact"].size(K, D) - 1 - D + D * (K - 1)


def _multiplications() -> Lines:
    lengths = [2**power for power in range(4, 17)]
    softmax = core().total("flops") / 2
    lines = {}
    for width in (16, 64):
        sizes = {D: width, K: 2, M: MAPS["exact"].size(2, width), A: 1, B: 1}
        for name, count in (("softmax", softmax), ("series", IN_ALL.mul)):
            lines[f"{name}, D={width}"] = [(float(n), float(count.subs(sizes | {T: n}))) for n in lengths]
    return Lines(
        title="Multiplications of softmax and of the series",
        about="The slope is the exponent of the length: two for softmax, one for the series of order 2.",
        x="length",
        y="multiplications",
        lines=lines,
        log_x=True,
        log_y=True,
    )


SUMS = OperationCount((T, S.One), mul=T * M, add=M * (T - 1) + T * (M - 1), div=T)
OVER_KEYS = OperationCount((M, D), mul=T * M * D, add=M * D * (T - 1))
READ = OperationCount((T, D), mul=T * M * D, add=T * D * (M - 1))
DENSE = OperationCount((T, D), mul=T**2 * D, add=T * D * (T - 1))
ROW_BY_ROW = OperationCount((T, D), div=T * D)

CLAIMS: tuple[Statement, ...] = (
    Claim(
        id="002-19",
        topic="series",
        where="1.4",
        says="In the worst case attention by the series still takes time quadratic in the length.",
        verdict="wrong",
        precise=(
            "Linear, T M D: the number of features M does not depend on the length. Only from left to right, with "
            "Phi(Q) Phi(K)^T first, is it quadratic. The counts below are multiplications, additions and divisions; "
            "the last line is the length from which on there are fewer multiplications than in softmax."
        ),
        formulas=(*IN_ALL.formulas, str(BREAK_EVEN)),
        picture=_multiplications,
        judge=exponents_of_length,
        stated=lambda way: T**2 * D,
        corrected=lambda way: T * M * D if way == KEYS_FIRST else T**2 * M,
        right_where=lambda way: way == FROM_LEFT,
    ),
    Claim(
        id="003-26",
        topic="series",
        where="1.4",
        says="The features of one token take O(M).",
        verdict="holds under assumptions",
        precise=(
            "The order K is fixed. Where it grows, each monomial has to be made from one that is shorter by a factor; "
            "from its factors alone it takes as many products as its degree less one, and all of them together up to "
            "K - 1 times as many."
        ),
        formulas=(str(OF_FEATURES),),
        judge=features_within_a_multiple,
        stated=lambda way, growth: True,
        corrected=lambda way, growth: way == "from shorter ones" or growth == "D grows",
        assumed=lambda way, growth: growth == "D grows",
    ),
    Claim(
        id="003-27",
        topic="series",
        where="1.4",
        says="The sums of weights take O(T M), as phi(q_i) times the sum of all phi(k_j), and inverting them O(T).",
        verdict="holds",
        formulas=SUMS.formulas,
        judge=work_of(_inverse_sums),
        stated=SUMS,
        # The row sums of Phi(Q) Phi(K)^T.
        rival=OperationCount((T, S.One), mul=T**2 * M, add=T**2 * (M - 1) + T * (T - 1), div=T),
    ),
    Claim(
        id="003-29",
        topic="series",
        where="1.4",
        says="Phi(K)^T V takes O(M T D) and is M by D.",
        verdict="holds",
        formulas=OVER_KEYS.formulas,
        judge=work_of(lambda made, T, M, D: scalar.sums_over_keys(made.matrix(T, M), made.matrix(T, D))),
        stated=OVER_KEYS,
        rival=OperationCount((T, T), mul=T**2 * M, add=T**2 * (M - 1)),
    ),
    Claim(
        id="003-30",
        topic="series",
        where="1.4",
        says="Phi(Q) times a matrix of M by D takes O(T M D).",
        verdict="holds",
        formulas=READ.formulas,
        judge=work_of(lambda made, T, M, D: matrix_product(made.matrix(T, M), made.matrix(M, D))),
        stated=READ,
        rival=DENSE,
    ),
    Claim(
        id="003-31",
        topic="series",
        where="1.4",
        says="A product with Diag(v)^-1 as a full matrix takes O(T^2 D).",
        verdict="holds",
        formulas=DENSE.formulas,
        judge=work_of(lambda made, T, M, D: matrix_product(made.matrix(T, T), made.matrix(T, D))),
        stated=DENSE,
        rival=ROW_BY_ROW,
    ),
    Claim(
        id="003-33",
        topic="series",
        where="1.4",
        says="Dividing row by row takes O(T D).",
        verdict="holds",
        formulas=ROW_BY_ROW.formulas,
        judge=work_of(lambda made, T, M, D: scalar.divided(made.matrix(T, D), made.vector(T))),
        stated=ROW_BY_ROW,
        rival=OperationCount((T, D), div=T),
    ),
    Claim(
        id="003-34",
        topic="series",
        where="1.4",
        says="In all attention by the series takes O(T M D), which is linear in the length.",
        verdict="holds",
        precise=(
            "M does not depend on the length. It does on the width: M is about D^K/K!, so that time grows like "
            "D^(K+1), and there is less to do than for softmax only from a length of about M on, given below."
        ),
        formulas=(str(BREAK_EVEN),),
        judge=exponents,
        stated=T * M * D,
        rival=T**2 * D,
    ),
)
