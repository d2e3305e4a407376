"""What several heads take: each of them, all of them, and what joins them."""

from collections.abc import Callable, Sequence
from functools import reduce

import torch

from porism.claims.checks.compare import answered, counted_equal
from porism.claims.checks.count import Matrix, product, tallied
from porism.claims.claim import Claim, Empirical, Finding, Statement
from porism.claims.kept.experiments import EXPERIMENTS
from porism.claims.kept.timing import longer_with_heads
from porism.claims.topics.attention.orders import HEADS, LONG_HEADS, WIDE_HEADS, grows_like
from porism.claims.topics.attention.products import plus
from porism.claims.topics.attention.scalar import MULTI, SINGLE, counts, operations

OfSizes = Callable[[int, int, int], tuple[float, ...]]

SIZES = ((1, 2, 1), (1, 3, 3), (3, 4, 2), (2, 6, 3), (5, 4, 4), (7, 6, 2))
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


def in_a_head_and_over_all(form: Callable[[int, int, int, int], tuple[float, float]]) -> Finding:
    """form(T, D, A, heads) -> (multiplications, exponentials) of one head of A, or of all A, against scalar runs."""
    cases: list[tuple[str, int, float]] = []
    for T, D, A in SIZES:
        for heads in sorted({1, A}):
            tallies = counts(T, D, heads, D // A)
            multiplied = sum(tallies[part].mul for part in SINGLE if part != "softmax")
            stated, where = form(T, D, A, heads), f"T={T}, D={D}, {heads} of {A} heads"
            cases += [(f"{where}, multiplications", multiplied, stated[0])]
            cases += [(f"{where}, exponentials", tallies["softmax"].exp, stated[1])]
    return counted_equal(cases)


def softmax_absorbed(form: Callable[[int, int], bool]) -> Finding:
    """form(D, A) against whether the exponentials of A heads are no more than the multiplications of T^2 D.

    Where D and A are the same the statement says nothing.
    """

    def absorbed(D: int, A: int, T: int = 3) -> bool:
        # Heads of width 1 where there are more of them than there is width.
        return counts(T, D, A, max(1, D // A))["softmax"].exp <= counts(T, D, 1, D)["scores"].mul

    sizes = ((4, 1), (4, 2), (7, 6), (2, 4), (3, 9), (1, 2))
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


JOINING = "all that joins heads"


def origin_of_the_square(form: Callable[[int, int, int, str], float]) -> Finding:
    """form(T, D, A, part) against the multiplications in parts of scalar runs."""
    cases = []
    for T, D, A in SIZES:
        many, single = counts(T, D, A, D // A), counts(T, D, 1, D)
        parts = {
            "concatenation": many["concatenation"].mul,
            "W_O": many["output"].mul,
            JOINING: many["concatenation"].mul + many["output"].mul,
            "a single head's projections": single["projections"].mul,
        }
        cases += [(f"T={T}, D={D}, A={A}, {part}", true, form(T, D, A, part)) for part, true in parts.items()]
    return counted_equal(cases)


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
        right_where=lambda T, D, A: T * D == A,
    ),
    Claim(
        id="000-16",
        topic="attention",
        where="I.2(b)",
        says="Where D is much smaller than T, attention with several heads takes O(T^2 D) in all.",
        verdict="holds",
        precise=(
            "In general it is T^2 D + T D^2; the softmax adds T^2 A, which is no more than T^2 D, since heads are at "
            "least one wide."
        ),
        formulas=("T**2*D + T*D**2 + T**2*A",),
        judge=grows_like({"all heads": operations(SINGLE)}, LONG_HEADS),
        stated=lambda T, D, A: T * T * D,
        rival=lambda T, D, A: T * D * D,
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
        right_where=lambda T, D, A: (D, A) == (8, 2),
    ),
    Empirical(
        id="000-18",
        topic="attention",
        where="I.2(b)",
        says="In practice several heads take longer than a single one.",
        precise=(
            "Counted without W_O, A heads have as many multiplications, (A - 1) T additions fewer, and (A - 1) T^2 "
            "more of exponentials and of divisions. A clock on a quiet machine decides."
        ),
        formulas=("(A - 1)*T", "(A - 1)*T**2"),
        command=EXPERIMENTS["heads-timing"].command,
        kept="heads-timing",
        rule=longer_with_heads,
        known=lambda: more_with_heads(lambda T, D, A: (0, -(A - 1) * T, (A - 1) * T**2, (A - 1) * T**2)),
    ),
    Claim(
        id="000-19",
        topic="attention",
        where="I.2(b)",
        says="With A heads all other steps get smaller and so faster; only the softmax is not reduced.",
        verdict="imprecise",
        precise=(
            "They get smaller in each head, where the softmax takes T^2 exponentials as before. Over all heads there "
            "are as many multiplications as in a single one, and A times as many exponentials."
        ),
        formulas=("3*T*D**2 + 2*T**2*D", "T**2*A"),
        judge=in_a_head_and_over_all,
        stated=lambda T, D, A, heads: ((3 * T * D**2 + 2 * T**2 * D) / A, T**2),
        corrected=lambda T, D, A, heads: ((3 * T * D**2 + 2 * T**2 * D) / A * heads, T**2 * heads),
        right_where=lambda T, D, A, heads: heads == 1,
    ),
    Claim(
        id="000-20",
        topic="attention",
        where="I.2(b)",
        says="The softmax's T^2 A does not show in the total since D is larger than A.",
        verdict="holds",
        precise="D as large as A is enough, and heads that divide the width are never more.",
        judge=softmax_absorbed,
        stated=lambda D, A: D > A,
        # Without the condition.
        rival=lambda D, A: True,
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
        rival=lambda T, D, A: (T * T * D / A, T * T * D / A),
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
        right_where=lambda T, D, A: A == 1,
    ),
    Claim(
        id="001-46",
        topic="attention",
        where="2(b)",
        says="O(T D^2 / A), for combining the heads, is O(T D^2) since A is a constant.",
        verdict="imprecise",
        precise=(
            "T D^2 is right, and T D^2 / A is of that order while A is fixed. But it takes no constant A, which two "
            "lines on is a variable: A heads add T D^2 / A each, T D^2 together, however many they are."
        ),
        formulas=("T*D**2",),
        judge=grows_like({"W_O": operations(["output"])}, HEADS),
        stated=lambda T, D, A: T * D * D / A,
        corrected=lambda T, D, A: T * D * D,
        right_where=lambda T, D, A: A == 2,
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
        says="Where D is much larger than A, attention with several heads takes O(T^2 D + T D^2).",
        verdict="holds",
        precise=(
            "A no larger than D is enough. More heads than width, one wide each, would bring T^2 A and T D A forward."
        ),
        formulas=("T**2*D + T*D**2",),
        judge=grows_like({"all heads": operations(MULTI)}, WIDE_HEADS),
        stated=lambda T, D, A: T * T * D + T * D * D,
        rival=lambda T, D, A: T * T * D,
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
        stated=lambda T, D, A, part: T * D**2 if part in ("concatenation", JOINING) else 0,
        corrected=lambda T, D, A, part: {"concatenation": 0, "a single head's projections": 3}.get(part, 1) * T * D**2,
        right_where=lambda T, D, A, part: part == JOINING,
    ),
)
