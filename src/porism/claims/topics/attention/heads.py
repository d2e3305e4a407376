"""What several heads take: each of them, all of them, and what joins them."""

from collections.abc import Callable, Sequence
from functools import reduce

import torch

from porism.claims.checks.compare import answered, counted_equal, where
from porism.claims.checks.count import Matrix, product, tallied
from porism.claims.claim import Claim, Empirical, Finding, Statement
from porism.claims.topics.attention.orders import HEADS, MORE_HEADS_THAN_WIDTH, grows_like
from porism.claims.topics.attention.products import plus
from porism.claims.topics.attention.scalar import MULTI, SINGLE, counts, operations

OfSizes = Callable[[int, int, int], tuple[float, ...]]

SIZES = ((1, 2, 1), (3, 4, 2), (2, 6, 3), (5, 4, 4), (7, 6, 2))
"""T, D and A of scalar runs."""


def _cases(names: tuple[str, ...], count: OfSizes, form: OfSizes) -> Finding:
    """Several counts at once, at all sizes."""
    return counted_equal(
        (f"T={T}, D={D}, A={A}, {name}", int(true), given)
        for T, D, A in SIZES
        for name, true, given in zip(names, count(T, D, A), form(T, D, A), strict=True)
    )


def joining(form: OfSizes) -> Finding:
    """form(T, D, A) -> (operations, numbers copied) against a scalar run, and the memory that torch fills."""

    def count(T: int, D: int, A: int) -> tuple[int, int]:
        arithmetic = operations(["concatenation"])(T, D, A)
        joined = torch.cat([torch.ones(T, D // A) for _ in range(A)], dim=-1)
        return arithmetic, joined.untyped_storage().nbytes() // joined.itemsize

    return _cases(("operations", "copies"), count, form)


def more_with_heads(form: OfSizes) -> Finding:
    """form(T, D, A) -> (mul, add, exp, div) that A heads take more than a single one, against scalar runs."""

    def count(T: int, D: int, A: int) -> tuple[int, ...]:
        many, single = counts(T, D, A, D // A), counts(T, D, 1, D)
        return tuple(
            sum(getattr(many[part], kind) - getattr(single[part], kind) for part in SINGLE)
            for kind in ("mul", "add", "exp", "div")
        )

    return _cases(("multiplications", "additions", "exponentials", "divisions"), count, form)


def summed_over_heads(form: OfSizes) -> Finding:
    """form(T, D, A) -> (multiplications, exponentials) of all heads against a scalar run."""

    def count(T: int, D: int, A: int) -> tuple[int, int]:
        tallies = counts(T, D, A, D // A)
        return sum(tallies[part].mul for part in SINGLE if part != "softmax"), tallies["softmax"].exp

    return _cases(("multiplications", "exponentials"), count, form)


def softmax_absorbed(form: Callable[[int, int], bool]) -> Finding:
    """form(D, A) against whether the exponentials of A heads are no more than the multiplications of T^2 D."""

    def absorbed(D: int, A: int, T: int = 3) -> bool:
        # Heads of width 1 where there are more of them than there is width.
        return counts(T, D, A, max(1, D // A))["softmax"].exp <= counts(T, D, 1, D)["scores"].mul

    sizes = ((1, 1), (4, 1), (4, 2), (6, 6), (2, 4), (3, 9))
    return answered((f"Is T^2 A at most T^2 D at D={D}, A={A}?", absorbed(D, A), form(D, A)) for D, A in sizes)


def side_by_side(answers: Sequence[Matrix], W_O: Matrix) -> Matrix:
    """The heads' answers, each (T, H), as one matrix (T, A H) times W_O (A H, D)."""
    return product([[number for row in rows for number in row] for rows in zip(*answers, strict=True)], W_O)


def block_by_block(answers: Sequence[Matrix], W_O: Matrix) -> Matrix:
    """The same as a sum: each head's answer (T, H) times its own rows of W_O."""
    H = len(answers[0][0])
    return reduce(plus, (product(answer, W_O[head * H : (head + 1) * H]) for head, answer in enumerate(answers)))


def combining(form: OfSizes) -> Finding:
    """form(T, D, A) -> (mul, add) against scalar runs of both ways to combine heads."""

    def run(way: Callable[[Sequence[Matrix], Matrix], Matrix], T: int, D: int, A: int) -> tuple[int, int]:
        tally = tallied(lambda made: way([made.matrix(T, D // A) for _ in range(A)], made.matrix(D, D)))
        return tally.mul, tally.add

    def count(T: int, D: int, A: int) -> tuple[int, ...]:
        return *run(side_by_side, T, D, A), *run(block_by_block, T, D, A)

    names = ("multiplications", "additions", "multiplications in blocks", "additions in blocks")
    return _cases(names, count, lambda *sizes: form(*sizes) * 2)


def origin_of_the_square(form: OfSizes) -> Finding:
    """form(T, D, A) -> multiplications in (concatenation, W_O, a single head's projections) against scalar runs."""

    def count(T: int, D: int, A: int) -> tuple[int, ...]:
        many, single = counts(T, D, A, D // A), counts(T, D, 1, D)
        return many["concatenation"].mul, many["output"].mul, single["projections"].mul

    return _cases(("concatenation", "W_O", "a single head's projections"), count, form)


def _quadratic_in_length(T: int, D: int, A: int) -> float:
    return T * T * D


def _without_softmax(T: int, D: int, A: int) -> float:
    return T * T * D + T * D * D


CLAIMS: tuple[Statement, ...] = (
    Claim(
        id="000-13",
        topic="attention",
        where="I.2(b), algorithm 2",
        says=(
            "Each of A heads takes O(T D D / A) for each of three projections, O(T^2 D / A) for the scores, O(T^2) for "
            "the softmax and O(T^2 D / A) for the values."
        ),
        verdict="holds",
        formulas=("3*T*D**2/A", "T**2*D/A", "T**2"),
        judge=grows_like(
            {part: operations([part], "each") for part in ("projections", "scores", "softmax", "values")}, HEADS
        ),
        stated=lambda T, D, A: (T * D * D / A, T * T * D / A, T * T, T * T * D / A),
        rival=lambda T, D, A: (T * D * D / A, T * T * D / A, T * T / A, T * T * D / A),
    ),
    Claim(
        id="000-15",
        topic="attention",
        where="I.2(b), algorithm 2",
        says="To put A heads side by side takes O(A).",
        verdict="imprecise",
        precise=(
            "It takes no arithmetic, and T D numbers are copied, or none where heads are written into one place from "
            "the start. O(A) counts pointers."
        ),
        formulas=("T*D",),
        judge=joining,
        stated=lambda T, D, A: (0, A),
        corrected=lambda T, D, A: (0, T * D),
    ),
    Claim(
        id="000-16",
        topic="attention",
        where="I.2(b)",
        says="With several heads attention takes O(T^2 D) in all.",
        verdict="holds under assumptions",
        precise=(
            "D is at most of T's order. In general it is T^2 D + T D^2; the softmax adds T^2 A, which is no more than "
            "T^2 D, since heads are at least one wide."
        ),
        formulas=("T**2*D + T*D**2 + T**2*A",),
        judge=grows_like({"all heads": operations(SINGLE)}, HEADS),
        stated=_quadratic_in_length,
        corrected=where(lambda T, D, A: D <= T, _quadratic_in_length, lambda T, D, A: T * D * D),
    ),
    Claim(
        id="000-17",
        topic="attention",
        where="I.2(b)",
        says="Each head takes O(T^2 D / A).",
        verdict="imprecise",
        precise=(
            "It takes T^2 D / A + T^2 + T D^2 / A: with as many heads as the layer is wide, the softmax is as much "
            "work as the products; and the projections count for most where D is larger than T."
        ),
        formulas=("T**2*D/A + T**2 + T*D**2/A",),
        judge=grows_like({"one head": operations(SINGLE, "each")}, HEADS),
        stated=lambda T, D, A: T * T * D / A,
        corrected=lambda T, D, A: T * T * D / A + T * T + T * D * D / A,
    ),
    Empirical(
        id="000-18",
        topic="attention",
        where="I.2(b)",
        says="In practice several heads take longer than a single one.",
        precise=(
            "A clock on a quiet machine decides: A=16,D=16 beside A=1,D=256. Counted without W_O, A heads have as many "
            "multiplications, (A - 1) T additions fewer, and (A - 1) T^2 more of exponentials and of divisions."
        ),
        formulas=("(A - 1)*T", "(A - 1)*T**2"),
        command="porism cost attention --measure --at B=1,T=1024,A=16,D=16",
        known=lambda: more_with_heads(lambda T, D, A: (0, -(A - 1) * T, (A - 1) * T**2, (A - 1) * T**2)),
    ),
    Claim(
        id="000-19",
        topic="attention",
        where="I.2(b)",
        says="With A heads all other steps get smaller and so faster; only the softmax is not reduced.",
        verdict="imprecise",
        precise=(
            "They get smaller in each head. Over all heads there are as many multiplications as in a single one, and A "
            "times as many exponentials."
        ),
        formulas=("3*T*D**2 + 2*T**2*D", "T**2*A"),
        judge=summed_over_heads,
        stated=lambda T, D, A: ((3 * T * D**2 + 2 * T**2 * D) / A, T**2 * A),
        corrected=lambda T, D, A: (3 * T * D**2 + 2 * T**2 * D, T**2 * A),
    ),
    Claim(
        id="000-20",
        topic="attention",
        where="I.2(b)",
        says="The softmax's T^2 A does not show in the total since D is larger than A.",
        verdict="holds under assumptions",
        precise="D as large as A is enough, and heads that divide the width are never more.",
        judge=softmax_absorbed,
        stated=lambda D, A: D > A,
        corrected=lambda D, A: D >= A,
    ),
    Claim(
        id="001-44",
        topic="attention",
        where="2(b)",
        says="The weights times V take O(T^2 D / A) in each head and O(T^2 D) over all.",
        verdict="holds",
        formulas=("T**2*D/A", "T**2*D"),
        judge=grows_like(
            {"one head": operations(["values"], "each"), "all heads": operations(["values"])},
            HEADS,
        ),
        stated=lambda T, D, A: (T * T * D / A, T * T * D),
        rival=lambda T, D, A: (T * T * D / A, T * T * D * A),
    ),
    Claim(
        id="001-45",
        topic="attention",
        where="2(b)",
        says="To combine the heads takes a product of (T, D / A) and (D / A, D): O(T D^2 / A).",
        verdict="wrong",
        precise=(
            "That is what one head adds. All of them, side by side times W_O or each times its own rows of W_O and "
            "summed, take T D^2 multiplications and T D (D - 1) additions."
        ),
        formulas=("T*D**2", "T*D*(D - 1)"),
        judge=combining,
        stated=lambda T, D, A: (T * D * D // A, T * D * (D // A - 1)),
        corrected=lambda T, D, A: (T * D**2, T * D * (D - 1)),
    ),
    Claim(
        id="001-46",
        topic="attention",
        where="2(b)",
        says="O(T D^2 / A), for combining the heads, is O(T D^2) since A is a constant.",
        verdict="wrong",
        precise="It is T D^2 for every A, a constant or not: A heads add T D^2 / A each.",
        formulas=("T*D**2",),
        judge=grows_like({"W_O": operations(["output"])}, HEADS),
        stated=lambda T, D, A: T * D * D / A,
        corrected=lambda T, D, A: T * D * D,
    ),
    Claim(
        id="001-47",
        topic="attention",
        where="2(b)",
        says="Over A heads the softmax takes O(T^2 A).",
        verdict="holds",
        precise="T^2 A exponentials, T (T - 1) A additions and T^2 A divisions.",
        formulas=("T**2*A", "T*(T - 1)*A"),
        judge=grows_like({"the softmax": operations(["softmax"])}, HEADS),
        stated=lambda T, D, A: T * T * A,
        rival=lambda T, D, A: T * T,
    ),
    Claim(
        id="001-48",
        topic="attention",
        where="2(b)",
        says="With several heads attention takes O(T^2 D + T D^2 + T^2 A) in all.",
        verdict="holds",
        precise="T D^2 stands for W_O in the source, and covers the projections that it leaves out.",
        formulas=("T**2*D + T*D**2 + T**2*A",),
        judge=grows_like({"all heads": operations(MULTI)}, HEADS),
        stated=lambda T, D, A: T * T * D + T * D * D + T * T * A,
        rival=lambda T, D, A: T * T * D + T * T * A,
    ),
    Claim(
        id="001-49",
        topic="attention",
        where="2(b)",
        says="Since D is much larger than A, this is O(T^2 D + T D^2).",
        verdict="holds under assumptions",
        precise=(
            "A is no larger than D, which is enough. More heads than width, one wide each, would bring T^2 A and "
            "T D A forward."
        ),
        formulas=("T**2*D + T*D**2",),
        judge=grows_like({"all heads": operations(MULTI)}, MORE_HEADS_THAN_WIDTH),
        stated=_without_softmax,
        corrected=where(lambda T, D, A: A <= D, _without_softmax, lambda T, D, A: T * T * A + T * D * A),
    ),
    Claim(
        id="001-50",
        topic="attention",
        where="2(b)",
        says="Putting heads side by side adds a term of O(T D^2) that a single head does not have.",
        verdict="wrong",
        precise=(
            "Putting them side by side takes no arithmetic; the term is W_O's. And a single head has a term of that "
            "order too, its projections', so that no order is added."
        ),
        formulas=("T*D**2", "3*T*D**2"),
        judge=origin_of_the_square,
        stated=lambda T, D, A: (T * D**2, 0, 0),
        corrected=lambda T, D, A: (0, T * D**2, 3 * T * D**2),
    ),
)
