"""A pair's gradient from a few words that were drawn: whether it is right on average, and what it costs."""

import math
from collections.abc import Callable
from functools import cache
from itertools import combinations
from itertools import product as ways
from typing import NamedTuple

import torch
from torch import Tensor

from porism.claims.checks.compare import compared, counted_equal
from porism.claims.checks.count import Maker, Matrix, Vector, product, sum_of, tallied, transposed
from porism.claims.claim import Claim, Finding, Statement
from porism.claims.topics.words.pair import by_autograd, random_pair
from porism.layers.skipgram.estimators import estimate
from porism.layers.skipgram.gradient import sampled_gradient
from porism.layers.skipgram.noise import Noise
from porism.runs.exhibits import Lines
from porism.tasks.words.exhibits.estimators import enumerated, first_order_bias

V, D, m = 5, 5, 3
UNBIASED = 1e-12
"""Relative error that is rounding's."""


class Drawing(NamedTuple):
    """A way to draw words: all sets that can come, each with the same chance; and whether the exact yhat is at hand."""

    sets: list[tuple[int, ...]]
    knows_chances: bool = True

    @property
    def may_be_empty(self) -> bool:
        return () in self.sets


_SUBSETS = [subset for size in range(1, V + 1) for subset in combinations(range(V), size)]
DRAWINGS = {
    f"{m} words, put back": Drawing(list(ways(range(V), repeat=m))),
    f"{m} words, not put back": Drawing(list(combinations(range(V), m))),
    "any words, but some": Drawing(_SUBSETS),
    "any words or none, which count as zero": Drawing([(), *_SUBSETS]),
    f"{m} words, put back, which have to tell yhat too": Drawing(list(ways(range(V), repeat=m)), knows_chances=False),
}


def estimates(drawing: Drawing) -> Tensor:
    """dl/dv_i from each set, by the layer's own estimators, (sets, D)."""
    pair = random_pair(V, D)
    # Drawn alike, and weighed by their own sum, words estimate u_j - mu as the source does, with sampled probabilities.
    name = "uniform" if drawing.knows_chances else "self-normalised"
    v, U, j, q = pair.v[None], pair.U.T.contiguous(), torch.tensor([pair.j]), Noise.uniform(V).probabilities

    def of(drawn: tuple[int, ...]) -> Tensor:
        k = torch.tensor([drawn], dtype=torch.long)
        return -sampled_gradient(estimate(name, v, U, j, k, q), v, U, j, k).v[0] if drawn else torch.zeros_like(v[0])

    return torch.stack([of(drawn) for drawn in drawing.sets])


@cache
def relative_bias(where: str) -> float:
    """Of one of DRAWINGS, over all its sets."""
    exact = by_autograd(V, D).words[:, random_pair(V, D).i]
    return float((estimates(DRAWINGS[where]).mean(0) - exact).norm() / exact.norm())


def unbiased_drawings(form: Callable[[Drawing], bool]) -> Finding:
    """form(drawing) against whether the mean over all sets is the gradient. Measured: drawings stated wrongly."""
    wrong = [where for where, drawing in DRAWINGS.items() if form(drawing) != (relative_bias(where) <= UNBIASED)]
    evidence = "; ".join(f"{where}: bias {relative_bias(where):.1e} of the gradient" for where in wrong or DRAWINGS)
    return Finding(len(wrong), 0, evidence)


class SampledStep(NamedTuple):
    """What is stated of a step with m sampled words.

    multiplications(V, D, m, knows_z): whether the sum Z over all words is known before, or has to be summed.
    bias(v, U, q, m): of dl/dv where Z is taken from the sample as well, to first order in 1 / m.
    """

    multiplications: Callable[[int, int, int, bool], int]
    bias: Callable[[Tensor, Tensor, Tensor, int], Tensor]


def scalar_estimate(made: Maker, v: Vector, U: Matrix, m: int, knows_z: bool) -> Vector:
    """-dl/dv from the first m of the contexts U (D by V), of which the first was seen, number by number."""
    V = len(U[0])
    needed = [column[:m] for column in U] if knows_z else U
    powers = [score.exp() for score in product([v], needed)[0]]
    Z = made.number() if knows_z else sum_of(powers)
    c = [(power / Z - float(k == 0)) * (V / m) for k, power in enumerate(powers[:m])]
    return product([c], transposed(U)[:m])[0]


def cost_and_bias(form: SampledStep) -> Finding:
    """A step's multiplications, counted one by one; where those are right, the bias with a sampled Z."""

    def counted(V: int, D: int, m: int, knows_z: bool) -> int:
        return tallied(lambda made: scalar_estimate(made, made.vector(D), made.matrix(D, V), m, knows_z)).mul

    sizes = [(V, D, m, knows_z) for V in (7, 63) for D, m in ((3, 2), (5, 1)) for knows_z in (True, False)]
    counts = counted_equal(
        (
            f"V={V}, D={D}, m={m}, Z {'known' if knows_z else 'summed'}",
            counted(V, D, m, knows_z),
            form.multiplications(V, D, m, knows_z),
        )
        for V, D, m, knows_z in sizes
    )
    return _first_order(form) if counts.agrees else counts


def _first_order(form: SampledStep) -> Finding:
    """m times the bias, for ever larger m: from m and 2 m, so that what falls like 1 / m drops out."""
    v, U, q, j = few_words()

    def scaled(m: int) -> Tensor:
        return m * enumerated("self-normalised", v, U, j, q, m).bias

    limit = 2 * scaled(64) - scaled(32)
    return compared([("m times the bias, m to infinity", limit, 64 * form.bias(v, U, q, 64))], tolerance=1e-3)


def few_words() -> tuple[Tensor, Tensor, Tensor, int]:
    """v, U, q and j: three words, so that all ways to draw even hundreds of samples can be gone through."""
    pair = random_pair(3, 2)
    return pair.v, pair.U.T.contiguous(), torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64), pair.j


def zipf(V: int) -> tuple[Tensor, Tensor]:
    """v and U (V, 2), vectors of length one whose probabilities fall like 1 / k."""
    length = math.log(V)
    cosine = -torch.arange(1, V + 1, dtype=torch.float64).log() / length
    return torch.tensor([length, 0.0], dtype=torch.float64), torch.stack([cosine, (1 - cosine**2).sqrt()], 1)


def _variance_over_words() -> Lines:
    lines: dict[str, list[tuple[float, float]]] = {"all of y - yhat from the sample": [], "u_j kept": []}
    for V in (10, 30, 100, 300, 1000, 3000, 10_000):
        v, U = zipf(V)
        for line, name in zip(lines.values(), ("uniform", "importance"), strict=True):
            line.append((float(V), enumerated(name, v, U, V // 2, Noise.uniform(V).probabilities, 1).variance))
    return Lines(
        title="How far a gradient from one word strays",
        about="Words are drawn alike, yhat_k falls like 1 / k. One draw in V hits the context, and counts V times.",
        x="words V",
        y="variance",
        lines=lines,
        log_x=True,
        log_y=True,
    )


def _bias_over_samples() -> Lines:
    v, U, q, j = few_words()
    samples = [1, 2, 4, 8, 16, 32, 64]
    lines = {
        name: [(float(m), float(enumerated(name, v, U, j, q, m).bias.norm())) for m in samples]
        for name in ("self-normalised", "sampled-softmax")
    }
    lines["to first order"] = [(float(m), float(first_order_bias(v, U, q, m).norm())) for m in samples]
    return Lines(
        title="The bias of a softmax over a sample",
        about="Of dl/dv, with Z estimated from m words as well, over all ways to draw them: it falls like 1 / m.",
        x="samples m",
        y="length of the bias",
        lines=lines,
        log_x=True,
        log_y=True,
    )


CLAIMS: tuple[Statement, ...] = (
    Claim(
        id="004-23",
        topic="words",
        where="3b",
        says="The mean over a few words drawn alike estimates the gradient without bias.",
        verdict="holds under assumptions",
        precise=(
            "The exact yhat is known, and some word is drawn, whether words are put back or not. The variance of m "
            "words put back is (V sum_k (y_k - yhat_k)^2 |u_k|^2 - |U (y - yhat)|^2) / m, times (V - m) / (V - 1) "
            "where they are not. It grows with V, since the context is seldom drawn; keeping u_j and estimating the "
            "rest takes most of it away."
        ),
        picture=_variance_over_words,
        judge=unbiased_drawings,
        stated=lambda drawing: True,
        corrected=lambda drawing: drawing.knows_chances and not drawing.may_be_empty,
        assumed=lambda drawing: drawing.knows_chances and not drawing.may_be_empty,
    ),
    Claim(
        id="004-24",
        topic="words",
        where="3b",
        says="With a fixed number of words in the sample a step takes constant time.",
        verdict="wrong",
        precise=(
            "Only where the sum Z over all words is known, and with it yhat, as the source takes it: 2 m D + m "
            "multiplications, whatever V. But it changes with every step, and summing it takes O(V D). With Z from "
            "the sample too, the estimate has a bias that falls like 1 / m, by q the probabilities to be drawn: "
            "(1/m) sum_k yhat_k^2 / q_k (u_k - U yhat) to first order; and log Z is underestimated on average."
        ),
        formulas=("V*D + m*(D + 1)",),
        picture=_bias_over_samples,
        judge=cost_and_bias,
        stated=SampledStep(lambda V, D, m, knows_z: 2 * m * D + m, lambda v, U, q, m: torch.zeros_like(v)),
        corrected=SampledStep(
            lambda V, D, m, knows_z: (m if knows_z else V) * D + m * (D + 1),
            first_order_bias,
        ),
        # The cost where Z is known, which is the last that is said of a case.
        right_where=lambda *case: case[-1] is True,
    ),
)
