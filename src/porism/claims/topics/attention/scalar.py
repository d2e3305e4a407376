"""Multi-head attention on numbers that count what is done with them, part by part.

>>> counts(T=3, D=4, A=2, H=2)["scores"].mul              # T^2 A H
36
>>> operations(("scores", "values"))(10**6, 512, 8)       # far beyond what can be run: by the formula of smaller runs
2039999488000000
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Literal

from sympy import lambdify

from porism.claims.checks.count import Maker, Matrix, Tally, product, softmax, transposed
from porism.costing.fitting.interpolate import interpolate
from porism.costing.fitting.samples import Limits
from porism.layers.attention.pattern import FULL, Pattern

Part = Literal["projections", "scores", "scaling", "softmax", "values", "concatenation", "output"]
PARTS: tuple[Part, ...] = ("projections", "scores", "scaling", "softmax", "values", "concatenation", "output")
CORE: tuple[Part, ...] = ("scores", "softmax", "values")
SINGLE: tuple[Part, ...] = ("projections", *CORE)
MULTI: tuple[Part, ...] = (*SINGLE, "concatenation", "output")

Head = tuple[Matrix, Matrix, Matrix]
"""W_Q, W_K and W_V, each (D, H)."""

Count = Callable[[int, int, int], int]
"""How many operations are done at a length, a width and a number of heads."""

LARGEST = 6
"""Sizes up to this one are run, and give the formula for all others."""


@dataclass
class Parts:
    """What a tally grew by in each part."""

    tally: Tally
    found: dict[str, Tally] = field(default_factory=lambda: {part: Tally() for part in PARTS})

    @contextmanager
    def part(self, name: Part) -> Iterator[None]:
        before = asdict(self.tally)
        yield
        for kind, number in asdict(self.tally).items():
            setattr(self.found[name], kind, getattr(self.found[name], kind) + number - before[kind])


def multi_head(x: Matrix, heads: Sequence[Head], W_O: Matrix, parts: Parts, pattern: Pattern = FULL) -> Matrix:
    """concat over heads of softmax(q k^T / sqrt(H)) v, times W_O: x (T, D), W_O (A H, D) -> (T, D)."""
    T = len(x)
    keys = [[place for place, seen in enumerate(row) if seen] for row in pattern.mask(T, T).tolist()]
    answers = []
    for weights in heads:
        with parts.part("projections"):
            q, k, v = (product(x, W) for W in weights)
        with parts.part("scores"):
            scores = [product([q[i]], transposed([k[j] for j in keys[i]]))[0] for i in range(T)]
        with parts.part("scaling"):
            scores = [[score * len(q[0]) ** -0.5 for score in row] for row in scores]
        with parts.part("softmax"):
            shares = [softmax(row) for row in scores]
        with parts.part("values"):
            answers.append([product([shares[i]], [v[j] for j in keys[i]])[0] for i in range(T)])
    with parts.part("concatenation"):
        joined = [[number for answer in answers for number in answer[i]] for i in range(T)]
    with parts.part("output"):
        return product(joined, W_O)


def counts(T: int, D: int, A: int, H: int, pattern: Pattern = FULL) -> dict[str, Tally]:
    """The tally of each part, with heads that are H wide."""
    made = Maker(Tally())
    heads = [(made.matrix(D, H), made.matrix(D, H), made.matrix(D, H)) for _ in range(A)]
    parts = Parts(made.tally)
    multi_head(made.matrix(T, D), heads, made.matrix(A * H, D), parts, pattern)
    return parts.found


def operations(parts: Sequence[Part], heads: Literal["single", "each", "all"] = "all") -> Count:
    """All operations of some parts at any sizes: of a single head of full width, of each of A heads, or of all A.

    A layer with more heads than it is wide has heads of width 1.
    """

    def count(T: int, D: int, A: int) -> int:
        A = 1 if heads == "single" else A
        width = max(1, D // A)
        return sum(_formulas()[part](T, D, 1 if heads == "each" else A, width) for part in parts)

    return count


@cache
def _formulas() -> dict[str, Callable[..., int]]:
    """The operations of each part in T, D, A and H: the polynomial through small runs, confirmed at others."""

    def measure(sizes: Mapping[str, int]) -> dict[str, int]:
        return {
            part: sum(asdict(tally).values())
            for part, tally in counts(sizes["T"], sizes["D"], sizes["A"], sizes["H"]).items()
        }

    fitted = interpolate(measure, list("TDAH"), limits=Limits(largest=dict.fromkeys("TDAH", LARGEST)))
    return {part: lambdify(list("TDAH"), fitted[part].formula) for part in PARTS}
