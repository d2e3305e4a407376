"""Products of matrices, an entry at a time: how many entries there are, and what each of them takes."""

import math
from collections.abc import Callable

from porism.claims.checks.compare import counted_equal, slope
from porism.claims.checks.count import Matrix, Noted, product, tallied
from porism.claims.claim import Claim, Finding, Statement
from porism.claims.topics.attention.scalar import counts

SHAPES = ((1, 1, 1), (2, 7, 1), (3, 5, 4), (7, 2, 3), (2, 3, 3))


def strassen(a: Matrix, b: Matrix) -> Matrix:
    """The product of squares whose side is a power of 2, with seven products of their quarters instead of eight."""
    if len(a) == 1:
        return [[a[0][0] * b[0][0]]]
    a11, a12, a21, a22 = _quarters(a)
    b11, b12, b21, b22 = _quarters(b)
    p1 = strassen(plus(a11, a22), plus(b11, b22))
    p2 = strassen(plus(a21, a22), b11)
    p3 = strassen(a11, minus(b12, b22))
    p4 = strassen(a22, minus(b21, b11))
    p5 = strassen(plus(a11, a12), b22)
    p6 = strassen(minus(a21, a11), plus(b11, b12))
    p7 = strassen(minus(a12, a22), plus(b21, b22))
    top = zip(plus(minus(plus(p1, p4), p5), p7), plus(p3, p5), strict=True)
    bottom = zip(plus(p2, p4), plus(minus(plus(p1, p3), p2), p6), strict=True)
    return [left + right for left, right in (*top, *bottom)]


def _quarters(a: Matrix) -> tuple[Matrix, Matrix, Matrix, Matrix]:
    half = len(a) // 2
    top, bottom = a[:half], a[half:]
    return (
        [row[:half] for row in top],
        [row[half:] for row in top],
        [row[:half] for row in bottom],
        [row[half:] for row in bottom],
    )


def plus(a: Matrix, b: Matrix) -> Matrix:
    """An addition for each entry."""
    return _entry_by_entry(Noted.__add__, a, b)


def minus(a: Matrix, b: Matrix) -> Matrix:
    """A subtraction for each entry."""
    return _entry_by_entry(Noted.__sub__, a, b)


def _entry_by_entry(operation: Callable[[Noted, Noted], Noted], a: Matrix, b: Matrix) -> Matrix:
    return [[operation(x, y) for x, y in zip(*rows, strict=True)] for rows in zip(a, b, strict=True)]


def multiplications(multiply: Callable[[Matrix, Matrix], Matrix], m: int, n: int, p: int) -> int:
    """How many numbers are multiplied for a product of (m, n) and (n, p)."""
    return tallied(lambda made: multiply(made.matrix(m, n), made.matrix(n, p))).mul


def order_of_product(form: Callable[[int, int, int], float]) -> Finding:
    """form(m, n, p) against how multiplications grow: as fast as the schoolbook's, and no slower than Strassen's.

    measured: the exponent that the form falls short by, or by which it is not tight for the schoolbook.
    """
    ways = {"m grows": (1, 0, 0), "n grows": (0, 1, 0), "p grows": (0, 0, 1), "all grow": (1, 1, 1)}
    small, large = 4, 8
    worst, evidence = 0.0, f"an upper bound along {len(ways)} ways to grow, which the schoolbook reaches"

    def exponent(count: Callable[[int, int, int], float], powers: tuple[int, int, int]) -> float:
        m, n, p = powers
        sizes = {side: count(side**m, side**n, side**p) for side in (small, large)}
        # What is zero or less grows with no power.
        return slope(sizes.__getitem__, (small, large)) if min(sizes.values()) > 0 else math.nan

    for way, powers in ways.items():
        stated = exponent(form, powers)
        schoolbook = exponent(lambda *sizes: multiplications(product, *sizes), powers)
        apart = {"schoolbook": abs(schoolbook - stated)}
        if way == "all grow":
            apart["Strassen"] = exponent(lambda *sizes: multiplications(strassen, *sizes), powers) - stated
        for name, distance in apart.items():
            if not distance <= max(worst, 1e-12):
                worst, evidence = distance, f"{name}, {way}: an exponent of {stated:.3f} stated, {distance:.3f} away"
    return Finding(worst, 1e-12, evidence)


def operations_of_strassen(form: Callable[[int], float]) -> Finding:
    """form(k) against all operations of Strassen's product of squares with a side of 2^k, and its exponent far out."""
    counted = counted_equal(
        (f"side {2**k}, operations", _all_operations(strassen, k), form(k)) for k in (0, 1, 2, 3, 4)
    )
    if not counted.agrees:
        return counted
    exponent = math.log2(form(400) / form(399))
    return Finding(exponent, 3 - 0.1, f"{counted.evidence}; far out the exponent of all operations is {exponent:.3f}")


def _all_operations(multiply: Callable[[Matrix, Matrix], Matrix], k: int) -> int:
    tally = tallied(lambda made: multiply(made.matrix(2**k, 2**k), made.matrix(2**k, 2**k)))
    return tally.mul + tally.add


def entries(form: Callable[[int, int, int], float]) -> Finding:
    """form(m, n, p) against the number of entries in a product of (m, n) and (n, p)."""

    def made(m: int, n: int, p: int) -> int:
        sizes: list[int] = []
        tallied(lambda made: sizes.extend(len(row) for row in product(made.matrix(m, n), made.matrix(n, p))))
        return sum(sizes)

    return counted_equal((f"{m} by {n} by {p}", made(m, n, p), form(m, n, p)) for m, n, p in SHAPES)


def in_an_entry(part: str) -> Callable[[Callable[[int, int, str], int]], Finding]:
    """form(T, D, kind) of an entry against operations of a kind in all of Q K^T, or of the weights times V."""

    def judge(form: Callable[[int, int, str], int]) -> Finding:
        cases: list[tuple[str, int, int]] = []
        for T, D in ((1, 1), (2, 7), (7, 2), (5, 3)):
            tally = counts(T, D, 1, D)[part]
            in_all = T * T if part == "scores" else T * D
            for kind, true in (("multiplications", tally.mul), ("additions", tally.add)):
                cases.append((f"T={T}, D={D}, {kind} of {in_all} entries", true, in_all * form(T, D, kind)))
        return counted_equal(cases)

    return judge


def _product_of_sides(number: str, place: str, says: str) -> Claim[Callable[[int, int, int], float]]:
    return Claim(
        id=number,
        topic="attention",
        where=place,
        says=says,
        verdict="holds",
        precise=(
            "An upper bound. The schoolbook reaches it, with m n p multiplications and m p (n - 1) additions; "
            "Strassen's way takes 7^k multiplications for squares with a side of 2^k, where the schoolbook takes 8^k."
        ),
        formulas=("m*n*p", "m*p*(n - 1)"),
        judge=order_of_product,
        stated=lambda m, n, p: m * n * p,
        # As many as there are entries.
        rival=lambda m, n, p: m * p,
    )


CLAIMS: tuple[Statement, ...] = (
    _product_of_sides("000-07", "I.2(b)", "A product of (m, n) and (n, p) takes O(m n p)."),
    Claim(
        id="001-52",
        topic="attention",
        where="footnote 1",
        says="Matrices can be multiplied in less than cubic time.",
        verdict="holds",
        precise=(
            "By other algorithms, not by better implementations of the same: Strassen's takes 7^k multiplications for "
            "a side of 2^k, and 7^(k+1) - 6 4^k operations in all, an exponent of log2 7 = 2.807. Far out only: it is "
            "from a side of 1,024 on that these are fewer than the schoolbook's 2 8^k - 4^k."
        ),
        formulas=("7**(k + 1) - 6*4**k",),
        judge=operations_of_strassen,
        stated=lambda k: 7 ** (k + 1) - 6 * 4**k,
        rival=lambda k: 2 * 8**k - 4**k,
    ),
    Claim(
        id="002-01",
        topic="attention",
        where="1.1",
        says="Each entry of Q K^T takes D additions.",
        verdict="imprecise",
        precise="It takes D multiplications and D - 1 additions.",
        judge=in_an_entry("scores"),
        stated=lambda T, D, kind: D,
        corrected=lambda T, D, kind: D if kind == "multiplications" else D - 1,
        right_where=lambda T, D, kind: kind == "multiplications",
    ),
    Claim(
        id="002-04",
        topic="attention",
        where="1.1",
        says="Each entry of the weights times V takes T additions, so that all take O(T^2 D).",
        verdict="imprecise",
        precise="It takes T multiplications and T - 1 additions. The order is right.",
        formulas=("T**2*D", "T*D*(T - 1)"),
        judge=in_an_entry("values"),
        stated=lambda T, D, kind: T,
        corrected=lambda T, D, kind: T if kind == "multiplications" else T - 1,
        right_where=lambda T, D, kind: kind == "multiplications",
    ),
    _product_of_sides("003-02", "1.1", "To multiply (m, n) by (n, p) takes O(m n p)."),
    Claim(
        id="003-03",
        topic="attention",
        where="1.1",
        says="The product C of (m, n) and (n, p) has m n entries to compute.",
        verdict="wrong",
        precise="C is (m, p): m p entries, each of which takes O(n).",
        formulas=("m*p",),
        judge=entries,
        stated=lambda m, n, p: m * n,
        corrected=lambda m, n, p: m * p,
        right_where=lambda m, n, p: n == p,
    ),
)
