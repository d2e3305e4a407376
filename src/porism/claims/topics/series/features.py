"""Which features have the series as their inner product: identities of polynomials, symbol by symbol."""

from collections.abc import Callable, Sequence
from itertools import combinations

import torch
from sympy import Expr, Poly, sqrt, symbols
from torch import Tensor

from porism.claims.checks.compare import compared, slope
from porism.claims.claim import Claim, Finding, Statement
from porism.claims.topics.series.truncation import series, t
from porism.layers.attention.taylor import naive, series_error
from porism.layers.attention.taylor.feature_maps import MAPS, feature_map
from porism.runs.exhibits import Lines

Symbols = Sequence[Expr]
Features = Callable[[Symbols], list[Expr]]
Kernel = Callable[[Symbols, Symbols], Expr]

WIDTHS = (1, 2, 3, 4)


def of_order(order: int) -> Kernel:
    """The series of exp(q . k)."""
    return lambda q, k: series(order).subs(t, _dot(q, k))


def diagonal(q: Symbols, k: Symbols) -> Expr:
    """The series of order 2 of every q_i k_i by itself, summed up, with one constant."""
    return 1 + sum(series(2).subs(t, a * b) - 1 for a, b in zip(q, k, strict=True))


def inner_product(kernel: Kernel, map: str, order: int) -> Callable[[Features], Finding]:
    """How many terms set form(q) . form(k) apart from a kernel, and its number of features from the layer's map."""

    def judge(form: Features) -> Finding:
        apart, evidence = 0, f"the same polynomial for D = {WIDTHS[0]} to {WIDTHS[-1]}"
        for D in WIDTHS:
            q, k = _symbols("q", D), _symbols("k", D)
            left_over = _terms(_dot(form(q), form(k)) - kernel(q, k), [*q, *k])
            surplus = abs(len(form(q)) - MAPS[map].size(order, D))
            if not apart and (left_over or surplus):
                evidence = f"D={D}: {len(form(q))} features, and {left_over[0] if left_over else 0} is left over"
            apart += len(left_over) + surplus
        return Finding(apart, 0, evidence)

    return judge


def square(form: Kernel) -> Finding:
    """How many terms set form(x, z) apart from (x . z)^2."""
    apart, evidence = 0, f"the same polynomial for D = {WIDTHS[0]} to {WIDTHS[-1]}"
    for D in WIDTHS:
        x, z = _symbols("x", D), _symbols("z", D)
        left_over = _terms(_dot(x, z) ** 2 - form(x, z), [*x, *z])
        if not apart and left_over:
            evidence = f"D={D}: {left_over[0]} is missing"
        apart += len(left_over)
    return Finding(apart, 0, evidence)


def bound_of_square(form: Callable[[Tensor, Tensor], Tensor]) -> Finding:
    """At how many draws (q . k)^2 is larger than form(q, k), from (n, D) to (n); of all ones it has to be as large."""
    draw = torch.Generator().manual_seed(1)
    draws = {D: torch.randn(2, 5000, D, generator=draw, dtype=torch.float64) for D in (1, 2, 7, 64)}
    ones = {f"q = k, {D} ones": torch.ones(2, 1, D, dtype=torch.float64) for D in (1, 2, 7)}
    cases = ones | {f"Gaussian draws, D={D}": both for D, both in draws.items()}
    wrong, evidence = 0, []
    for where, (q, k) in cases.items():
        true, bound = (q * k).sum(1) ** 2, form(q, k)
        larger = true > bound * (1 + 1e-12)
        if larger.any():
            worst = int((true / bound).argmax())
            share = f"in {float(larger.double().mean()):.0%}, " if len(larger) > 1 else ""
            evidence.append(f"{where}: {share}{true[worst]:.3g} against {bound[worst]:.3g}")
        elif where in ones and not bool((true >= bound * (1 - 1e-12)).all()):
            wrong += 1
            evidence.append(f"{where}: {true[0]:.3g}, and {bound[0]:.3g} is stated, more than there can be")
        wrong += int(larger.sum())
    return Finding(
        wrong, 0, "; ".join(evidence) or f"no larger in {len(cases)} kinds of draws, and as large for all ones"
    )


def order_of_error(form: Callable[[Tensor, Tensor], Tensor]) -> Finding:
    """How fast form(q, k) comes near to exp(q . k) when logits shrink: with their third power, if it is of order 2."""

    def power(weights: Callable[[Tensor, Tensor], Tensor], q: Tensor, k: Tensor) -> float:
        def error(parts: int) -> float:
            return float((weights(q / parts, k) - torch.exp(q / parts @ k.mT)).norm())

        return -slope(error, [500, 1000])

    cases = []
    for D in (1, 7):
        q, k = torch.randn(2, 9, D, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        where = f"D={D}, power of the logits that the error falls with"
        cases.append((where, power(naive.weights, q, k), power(form, q, k)))
    return compared(cases, 0.01)


def with_squares_only(x: Symbols) -> list[Expr]:
    """1, x and x^2 / sqrt 2."""
    return [1, *x, *(a**2 / sqrt(2) for a in x)]


def _symbols(letter: str, D: int) -> list[Expr]:
    return list(symbols(f"{letter}1:{D + 1}"))


def _dot(a: Symbols, b: Symbols) -> Expr:
    return sum(x * y for x, y in zip(a, b, strict=True))


def _terms(polynomial: Expr, letters: Symbols) -> list[Expr]:
    """The terms of a polynomial that are not zero."""
    return [term for term in Poly(polynomial, *letters).as_expr().as_ordered_terms() if term != 0]


def _squares(x: Symbols, z: Symbols) -> Expr:
    return sum((a * b) ** 2 for a, b in zip(x, z, strict=True))


def _pairs(x: Symbols) -> list[Expr]:
    return [a * b for a, b in combinations(x, 2)]


def _by_features(map: str, q: Tensor, k: Tensor) -> Tensor:
    """The weights (T, S) as the layer's map of order 2 gives them."""
    phi = feature_map(map, 2, q.mT)
    return phi(q.mT).mT @ phi(k.mT)


def _errors_of_maps() -> Lines:
    draw = torch.Generator().manual_seed(1)
    q, k, v = torch.randn(3, 1, 4, 256, 16, generator=draw, dtype=torch.float64)
    deviations = [2.0**power for power in range(-4, 2)]
    maps: dict[str, tuple[int, str | None]] = {
        "order 1": (1, None),
        "squares only": (2, "diagonal"),
        "order 2": (2, None),
        "order 4": (4, None),
    }
    return Lines(
        title="How far the answer is from that of softmax",
        about="Random queries and keys of width 16. Squares alone are no better than having no second order at all.",
        x="deviation of the logits",
        y="relative error of the answer",
        lines={
            name: [(r, series_error(q * r, k, v, order=order, feature_map=map, allow_odd=True)) for r in deviations]
            for name, (order, map) in maps.items()
        },
        log_x=True,
        log_y=True,
    )


CLAIMS: tuple[Statement, ...] = (
    Claim(
        id="002-09",
        topic="series",
        where="1.2",
        says="By Cauchy and Schwarz the square of a sum of products is at most the sum of their squares.",
        verdict="wrong",
        precise=(
            "It can be as large as D times that sum, and is for q = k = (1, ..., 1). Cauchy and Schwarz say that "
            "(q . k)^2 is at most the sum of the (q_i k_i)^2 times D, and at most |q|^2 |k|^2."
        ),
        judge=bound_of_square,
        stated=lambda q, k: (q * k).square().sum(1),
        corrected=lambda q, k: torch.minimum(
            q.shape[1] * (q * k).square().sum(1), q.square().sum(1) * k.square().sum(1)
        ),
        right_where=lambda q, k: q.shape[1] == 1,
    ),
    Claim(
        id="002-10",
        topic="series",
        where="1.2",
        says="The sum of squares may stand for the square of the sum in the second order of the series.",
        verdict="wrong",
        precise=(
            "It leaves out the products of different elements, which are of the same size as what is kept. The error "
            "then falls with the square of the logits, as it does without any second order, instead of their cube. "
            "Only for D = 1 is no term left out."
        ),
        picture=_errors_of_maps,
        judge=order_of_error,
        stated=lambda q, k: _by_features("diagonal", q, k),
        corrected=lambda q, k: _by_features("exact", q, k),
        right_where=lambda q, k: q.shape[1] == 1,
    ),
    Claim(
        id="002-11",
        topic="series",
        where="1.2",
        says="There are 2D + 1 features whose inner product is 1, the products q_i k_i, and half their squares.",
        verdict="holds",
        precise="Of this polynomial it is true; the polynomial is not the series.",
        formulas=("1 + 2*D",),
        judge=inner_product(diagonal, "diagonal", 2),
        stated=with_squares_only,
        rival=lambda x: [1, *x, *(a**2 / 2 for a in x)],
    ),
    Claim(
        id="003-11",
        topic="series",
        where="1.2",
        says="The inner product of the features 1 and x is 1 + q . k.",
        verdict="holds",
        judge=inner_product(of_order(1), "exact", 1),
        stated=lambda x: [1, *x],
        rival=lambda x: list(x),
    ),
    Claim(
        id="003-12",
        topic="series",
        where="1.2",
        says="(x . z)^2 is the sum of all x_i^2 z_i^2 and twice the sum of x_i z_i x_j z_j over pairs i < j.",
        verdict="holds",
        judge=square,
        stated=lambda x, z: _squares(x, z) + 2 * _dot(_pairs(x), _pairs(z)),
        rival=lambda x, z: _squares(x, z) + _dot(_pairs(x), _pairs(z)),
    ),
    Claim(
        id="003-13",
        topic="series",
        where="1.2",
        says="The inner product of the features 1, x_i, x_i^2/sqrt 2 and x_i x_j, i < j, is 1 + s + s^2/2, exactly.",
        verdict="holds",
        judge=inner_product(of_order(2), "exact", 2),
        stated=lambda x: [*with_squares_only(x), *_pairs(x)],
        rival=lambda x: [*with_squares_only(x), *(pair / sqrt(2) for pair in _pairs(x))],
    ),
)
