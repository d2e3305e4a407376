"""How many features the series needs: the rank of its matrix, monomials, and tuples one by one."""

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from itertools import combinations, combinations_with_replacement, pairwise, product
from math import comb, factorial, prod

import torch
from sympy import Poly, symbols
from torch import Tensor

from porism.claims.checks.compare import counted_equal
from porism.claims.claim import Claim, Finding, Statement
from porism.layers.attention.taylor import naive
from porism.layers.attention.taylor.feature_maps import MAPS

OfSizes = Callable[[int, int], int]
Indices = tuple[int, ...]

POINTS = 40
"""More than features in any case below, so that the rank is that of the kernel and not of the points."""

SIZES = tuple(product((1, 2, 3, 4), (1, 2, 3)))
"""Widths D and orders K."""


def weights_of_points(D: int, order: int) -> Tensor:
    """The series of x_i . x_j for random points of width D, as the layer's oracle has it."""
    x = torch.randn(POINTS, D, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return naive.weights(x, x, order)


@cache
def fewest_features(D: int, order: int) -> int:
    """The rank of the matrix of the series over many points: with fewer features no inner product gives it."""
    return _rank(weights_of_points(D, order))


def features_of_order(form: OfSizes) -> Finding:
    """form(D, K) against the fewest features that give the series of order K, and, for large K, the layer's map."""
    small = [(f"D={D}, K={K}", fewest_features(D, K), form(D, K)) for D, K in ((1, 0), (3, 0), *SIZES)]
    large = [(f"D={D}, K={K}", MAPS["exact"].size(K, D), form(D, K)) for D in (2, 7, 11) for K in (4, 7, 11)]
    return counted_equal(small + large)


def features_of_terms(form: OfSizes) -> Finding:
    """form(D, n) against the fewest features that give the first n terms of the series."""
    return counted_equal((f"D={D}, {K + 1} terms", fewest_features(D, K), form(D, K + 1)) for D, K in SIZES)


def features_of_order_and_terms(form: Callable[[int, int, str], int]) -> Finding:
    """form(D, K, meaning) against the fewest features for the order K, and for the first K terms."""
    of_order = [(f"D={D}, order {K}", fewest_features(D, K), form(D, K, "order")) for D, K in SIZES]
    of_terms = [(f"D={D}, {K + 1} terms", fewest_features(D, K), form(D, K + 1, "terms")) for D, K in SIZES]
    return counted_equal(of_order + of_terms)


def features_of_second_order(form: Callable[[int], int]) -> Finding:
    """form(D) against the fewest features that give the series of order 2."""
    return counted_equal((f"D={D}", fewest_features(D, 2), form(D)) for D in (1, 2, 3, 4, 7))


def features_by_degree(form: Callable[[int], tuple[int, int, int]]) -> Finding:
    """form(D) against the fewest features for degrees 0 and 1, for degree 2 alone, and for all of them."""
    cases = []
    for D in (1, 2, 3, 4, 7):
        second = _rank(weights_of_points(D, 2) - weights_of_points(D, 1))
        true = (fewest_features(D, 1), second, fewest_features(D, 2))
        names = ("degrees 0 and 1", "degree 2", "all")
        cases += [(f"D={D}, {name}", a, b) for name, a, b in zip(names, true, form(D), strict=True)]
    return counted_equal(cases)


def coefficients_of_power(form: Callable[[Indices], Fraction]) -> Finding:
    """form(exponents) against the coefficient of each monomial of (x_1 + ... + x_D)^K, multiplied out."""
    return counted_equal(
        (f"D={D}, K={K}, exponents {exponents}", int(coefficient), form(exponents))
        for D, K in SIZES
        for exponents, coefficient in power_of_sum(D, K).terms()
    )


def monomials_of_degree(form: OfSizes) -> Finding:
    """form(D, K) against the number of different monomials in (x_1 + ... + x_D)^K, multiplied out."""
    return counted_equal((f"D={D}, K={K}", len(power_of_sum(D, K).terms()), form(D, K)) for D, K in SIZES)


def tuples_listed(form: Callable[[int, int], list[Indices]]) -> Finding:
    """How many k-tuples of sum n form(n, k) leaves out, invents or lists twice."""
    apart, evidence = 0, "every tuple once"
    for n, k in product(range(6), range(1, 5)):
        true, given = tuples(n, k), form(n, k)
        wrong = len(set(true) ^ set(given)) + len(given) - len(set(given))
        if wrong and not apart:
            evidence = f"{k} numbers of sum {n}: {len(true)} tuples, {len(given)} listed"
        apart += wrong
    return Finding(apart, 0, evidence)


def tuples_counted(form: Callable[[int, int], tuple[int, int]]) -> Finding:
    """Both numbers of form(n, k) against that of k-tuples of sum n, listed one by one."""
    return counted_equal(
        (f"{k} numbers of sum {n}", len(tuples(n, k)), given)
        for n, k in product(range(6), range(1, 5))
        for given in form(n, k)
    )


def tuples(n: int, k: int) -> list[Indices]:
    """All k-tuples of whole numbers from 0 on whose sum is n, by trying every one.

    >>> tuples(2, 2)
    [(0, 2), (1, 1), (2, 0)]
    """
    return [found for found in product(range(n + 1), repeat=k) if sum(found) == n]


def power_of_sum(D: int, K: int) -> Poly:
    """(x_1 + ... + x_D)^K, multiplied out."""
    x = symbols(f"x1:{D + 1}")
    return Poly(sum(x), *x) ** K


def _rank(kernel: Tensor) -> int:
    return int(torch.linalg.matrix_rank(kernel, hermitian=True))


def _multinomial(n: int, exponents: Indices) -> Fraction:
    return Fraction(factorial(n), prod(factorial(exponent) for exponent in exponents))


def _between_bars(n: int, k: int) -> list[Indices]:
    # n stars and k - 1 bars in a row: the numbers of stars between one bar and the next
    positions = n + k - 1
    return [
        tuple(after - before - 1 for before, after in pairwise((-1, *bars, positions)))
        for bars in combinations(range(positions), k - 1)
    ]


def _bars_apart(n: int, k: int) -> list[Indices]:
    # The same with the bars in different gaps between the n stars: no two of them side by side.
    return [
        tuple(after - before for before, after in pairwise((0, *bars, n))) for bars in combinations(range(n + 1), k - 1)
    ]


def _multisets(size: int, kinds: int) -> int:
    """How many ways there are to take so many things of these kinds, listed one by one."""
    return sum(1 for _ in combinations_with_replacement(range(kinds), size))


CLAIMS: tuple[Statement, ...] = (
    Claim(
        id="002-12",
        topic="series",
        where="1.2",
        says="The second order of the series takes M = 2D + 1 features.",
        verdict="wrong",
        precise=(
            "It takes 1 + D + D(D + 1)/2 = C(D + 2, 2), and no fewer: that is the rank of the matrix of the series. "
            "With 2D + 1 the products of different elements are lost, and weights can fall to 1 - D/2."
        ),
        formulas=("(D + 1)*(D + 2)/2",),
        judge=features_of_second_order,
        stated=lambda D: 2 * D + 1,
        corrected=lambda D: comb(D + 2, 2),
        right_where=lambda D: D == 1,
    ),
    Claim(
        id="002-13",
        topic="series",
        where="1.2",
        says="In general, for K terms, there are M = (K - 1) D + 1 features.",
        verdict="wrong",
        precise=(
            "K terms take C(D + K - 1, K - 1), an order K takes C(D + K, K). What is stated counts "
            "the powers of single elements alone, which are not the series."
        ),
        formulas=("binomial(D + K - 1, K - 1)",),
        judge=features_of_terms,
        stated=lambda D, terms: (terms - 1) * D + 1,
        corrected=lambda D, terms: comb(D + terms - 1, terms - 1),
        right_where=lambda D, terms: D == 1,
    ),
    Claim(
        id="003-15",
        topic="series",
        where="1.2",
        says="D + 1 features for the constant and x, D(D + 1)/2 for the second degree: M = 1 + D + D(D + 1)/2.",
        verdict="holds",
        precise="It is C(D + 2, 2), and there is no map with fewer.",
        formulas=("1 + D + D*(D + 1)/2",),
        judge=features_by_degree,
        stated=lambda D: (D + 1, D * (D + 1) // 2, 1 + D + D * (D + 1) // 2),
        rival=lambda D: (D + 1, D**2, 1 + D + D**2),
    ),
    Claim(
        id="003-16",
        topic="series",
        where="1.2",
        says="By the multinomial theorem (x_1 + ... + x_D)^K has the coefficients n!/(k_1! ... k_D!).",
        verdict="imprecise",
        precise="It is K!/(k_1! ... k_D!): n is the power. Before, n was the number of elements.",
        formulas=("factorial(K)/prod(factorial(k_i))",),
        judge=coefficients_of_power,
        stated=lambda exponents: _multinomial(len(exponents), exponents),
        corrected=lambda exponents: _multinomial(sum(exponents), exponents),
        right_where=lambda exponents: sum(exponents) == len(exponents),
    ),
    Claim(
        id="003-17",
        topic="series",
        where="1.2",
        says="There are C(K + D - 1, D - 1) terms of degree K.",
        verdict="holds",
        formulas=("binomial(K + D - 1, D - 1)",),
        judge=monomials_of_degree,
        stated=lambda D, K: comb(K + D - 1, D - 1),
        rival=lambda D, K: D**K,
    ),
    Claim(
        id="003-18",
        topic="series",
        where="1.2",
        says=(
            "There are as many k-tuples of sum n as ways to take n things of k kinds, and as ways to take k - 1 things "
            "of n + 1 kinds."
        ),
        verdict="holds",
        judge=tuples_counted,
        stated=lambda n, k: (_multisets(n, k), _multisets(k - 1, n + 1)),
        rival=lambda n, k: (_multisets(k, n), _multisets(n - 1, k + 1) if n else 1),
    ),
    Claim(
        id="003-19",
        topic="series",
        where="1.2",
        says="Every such tuple is a row of stars, cut by bars: the numbers of stars from one bar to the next.",
        verdict="holds",
        precise="Bars may stand side by side, which makes a zero.",
        judge=tuples_listed,
        stated=_between_bars,
        rival=_bars_apart,
    ),
    Claim(
        id="003-20",
        topic="series",
        where="1.2",
        says="The number of terms of degree K is that of k-tuples of sum K.",
        verdict="imprecise",
        precise="Of D-tuples: one exponent for each of the D elements.",
        judge=monomials_of_degree,
        stated=lambda D, K: len(tuples(K, K)),
        corrected=lambda D, K: len(tuples(K, D)),
        right_where=lambda D, K: D == K,
    ),
    Claim(
        id="003-21",
        topic="series",
        where="1.2",
        says="M is the sum of C(K + D - 1, D - 1), over an index that is not given.",
        verdict="imprecise",
        precise="Of C(k + D - 1, D - 1) over k = 0 ... K, which makes C(D + K, K) for a series of order K.",
        formulas=("binomial(D + K, K)",),
        judge=features_of_order,
        # Nothing in it is summed over, so that one term is left.
        stated=lambda D, K: comb(K + D - 1, D - 1),
        corrected=lambda D, K: sum(comb(k + D - 1, D - 1) for k in range(K + 1)),
        right_where=lambda D, K: K == 0,
    ),
    Claim(
        id="003-22",
        topic="series",
        where="1.2",
        says="What is K = 2 for 1 + t + t^2/2 holds in general for K terms from three on.",
        verdict="imprecise",
        precise=(
            "1 + t + t^2/2 has the order 2 and three terms. C(D + K, K) belongs to the order K; K terms take "
            "C(D + K - 1, K - 1), and fewer than three as well."
        ),
        formulas=("binomial(D + K - 1, K - 1)",),
        judge=features_of_order_and_terms,
        stated=lambda D, K, meaning: comb(D + K, K),
        corrected=lambda D, K, meaning: comb(D + K, K) if meaning == "order" else comb(D + K - 1, K - 1),
        right_where=lambda D, K, meaning: meaning == "order",
    ),
)
