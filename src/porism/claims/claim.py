"""A statement of a textbook, and what decides it.

>>> def sums_to(form):
...     return compared([("3 + 4", 7, form(3, 4))])
>>> Claim(
...     id="999-01", topic="graphs", where="1(a)", says="The sum of two numbers is their product.",
...     verdict="wrong", precise="It is a + b.",
...     judge=sums_to, stated=lambda a, b: a * b, corrected=lambda a, b: a + b,
... )
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

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

    @property
    def agrees(self) -> bool:
        # Written so that a NaN does not.
        return self.measured <= self.tolerance


@dataclass(frozen=True, kw_only=True)
class Statement:
    """What a source says, in our own words, and what is true of it."""

    id: str
    """The source and the number of the statement in it, such as 000-24."""
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
    - all others: the judge refuses `stated` as it stands, and agrees with `corrected`: the right form, or the statement
      with what it has to assume.
    """

    judge: Callable[[Form], Finding]
    stated: Form
    rival: Form | None = None
    corrected: Form | None = None

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


@dataclass(frozen=True, kw_only=True)
class Empirical(Statement):
    """A statement about what training gives. Experiments answer it, with intervals over seeds.

    command: what to run, such as `porism compare images pooling-question --data octmnist.npz`.
    needs: the data it takes, and where that comes from; empty where the embedded data can decide it.
    """

    verdict: Verdict = "empirical"
    command: str
    needs: str = ""
    known: Callable[[], Finding] | None = None
    """What can be computed without training: a count, a bound. It must agree."""
