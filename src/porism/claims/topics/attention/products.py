"""Products of matrices, an entry at a time: how many entries there are, and what each of them takes."""

from collections.abc import Callable

from porism.claims.checks.compare import counted_equal, where
from porism.claims.checks.count import Matrix, Noted, product, tallied
from porism.claims.claim import Claim, Finding, Statement
from porism.claims.topics.attention.scalar import counts

SHAPES = ((1, 1, 1), (2, 7, 1), (3, 5, 4), (7, 2, 3))
DOUBLINGS = (1, 2, 3)
"""Squares with a side of 2, 4 and 8."""


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


def by_schoolbook_or_not(form: Callable[[int, int, int, bool], float]) -> Finding:
    """form(m, n, p, schoolbook) against multiplications counted in the schoolbook's product, and in Strassen's."""
    squares = [(2**doublings,) * 3 for doublings in DOUBLINGS]
    return counted_equal(
        [
            *(
                (f"{m} by {n} by {p}", multiplications(product, m, n, p), form(m, n, p, True))
                for m, n, p in (*SHAPES, *squares)
            ),
            *(
                (f"{m} by {n} by {p}, Strassen", multiplications(strassen, m, n, p), form(m, n, p, False))
                for m, n, p in squares
            ),
        ]
    )


def fewest(form: Callable[[int], float]) -> Finding:
    """form(k) against the fewer multiplications of two ways to multiply squares with a side of 2^k."""
    return counted_equal(
        (f"side {2**k}", min(multiplications(way, 2**k, 2**k, 2**k) for way in (product, strassen)), form(k))
        for k in DOUBLINGS
    )


def entries(form: Callable[[int, int, int], float]) -> Finding:
    """form(m, n, p) against the number of entries in a product of (m, n) and (n, p)."""

    def made(m: int, n: int, p: int) -> int:
        sizes: list[int] = []
        tallied(lambda made: sizes.extend(len(row) for row in product(made.matrix(m, n), made.matrix(n, p))))
        return sum(sizes)

    return counted_equal((f"{m} by {n} by {p}", made(m, n, p), form(m, n, p)) for m, n, p in SHAPES)


def in_an_entry(part: str) -> Callable[[Callable[[int, int], tuple[int, int]]], Finding]:
    """form(T, D) -> (mul, add) of an entry against those in all of Q K^T, or of the weights times V."""

    def judge(form: Callable[[int, int], tuple[int, int]]) -> Finding:
        cases: list[tuple[str, int, int]] = []
        for T, D in ((1, 1), (2, 7), (7, 2), (5, 3)):
            tally = counts(T, D, 1, D)[part]
            in_all = T * T if part == "scores" else T * D
            mul, add = form(T, D)
            cases += [(f"T={T}, D={D}, multiplications of {in_all} entries", tally.mul, in_all * mul)]
            cases += [(f"T={T}, D={D}, additions of {in_all} entries", tally.add, in_all * add)]
        return counted_equal(cases)

    return judge


def _cubic(m: int, n: int, p: int, schoolbook: bool) -> float:
    return m * n * p


def _seven_for_each_halving(m: int, n: int, p: int, schoolbook: bool) -> float:
    return float(7 ** (n.bit_length() - 1))


def _product_of_sides(number: str, place: str, says: str) -> Claim[Callable[[int, int, int, bool], float]]:
    return Claim(
        id=number,
        topic="attention",
        where=place,
        says=says,
        verdict="holds under assumptions",
        precise=(
            "By the schoolbook: m n p multiplications and m p (n - 1) additions. Strassen's way takes 7^k "
            "multiplications for squares with a side of 2^k, where the schoolbook takes 8^k."
        ),
        formulas=("m*n*p", "m*p*(n - 1)"),
        judge=by_schoolbook_or_not,
        stated=_cubic,
        corrected=where(lambda m, n, p, schoolbook: schoolbook, _cubic, _seven_for_each_halving),
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
            "a side of 2^k, an exponent of log2 7 = 2.807."
        ),
        formulas=("7**k",),
        judge=fewest,
        stated=lambda k: 7**k,
        rival=lambda k: 8**k,
    ),
    Claim(
        id="002-01",
        topic="attention",
        where="1.1",
        says="Each entry of Q K^T takes D additions.",
        verdict="imprecise",
        precise="It takes D multiplications and D - 1 additions.",
        judge=in_an_entry("scores"),
        stated=lambda T, D: (D, D),
        corrected=lambda T, D: (D, D - 1),
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
        stated=lambda T, D: (T, T),
        corrected=lambda T, D: (T, T - 1),
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
    ),
)
