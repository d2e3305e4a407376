"""The series of the exponential, cut off: how far it is from the exponential, and whether it stays above zero."""

from collections.abc import Callable
from functools import cache
from itertools import product
from math import exp, factorial, sqrt

import sympy
import torch
from sympy import Expr, Poly, Rational, Symbol
from sympy.calculus.util import minimum
from torch import Tensor

from porism.claims.checks.compare import ABOUT, compared
from porism.claims.claim import Claim, Finding, Statement
from porism.layers.attention.softmax.naive import softmax_attention
from porism.layers.attention.taylor import naive, series_error
from porism.layers.attention.taylor.feature_maps import exponential
from porism.runs.exhibits import Lines

LIMIT = 1e-3
"""A logit so small that the error is what its bound is, but for a thousandth: there a bound that is too wide shows."""
WIDE = 50
"""No bound of the error allows so many times as much, for logits that are not near zero."""
SMALL = 0.01
"""Logits that are bounded by so little, for spans of weights."""

t = Symbol("t", real=True)

Weight = tuple[str, int]
"""A weight as a function of the logits: ("exp", 0), ("series", its order), ("diagonal", the width D)."""

SERIES: tuple[Weight, ...] = tuple(("series", K) for K in range(1, 8))
WEIGHTS: tuple[Weight, ...] = (("exp", 0), *SERIES, *(("diagonal", D) for D in (1, 2, 3, 7)))


@cache
def series(order: int) -> Expr:
    """The exponential of t as SymPy develops it, cut off after an order.

    >>> series(2)
    t**2/2 + t + 1
    """
    return sympy.exp(t).series(t, 0, order + 1).removeO()


def coefficients(form: Callable[[int], Expr]) -> Finding:
    """form(n) against the n-th coefficient of the exponential, its n-th slope at zero over n!; and sums at some t."""
    slopes = ((f"n={n}", sympy.exp(t).diff(t, n).subs(t, 0) / sympy.factorial(n), form(n)) for n in range(12))
    found = compared(slopes)
    sums = ((at, sum(float(form(n)) * at**n for n in range(60))) for at in (-3.0, 0.5, 5.0))
    in_all = compared((f"the sum at t={at:g}", exp(at), total) for at, total in sums)
    return in_all if found.agrees else found


def second_order_error(form: Callable[[float], float]) -> Finding:
    """At how many logits the error of order 2 is larger than form(s) allows; and whether it comes near at +-LIMIT."""
    logits = [step / 40 for step in range(-200, 201)]
    s = torch.tensor([*logits, -LIMIT, LIMIT], dtype=torch.float64)
    error, allowed = (exponential(s, 2) - s.exp()).abs(), torch.tensor([form(float(one)) for one in s]).double()
    # Near zero the error is a difference of numbers near one, and known to no more than their rounding.
    beyond = error > allowed + 1e-15
    if beyond.any():
        worst = int(torch.where(beyond, error / allowed, 0).argmax())
        evidence = f"s={s[worst]:.3g}: the error is {error[worst]:.3g}, up to {allowed[worst]:.3g} stated"
        return Finding(int(beyond.sum()), 0, f"{evidence}; larger at {int(beyond.sum())} of {len(s)} logits")
    far = s.abs() >= 0.4
    if bool((allowed[far] > WIDE * error[far]).any()):
        worst = int(torch.where(far, allowed / error, 0).argmax())
        return Finding(1, 0, f"s={s[worst]:.3g}: the error is {error[worst]:.4g}, and {allowed[worst]:.4g} is allowed")
    if float((error / allowed)[-2:].min()) < 0.995:
        return Finding(
            1, 0, f"s={LIMIT}: the error is {error[-1]:.4g}, and {allowed[-1]:.4g} stated: far more than that"
        )
    return Finding(0, 0, f"no larger at {len(s)} logits from -5 to 5, and as large near zero")


def weights_beside_softmax(form: Callable[[float, int], tuple[float, float]]) -> Finding:
    """How far a weight over that of softmax gets out of the span that form(R, K) gives for logits up to R.

    Spans are given where the series is not off by as much as its own size. Of small logits one must come near its end.
    """
    worst, evidence = 0.0, "every weight lies within its span, and the span of small logits is filled"
    for R, K in ((SMALL, 2), *product((0.25, 1.0), (2, 3, 4, 6)), (3.0, 10)):
        ratios = torch.cat([_weights_over_softmax(keys, K).flatten() for keys in _keys(R)])
        least, most, (low, high) = float(ratios.min()), float(ratios.max()), form(R, K)
        outside = max(low - least, most - high)
        # Written so that an infinite span is not filled.
        if R == SMALL and not (most - 1) >= 0.95 * (high - 1):
            outside = high - most
        if not outside <= max(worst, 1e-12):
            worst = outside
            evidence = f"logits up to {R}, K={K}: {least:.4g} to {most:.4g} is true, {low:.4g} to {high:.4g} stated"
    return Finding(worst, 1e-12, evidence)


def _keys(R: float) -> list[Tensor]:
    """Keys whose logits fill [-R, R], and keys that bring a weight and the sum it is divided by off to both sides."""
    one_low = torch.full((41,), R, dtype=torch.float64)
    one_low[0] = -R
    return [torch.linspace(-R, R, 41, dtype=torch.float64), one_low, -one_low]


def _weights_over_softmax(keys: Tensor, order: int) -> Tensor:
    q, k = torch.linspace(-1, 1, 7, dtype=torch.float64)[None, None, :, None], keys[None, None, :, None]
    # Where the values are the rows of the identity, an answer is its weights.
    v = torch.eye(len(keys), dtype=torch.float64)[None, None]
    seen = torch.ones(7, len(keys), dtype=torch.bool)
    return naive.taylor_attention(q, k, v, order=order, scale=1.0) / softmax_attention(q, k, v, seen, scale=1.0)


def error_of_gaussian_logits(form: Callable[[float], float]) -> Finding:
    """form(deviation) against the error of order 2 that the layer measures of itself, to a hundredth.

    Keys are even quantiles of a Gaussian instead of draws: they do not depend on a seed, but their tails end as those
    of draws do, which is where the hundredth comes from.
    """
    k = torch.special.ndtri((torch.arange(100_000, dtype=torch.float64) + 0.5) / 100_000)[None, None, :, None]
    found = {
        deviation: series_error(torch.full((1, 1, 1, 1), deviation, dtype=torch.float64), k, scale=1.0)
        for deviation in (0.125, 0.25, 0.5, 1.0)
    }
    cases = [(f"logits deviate by {deviation}", error, form(deviation)) for deviation, error in found.items()]
    return compared(cases, tolerance=0.01)


def sums_that_vanish(weights: tuple[Weight, ...]) -> Callable[[Callable[[str, int], bool]], Finding]:
    """Whether form(weight, size) knows of each weight that it can be zero or less, so that sums of it can vanish."""

    def judge(form: Callable[[str, int], bool]) -> Finding:
        wrong = [weight for weight in weights if can_vanish(*weight) != form(*weight)]
        if not wrong:
            return Finding(0, 0, f"known of {len(weights)} weights")
        (kind, size), can = wrong[0], "can" if can_vanish(*wrong[0]) else "cannot"
        names = {"exp": "exp", "series": f"the series of order {size}", "diagonal": f"the diagonal map, D={size}"}
        return Finding(len(wrong), 0, f"{names[kind]} {can} be zero, the opposite is stated")

    return judge


@cache
def can_vanish(weight: str, size: int) -> bool:
    """Whether there are logits for which a weight is zero or less."""
    match weight:
        case "exp":
            return not sympy.exp(t).is_positive
        case "series":
            return bool(Poly(series(size), t).count_roots() > 0)
        case _:
            # Every one of the D elements brings t + t^2 / 2 by itself.
            return bool(1 + size * minimum(series(2) - 1, t) <= 0)


def _third_order_bound(s: float) -> float:
    return abs(s) ** 3 * max(1, exp(s)) / 6


def _span(R: float, K: int) -> tuple[float, float]:
    # eps bounds |P_K(s) e^-s - 1|; both a weight and the sum it is divided by are off by no more
    eps = R ** (K + 1) * exp(R) / factorial(K + 1)
    return (1 - eps) / (1 + eps), (1 + eps) / (1 - eps)


def _gaussian_error(deviation: float) -> float:
    # a = e^(s - v/2) and b = P_2(s) / (1 + v/2), v the variance of s; error^2 = E(a - b)^2 / E a^2
    v = deviation**2
    ab = (1 + 3 / 2 * v + v**2 / 2) / (1 + v / 2)
    bb = (1 + 2 * v + 3 / 4 * v**2) / (1 + v / 2) ** 2
    return sqrt(1 - (2 * ab - bb) / exp(v))


def _truncated() -> Lines:
    s = torch.linspace(-5, 5, 80, dtype=torch.float64)
    errors = {f"order {K}": (exponential(s, K) / s.exp() - 1).abs().tolist() for K in (1, 2, 4, 6)}
    return Lines(
        title="The series beside the exponential",
        about="Relative error of the series. It is worst for low logits, where the exponential is small.",
        x="logit",
        y="relative error",
        lines={name: list(zip(s.tolist(), error, strict=True)) for name, error in errors.items()},
        log_y=True,
    )


CLAIMS: tuple[Statement, ...] = (
    Claim(
        id="002-08",
        topic="series",
        where="1.2",
        says="The exponential is about 1 + s + s^2/2.",
        verdict="holds under assumptions",
        precise=(
            "Near zero: the error is at most |s|^3 max(1, e^s)/6. For low logits it is not even near, since the "
            "polynomial turns up again where the exponential dies away."
        ),
        formulas=("Abs(s)**3*max(1, exp(s))/6",),
        picture=_truncated,
        judge=second_order_error,
        stated=lambda s: ABOUT * exp(s),
        corrected=_third_order_bound,
        assumed=lambda s: LIMIT < abs(s) <= 0.5,
    ),
    Claim(
        id="002-14",
        topic="series",
        where="1.3",
        says="Attention with the features' inner products for weights, divided by their sums, is close to softmax's.",
        verdict="holds under assumptions",
        precise=(
            "Logits are bounded. With none beyond R and eps = R^(K+1) e^R/(K+1)! below one, every weight is between "
            "(1 - eps)/(1 + eps) and (1 + eps)/(1 - eps) times that of softmax."
        ),
        formulas=("R**(K + 1)*exp(R)/factorial(K + 1)", "(1 - eps)/(1 + eps)", "(1 + eps)/(1 - eps)"),
        judge=weights_beside_softmax,
        stated=lambda R, K: (1 - ABOUT, 1 + ABOUT),
        corrected=_span,
        assumed=lambda R, K: SMALL < R <= 0.25,
    ),
    Claim(
        id="002-16",
        topic="series",
        where="1.3",
        says="One has to assume of the sums of exponentials that none of them is zero.",
        verdict="imprecise",
        precise=(
            "Exponentials need no assumption, they are positive. It is what replaces them that needs it: a "
            "series of odd order has a root, and the map of 2D + 1 features can reach zero from D = 2 on. A series of "
            "even order is positive everywhere."
        ),
        judge=sums_that_vanish(WEIGHTS),
        stated=lambda weight, size: weight == "exp",
        corrected=lambda weight, size: (weight == "series" and size % 2 == 1) or (weight == "diagonal" and size >= 2),
        right_where=lambda weight, size: weight == "series" and size % 2 == 0,
    ),
    Claim(
        id="003-10",
        topic="series",
        where="1.2",
        says="The exponential of t is the sum of t^n/n! over all n.",
        verdict="holds",
        formulas=("t**n/factorial(n)",),
        judge=coefficients,
        stated=lambda n: Rational(1, factorial(n)),
        # As for the logarithm.
        rival=lambda n: Rational(1, max(n, 1)),
    ),
    Claim(
        id="003-14",
        topic="series",
        where="1.2",
        says="So the inner product of features stands for exp(q . k), and can be used in a softmax.",
        verdict="holds under assumptions",
        precise=(
            "While logits are small. Where they deviate by r, like a Gaussian, the square of the error of the weights "
            "is given below: a hundredth of their size for r = 1/4, more than a third for r = 1. It grows like r^3."
        ),
        formulas=("1 - exp(-r**2)*((2 + 3*r**2 + r**4)/(1 + r**2/2) - (1 + 2*r**2 + 3*r**4/4)/(1 + r**2/2)**2)",),
        judge=error_of_gaussian_logits,
        # As good for any logits as for small ones.
        stated=lambda deviation: _gaussian_error(1 / 8),
        corrected=_gaussian_error,
        assumed=lambda deviation: deviation <= 1 / 8,
    ),
    Claim(
        id="003-24",
        topic="series",
        where="1.3",
        says="The diagonal of the sums of weights is near that of the exponentials, and is inverted cell by cell.",
        verdict="holds under assumptions",
        precise="No cell is zero, which an even order sees to. An odd order has a root, where there is no inverse.",
        judge=sums_that_vanish(SERIES),
        stated=lambda weight, size: False,
        corrected=lambda weight, size: size % 2 == 1,
        assumed=lambda weight, size: size % 2 == 0,
    ),
    Claim(
        id="003-25",
        topic="series",
        where="1.3",
        says="Softmax of Q K^T is about Diag(v)^-1 Phi(Q) Phi(K)^T, and the answer is about that times V.",
        verdict="holds under assumptions",
        precise=(
            "For bounded logits: up to R, with eps = R^(K+1) e^R/(K+1)! below one, a weight is off by a factor of at "
            "most (1 + eps)/(1 - eps). Beyond that there are logits for which weights are far off, or negative."
        ),
        formulas=("R**(K + 1)*exp(R)/factorial(K + 1)", "(1 + eps)/(1 - eps)"),
        judge=weights_beside_softmax,
        stated=lambda R, K: (1 - ABOUT, 1 + ABOUT),
        corrected=_span,
        assumed=lambda R, K: SMALL < R <= 0.25,
    ),
)
