"""What checks found: one result a check, and a report of all that prints, counts and raises."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from porism.errors import CheckError, RecipeError, some_of

Verdict = Literal["pass", "fail", "skip", "expected"]


@dataclass(frozen=True)
class CheckResult:
    """One check: the error measured beside the one tolerated, or why there is none.

    >>> print(CheckResult("gradient", "pass", measured=3e-13, tolerance=1e-10))
    pass     gradient         3.00e-13 <= 1e-10
    """

    name: str
    verdict: Verdict
    measured: float = 0.0
    tolerance: float = 0.0
    reason: str = ""
    """Why it failed, was skipped or was expected to fail; where it failed, also the sizes that repeat it."""

    def __str__(self) -> str:
        numbers = f"{self.measured:.2e} <= {self.tolerance:.0e}" if self.tolerance else ""
        return f"{self.verdict:8} {self.name:16} {numbers:20} {self.reason}".rstrip()


class Skip(Exception):
    """A check that does not apply: its message is the reason."""


class Failure(Exception):
    """A check that failed otherwise than by a number: its message is the reason."""


Check = Callable[[], tuple[float, float]]
"""Returns the error that it measured and the largest one tolerated, or raises Skip or Failure."""


@dataclass(frozen=True)
class CheckReport:
    """All results, in the order of the checks.

    >>> report = CheckReport("MyRNN", (CheckResult("naive", "pass", 1e-16, 1e-12), CheckResult("cuda_graph", "skip")))
    >>> len(report.passed), report.failed, [result.name for result in report.skipped]
    (1, (), ['cuda_graph'])
    """

    subject: str
    results: tuple[CheckResult, ...]

    @property
    def passed(self) -> tuple[CheckResult, ...]:
        return self._with("pass")

    @property
    def failed(self) -> tuple[CheckResult, ...]:
        return self._with("fail")

    @property
    def skipped(self) -> tuple[CheckResult, ...]:
        return self._with("skip")

    def _with(self, verdict: Verdict) -> tuple[CheckResult, ...]:
        return tuple(result for result in self.results if result.verdict == verdict)

    def to_json(self) -> dict[str, Any]:
        """The keys that `porism check --json` has too."""
        return {
            "checks": [asdict(result) for result in self.results],
            "passed": len(self.passed),
            "failed": len(self.failed),
            "skipped": len(self.skipped),
        }

    def raise_if_failed(self) -> None:
        if self.failed:
            lines = "; ".join(f"{result.name}: {result.reason or result.measured}" for result in self.failed)
            raise CheckError(f"{self.subject} fails {len(self.failed)} of {len(self.results)} checks: {lines}.")

    def __str__(self) -> str:
        counts = f"{len(self.passed)} passed, {len(self.failed)} failed, {len(self.skipped)} skipped"
        return "\n".join([f"{self.subject}: {counts}", *map(str, self.results)])


def check_reaction(on_fail: object) -> None:
    """Refuses what names no reaction: a check that fails would pass in silence."""
    if on_fail not in ("raise", "warn", None):
        raise RecipeError(f"check: on_fail is {on_fail!r}. Choose 'raise', 'warn' or None.")


def refuse_empty(name: str, given: Collection[Any] | None, known: Iterable[str]) -> None:
    """Refuse an empty list: nothing would be checked, and nothing fail."""
    if given is not None and not given:
        raise RecipeError(f"check: {name} is empty, so that nothing is checked. {some_of(list(known))}")


def run_checks(
    subject: str, checks: Iterable[tuple[str, Check]], expected: Mapping[str, str] | None = None
) -> CheckReport:
    """Runs each check and tells what came of it. What a check raises is a failure of what it checks."""
    expected = expected or {}
    results = []
    for name, check in checks:
        result = run_check(name, check)
        if name in expected and result.verdict == "fail":
            result = CheckResult(name, "expected", result.measured, result.tolerance, expected[name])
        results.append(result)
    return CheckReport(subject, tuple(results))


def run_check(name: str, check: Check) -> CheckResult:
    """One check, whatever comes of it."""
    try:
        measured, tolerance = check()
    except Skip as reason:
        return CheckResult(name, "skip", reason=str(reason))
    except Failure as reason:
        return CheckResult(name, "fail", reason=str(reason))
    except Exception as error:
        words = (str(error).strip() or "no message").splitlines()[0]
        return CheckResult(name, "fail", reason=f"{type(error).__name__}: {words}")
    # Written so that a NaN fails.
    return CheckResult(name, "pass" if measured <= tolerance else "fail", measured, tolerance)
