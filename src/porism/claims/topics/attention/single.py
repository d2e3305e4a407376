"""What a single head takes, line by line and in all."""

from collections.abc import Callable

from porism.claims.checks.compare import answered
from porism.claims.claim import Claim, Empirical, Finding, Statement
from porism.claims.kept.experiments import EXPERIMENTS
from porism.claims.kept.timing import quadratic_in_length
from porism.claims.topics.attention.orders import LONG, ONE_HEAD, Order, grows_like
from porism.claims.topics.attention.scalar import CORE, SINGLE, counts, operations
from porism.runs.exhibits import Lines

PROJECTIONS = operations(["projections"], "single")
SCORES = operations(["scores"], "single")
SOFTMAX = operations(["softmax"], "single")
VALUES = operations(["values"], "single")
WHOLE_HEAD = operations(SINGLE, "single")
SOFTMAX_CORE = operations(CORE, "single")
SCALED_CORE = operations(["scaling", *CORE], "single")

in_the_whole_head = grows_like({"a single head": WHOLE_HEAD}, ONE_HEAD)
in_the_core = grows_like({"scores, softmax and values": SOFTMAX_CORE}, ONE_HEAD)


def softmax_for_at_most_as_much(form: Callable[[int], bool]) -> Finding:
    """form(D), whether T^2 (D + 1) is T^2 D up to a factor of 2, against exponentials and multiplications counted.

    Widths of which the statement says something, and no width at all, where it is not so.
    """

    def within(D: int) -> bool:
        if not D:
            return False  # T^2 exponentials, and nothing to multiply
        tally = counts(3, D, 1, D)
        return tally["softmax"].exp + tally["values"].mul <= 2 * tally["values"].mul

    return answered((f"Is T^2 (D + 1) at most 2 T^2 D at D={D}?", within(D), form(D)) for D in (0, 10, 16, 63))


def _growing_width() -> Lines:
    T = 64
    widths = [4**power for power in range(1, 9)]
    return Lines(
        title=f"A single head over {T} tokens",
        about="The projections come to be almost all of it: the count grows with the square of the width.",
        x="D",
        y="operations",
        lines={
            "counted": [(float(D), float(WHOLE_HEAD(T, D, 1))) for D in widths],
            "T^2 (D + 1)": [(float(D), float(T**2 * (D + 1))) for D in widths],
        },
        log_x=True,
        log_y=True,
    )


def _of_scores(number: str, says: str) -> Claim[Order]:
    return Claim(
        id=number,
        topic="attention",
        where="1.1",
        says=says,
        verdict="holds",
        precise="T^2 D multiplications and T^2 (D - 1) additions.",
        formulas=("T**2*D", "T**2*(D - 1)"),
        judge=grows_like({"Q K^T": SCORES}, ONE_HEAD),
        stated=lambda T, D, A: T * T * D,
        rival=lambda T, D, A: T * D * D,
    )


def _of_softmax(number: str, place: str, says: str) -> Claim[Order]:
    return Claim(
        id=number,
        topic="attention",
        where=place,
        says=says,
        verdict="holds",
        precise="T^2 exponentials, T (T - 1) additions and T^2 divisions.",
        formulas=("T**2", "T*(T - 1)"),
        judge=grows_like({"the softmax": SOFTMAX}, ONE_HEAD),
        stated=lambda T, D, A: T * T,
        # What the values take, if there are as many of them as scores.
        rival=lambda T, D, A: T * D,
    )


CLAIMS: tuple[Statement, ...] = (
    Claim(
        id="000-08",
        topic="attention",
        where="I.2(b), algorithm 1",
        says=(
            "Line by line a single head takes O(T D^2) for each of three projections, O(T^2 D) for Q K^T, O(T^2) for "
            "the softmax and O(T^2 D) for the weights times V."
        ),
        verdict="holds",
        formulas=("3*T*D**2", "T**2*D", "T**2"),
        judge=grows_like({"projections": PROJECTIONS, "Q K^T": SCORES, "softmax": SOFTMAX, "values": VALUES}, ONE_HEAD),
        stated=lambda T, D, A: (T * D * D, T * T * D, T * T, T * T * D),
        rival=lambda T, D, A: (T * D, T * T * D, T * T, T * T * D),
    ),
    Claim(
        id="000-10",
        topic="attention",
        where="I.2(b)",
        says="Where D is much smaller than T, products of matrices count for most in a single head: O(T^2 D).",
        verdict="holds",
        precise="Without that condition it is T^2 D + T D^2.",
        formulas=("T**2*D + T*D**2",),
        judge=grows_like({"a single head": WHOLE_HEAD}, LONG),
        stated=lambda T, D, A: T * T * D,
        rival=lambda T, D, A: T * D * D,
    ),
    Claim(
        id="001-40",
        topic="attention",
        where="2(b)",
        says="The product of (T, T) and (T, D) takes O(T^2 D).",
        verdict="holds",
        precise="T^2 D multiplications and T D (T - 1) additions.",
        formulas=("T**2*D", "T*D*(T - 1)"),
        judge=grows_like({"values": VALUES}, ONE_HEAD),
        stated=lambda T, D, A: T * T * D,
        rival=lambda T, D, A: T * D * D,
    ),
    _of_softmax("001-41", "2(b)", "The softmax of the scores takes O(T^2)."),
    Claim(
        id="001-42",
        topic="attention",
        where="2(b)",
        says="A single head takes O(T^2 D + T^2), which is O(T^2 (D + 1)).",
        verdict="wrong",
        precise=(
            "The projections are missing: it is T^2 D + T D^2. The statement would need D to be at most of T's order, "
            "and does not say so."
        ),
        formulas=("T**2*D + T*D**2",),
        picture=_growing_width,
        judge=in_the_whole_head,
        stated=lambda T, D, A: T * T * (D + 1),
        corrected=lambda T, D, A: T * T * D + T * D * D,
        right_where=lambda T, D, A: D <= T,
    ),
    Claim(
        id="001-43",
        topic="attention",
        where="2(b)",
        says="If D is much larger than one, O(T^2 (D + 1)) is O(T^2 D).",
        verdict="holds",
        precise="It is so for every D from one on, without a condition: T^2 (D + 1) is at most 2 T^2 D.",
        judge=softmax_for_at_most_as_much,
        stated=lambda D: D >= 10,
        rival=lambda D: True,
    ),
    _of_scores("002-02", "The scores Q K^T take O(T^2 D)."),
    _of_softmax("002-03", "1.1", "A softmax over every row of scores takes O(T^2)."),
    Claim(
        id="002-05",
        topic="attention",
        where="1.1",
        says="In all attention takes O(T^2 D + 2 T^2 + T^2 D).",
        verdict="holds",
        precise="Of what follows the projections: 2 T^2 D multiplications, T^2 exponentials and T^2 divisions.",
        formulas=("2*T**2*D", "2*T**2"),
        judge=in_the_core,
        stated=lambda T, D, A: T * T * D + 2 * T * T + T * T * D,
        rival=lambda T, D, A: T * T + T * D,
    ),
    Claim(
        id="002-06",
        topic="attention",
        where="1.1",
        says="When T is much larger than D, attention takes O(T^2).",
        verdict="imprecise",
        precise="D must stay what it is while T grows. That T is much larger leaves T^2 D.",
        formulas=("T**2*D",),
        judge=grows_like({"scores, softmax and values": SOFTMAX_CORE}, LONG),
        stated=lambda T, D, A: T * T,
        corrected=lambda T, D, A: T * T * D,
        right_where=lambda T, D, A: D == 8,
    ),
    Empirical(
        id="002-07a",
        topic="attention",
        where="1.1",
        says="The time of attention grows quadratically with the length.",
        command=EXPERIMENTS["attention-speed"].command,
        kept="attention-speed",
        rule=quadratic_in_length,
        known=lambda: in_the_core(lambda T, D, A: T * T * D),
    ),
    Empirical(
        id="002-07b",
        topic="attention",
        where="1.1",
        says="So it is too costly for long texts.",
        way="not by training",
        reason=(
            "What is too costly is a matter of the machine and of what it is for: time the lengths that matter to you."
        ),
    ),
    _of_scores("003-04", "Q K^T takes O(T^2 D)."),
    Claim(
        id="003-05",
        topic="attention",
        where="1.1",
        says="To divide the scores by sqrt(D) takes O(T^2).",
        verdict="holds",
        precise="T^2 multiplications; T D if the queries are divided instead.",
        formulas=("T**2", "T*D"),
        judge=grows_like({"scaling": operations(["scaling"], "single")}, ONE_HEAD),
        stated=lambda T, D, A: T * T,
        # That of scaling the queries instead.
        rival=lambda T, D, A: T * D,
    ),
    _of_softmax("003-06", "1.1", "The softmax takes O(T^2)."),
    Claim(
        id="003-07",
        topic="attention",
        where="1.1",
        says="The weights P take O(T^2 D + T^2 + T^2), which is O(T^2 D).",
        verdict="holds",
        precise="T^2 D multiplications for the scores, and as many as T^2 for each step after them.",
        formulas=("T**2*D",),
        judge=grows_like({"the weights": operations(["scores", "scaling", "softmax"], "single")}, ONE_HEAD),
        stated=lambda T, D, A: T * T * D + T * T + T * T,
        rival=lambda T, D, A: T * T + T * T,
    ),
    Claim(
        id="003-08",
        topic="attention",
        where="1.1",
        says="P V takes O(T^2 D), and so does all of attention.",
        verdict="holds",
        precise=(
            "Of what follows the projections: 2 T^2 D multiplications, T^2 more for the scale, and "
            "2 T^2 D - T (D + 1) additions."
        ),
        formulas=("2*T**2*D + T**2", "2*T**2*D - T*(D + 1)"),
        judge=grows_like({"P V": VALUES, "attention": SCALED_CORE}, ONE_HEAD),
        stated=lambda T, D, A: (T * T * D, T * T * D),
        rival=lambda T, D, A: (T * T * D, T * T),
    ),
    Claim(
        id="003-09",
        topic="attention",
        where="1.1",
        says="With D fixed attention is quadratic in T: O(T^2).",
        verdict="holds",
        precise="Where D grows, it is a factor: T^2 D.",
        formulas=("T**2*D",),
        judge=grows_like({"scores, scaling, softmax and values": SCALED_CORE}, {"T grows": ONE_HEAD["T grows"]}),
        stated=lambda T, D, A: T * T,
        rival=lambda T, D, A: T,
    ),
)
