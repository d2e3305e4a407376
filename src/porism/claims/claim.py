"""A statement of a textbook, and what decides it.

>>> def sums_to(form):
...     return compared([("3 + 4", 7, form(3, 4)), ("2 + 2", 4, form(2, 2))])
>>> Claim(
...     id="999-01", topic="graphs", where="1(a)", says="The sum of two numbers is their product.",
...     verdict="wrong", precise="It is a + b.",
...     judge=sums_to, stated=lambda a, b: a * b, corrected=lambda a, b: a + b,
...     right_where=lambda a, b: a == b == 2,
... )
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from porism.claims.kept.result import KeptResult
from porism.errors import ClaimError
from porism.runs.exhibits import AnyExhibit

Verdict = Literal["holds", "holds under assumptions", "imprecise", "wrong", "empirical"]
VERDICTS: tuple[Verdict, ...] = ("holds", "holds under assumptions", "imprecise", "wrong", "empirical")

Form = TypeVar("Form")
"""A statement as code: a formula in symbols, a function, a number. The judge says which it takes."""


@dataclass(frozen=True)
class Finding:
    """How far a form of a statement is from the truth, and what was seen."""

    measured: float
    tolerance: float
    evidence: str
    """For people: what was compared with what, and the numbers."""
    computable: bool = True
    """Not where the form has another shape than what it stands for, or cannot be computed at all."""

    @property
    def agrees(self) -> bool:
        # Written so that a NaN does not.
        return self.computable and self.measured <= self.tolerance


@dataclass(frozen=True, kw_only=True)
class Statement:
    """What a source says, in our own words, with the conditions that it states itself; and what is true of it."""

    id: str
    """The source and the number of the statement in it, such as 000-24; 003-39a is one half of 003-39."""
    topic: str
    where: str
    """The section of the source."""
    says: str
    verdict: Verdict
    precise: str = ""
    """What is right, or what must be assumed; empty where the statement is complete."""
    formulas: tuple[str, ...] = ()
    """Of `precise`, in the letters of the alphabet where they stand for the same, such as `H*(2*H + C)`."""
    picture: Callable[[], AnyExhibit] | None = None
    """A plot, where it says more than words."""


@dataclass(frozen=True, kw_only=True)
class Claim(Statement, Generic[Form]):
    """A statement that a computation decides.

    A judge measures how far a form is from the truth. It is shown two: the statement, and another one.

    - `holds`: the judge agrees with `stated`, and refuses `rival`, a form that one might believe instead.
    - `holds under assumptions`: the judge refuses `stated` where it is shown all cases, and agrees with it in those
      that meet `assumed`, a condition that the source leaves out. It agrees with `corrected` in all cases.
    - `imprecise`, `wrong`: the judge refuses `stated`, and agrees with `corrected`, the right form. `right_where` names
      cases in which the statement is right all the same, such as a width of one: it shows that it is not misquoted.

    `assumed` and `right_where` are shown what the forms are shown.
    """

    judge: Callable[[Form], Finding]
    stated: Form
    rival: Form | None = None
    corrected: Form | None = None
    assumed: Callable[..., bool] | None = None
    right_where: Callable[..., bool] | None = None
    computable: bool = True
    """Not where the statement is refused for its shape: it cannot be computed, or has another size than the truth."""
    published: bool = False
    """Whether the judge goes by published numbers, and by kept runs beside them: nothing was computed for it."""

    def __post_init__(self) -> None:
        expected, other = ("rival", "corrected") if self.verdict == "holds" else ("corrected", "rival")
        if self.verdict == "empirical":
            raise ClaimError(f"claim {self.id}: empirical, and has a judge. Make it an Empirical.")
        if getattr(self, expected) is None or getattr(self, other) is not None:
            raise ClaimError(
                f"claim {self.id}: {self.verdict}, which takes {expected} and no {other}: a check that is shown one "
                "form alone could say yes to everything."
            )
        if self.verdict != "holds" and not self.precise:
            raise ClaimError(f"claim {self.id}: {self.verdict}, and says not what is right. Fill in precise.")
        if (self.assumed is not None) != (self.verdict == "holds under assumptions"):
            raise ClaimError(
                f"claim {self.id}: {self.verdict}, {'with' if self.assumed else 'without'} assumed. A statement that "
                "holds under assumptions has assumed, a function that says of a case whether it meets them; no "
                "other has."
            )
        if self.right_where is not None and self.verdict not in ("imprecise", "wrong"):
            raise ClaimError(f"claim {self.id}: {self.verdict}, with right_where, which is for imprecise and wrong.")

    @property
    def condition(self) -> Callable[..., bool] | None:
        """The cases in which the statement agrees, where it is refused in others."""
        return self.assumed or self.right_where


Way = Literal["kept run", "other data", "not by training"]
"""How an empirical statement can be decided: by runs like the source's, whose results are kept; in its general form, on
data that is at hand; or not by training at all."""


@dataclass(frozen=True)
class Ruling:
    """What kept results say of a statement: True or False, or None where they do not decide it."""

    answer: bool | None
    evidence: str
    """For people: the numbers, their seeds and intervals; where nothing is decided, what is missing."""


@dataclass(frozen=True, kw_only=True)
class Empirical(Statement):
    """A statement about what training or a clock gives. It is open until results that were kept decide it.

    way: how it can be decided.
    reason: why training does not decide it, or what stands in for the source's data.
    kept: the name of the kept result that `rule` reads, one of those of `porism.claims.kept`.
    rule: what the runs of that result say of the statement.
    command: what to run, such as `porism compare images pooling-question --data octmnist.npz`.
    needs: the data it takes, and where that comes from; empty where the embedded data can decide it.
    """

    verdict: Verdict = "empirical"
    way: Way = "kept run"
    reason: str = ""
    kept: str = ""
    rule: Callable[[KeptResult], Ruling] | None = None
    command: str = ""
    needs: str = ""
    known: Callable[[], Finding] | None = None
    """A side fact, which needs no training: a count, a bound. It decides nothing, and must agree."""

    def __post_init__(self) -> None:
        if bool(self.kept) != (self.rule is not None):
            raise ClaimError(
                f"claim {self.id}: kept and rule go together: a result, and what it says of the statement."
            )
        if self.way == "not by training":
            if self.kept or not self.reason:
                raise ClaimError(f"claim {self.id}: not decided by training. Give the reason, and no kept result.")
        elif not self.command:
            raise ClaimError(f"claim {self.id}: {self.way}, and no command. Say what to run.")
