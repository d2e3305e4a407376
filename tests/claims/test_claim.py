"""A claim that could not be decided is not accepted, and a decision takes both forms."""

from collections.abc import Callable
from typing import Any

import pytest

from porism.claims.checks.compare import compared
from porism.claims.claim import Claim, Empirical, Finding
from porism.claims.ledger import decide
from porism.errors import ClaimError, MissingExtra

Formula = Callable[[float], float]


def squares(form: Formula) -> Finding:
    return compared((f"at {x}", x * x, form(x)) for x in (1.0, 2.0, 3.0))


def claim(verdict: str, **forms: Any) -> Claim[Formula]:
    options: dict[str, Any] = {"stated": lambda x: x * x, "precise": "It is x^2.", "judge": squares} | forms
    return Claim(id="999-01", topic="graphs", where="1", says="It is so.", verdict=verdict, **options)  # type: ignore[arg-type]


def twice(x: float) -> float:
    return 2 * x


def square(x: float) -> float:
    return x**2


def test_what_holds_must_refuse_its_rival() -> None:
    assert decide(claim("holds", rival=twice)).outcome == "pass"
    assert decide(claim("holds", rival=square)).outcome == "fail"
    assert decide(claim("holds", stated=twice, rival=twice)).outcome == "fail"


@pytest.mark.parametrize("verdict", ["wrong", "imprecise", "holds under assumptions"])
def test_what_is_refused_must_have_a_right_form(verdict: str) -> None:
    assert decide(claim(verdict, stated=twice, corrected=square)).outcome == "pass"
    assert decide(claim(verdict, stated=square, corrected=square)).outcome == "fail"
    assert decide(claim(verdict, stated=twice, corrected=twice)).outcome == "fail"


def test_a_judge_that_is_a_constant_decides_nothing() -> None:
    for verdict, other in (("holds", "rival"), ("wrong", "corrected")):
        for measured in (0.0, 1.0, float("nan")):
            constant = claim(verdict, judge=lambda _, m=measured: Finding(m, 0.5, ""), **{other: twice})
            assert decide(constant).outcome == "fail"


@pytest.mark.parametrize(
    ("verdict", "forms", "message"),
    [
        ("holds", {}, "holds, which takes rival and no corrected"),
        ("holds", {"rival": twice, "corrected": twice}, "holds, which takes rival and no corrected"),
        ("wrong", {}, "wrong, which takes corrected and no rival"),
        ("wrong", {"corrected": square, "precise": ""}, "says not what is right"),
        ("empirical", {}, "Make it an Empirical"),
    ],
)
def test_half_a_claim_is_refused(verdict: str, forms: dict[str, Any], message: str) -> None:
    with pytest.raises(ClaimError, match=message):
        claim(verdict, **forms)


def test_only_training_decides_what_is_empirical() -> None:
    common: dict[str, Any] = {"id": "999-02", "topic": "graphs", "where": "1", "says": "It trains.", "command": "x"}
    assert decide(Empirical(**common)).outcome == "open"
    assert decide(Empirical(**common, known=lambda: Finding(0, 0, ""))).outcome == "pass"
    assert decide(Empirical(**common, known=lambda: Finding(1, 0, ""))).outcome == "fail"


def test_a_missing_package_leaves_a_claim_open() -> None:
    def judge(form: Formula) -> Finding:
        raise MissingExtra("it needs numba: pip install it")

    decision = decide(claim("holds", judge=judge, rival=twice))
    assert (decision.outcome, decision.missing) == ("open", "it needs numba: pip install it")
