"""A claim that could not be decided is not accepted, and a decision takes both forms and the cases that it names."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from porism.claims.checks.compare import compared, tried
from porism.claims.claim import Claim, Empirical, Finding, Ruling
from porism.claims.decide import decide, mixed, seen, tally
from porism.claims.kept.result import KeptResult, KeptRun, encode_kept
from porism.errors import ClaimError, MissingExtra

Formula = Callable[[float], float]
TWO = {"right_where": lambda x: x == 2}


def squares(form: Formula) -> Finding:
    return compared((f"at {x}", x * x, form(x)) for x in (1.0, 2.0, 3.0))


def claim(verdict: str, **forms: Any) -> Claim[Formula]:
    options: dict[str, Any] = {"stated": lambda x: x * x, "precise": "It is x^2.", "judge": squares} | forms
    if verdict == "holds under assumptions":
        options = {"assumed": lambda x: x == 2} | options
    return Claim(id="999-01", topic="graphs", where="1", says="It is so.", verdict=verdict, **options)  # type: ignore[arg-type]


def empirical(**options: Any) -> Empirical:
    given = {"id": "999-02", "topic": "graphs", "where": "1", "says": "It trains.", "command": "x"} | options
    return Empirical(**given)


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


@pytest.mark.parametrize(("verdict", "name"), [("holds under assumptions", "assumed"), ("wrong", "right_where")])
def test_a_statement_must_agree_where_it_is_said_to(verdict: str, name: str) -> None:
    def decided(condition: Callable[[float], bool], stated: Formula = twice) -> str:
        return decide(claim(verdict, stated=stated, corrected=square, **{name: condition})).why

    assert decided(lambda x: x == 2) == ""
    assert "refused where it should agree: at 3.0" in decided(lambda x: x >= 2)
    assert "refused where it should agree" in decided(lambda x: x == 2, stated=lambda x: -1.0)
    assert "of 3 cases 0 meet the condition" in decided(lambda x: False)
    assert "of 3 cases 3 meet the condition" in decided(lambda x: True)


def test_a_form_of_several_functions_is_mixed_one_by_one() -> None:
    form = mixed(lambda x: x == 2, (twice, lambda x: -x), (square, square))
    assert [part(2.0) for part in form] == [4.0, -2.0]
    assert [part(3.0) for part in form] == [9.0, 9.0]


def test_a_shape_that_does_not_fit_has_to_be_meant() -> None:
    def sized(form: Callable[[int], Any]) -> Finding:
        return compared((f"{n}", torch.ones(n), tried(form, n)) for n in (2, 3))

    forms: dict[str, Any] = {"judge": sized, "stated": lambda n: torch.ones(n + 1), "corrected": torch.ones}
    slip = decide(claim("wrong", **forms))
    assert slip.outcome == "fail"
    assert "the statement is not computable, against what the claim says" in slip.why
    meant = decide(claim("wrong", computable=False, **forms))
    assert meant.outcome == "pass"
    assert seen(meant) == "not computable: 2: 2 is true, 3 stated"
    assert (
        decide(claim("wrong", computable=False, **(forms | {"stated": lambda n: 2 * torch.ones(n)}))).outcome == "fail"
    )
    # A rival that does not fit is no rival.
    assert decide(claim("holds", judge=sized, stated=torch.ones, rival=forms["stated"])).outcome == "fail"


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
        ("holds under assumptions", {"corrected": square, "assumed": None}, "without assumed"),
        ("wrong", {"corrected": square, "assumed": bool}, "wrong, with assumed"),
        ("holds", {"rival": twice, **TWO}, "holds, with right_where"),
    ],
)
def test_half_a_claim_is_refused(verdict: str, forms: dict[str, Any], message: str) -> None:
    with pytest.raises(ClaimError, match=message):
        claim(verdict, **forms)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kept": "a"}, "kept and rule go together"),
        ({"rule": lambda result: Ruling(True, "")}, "kept and rule go together"),
        ({"way": "not by training"}, "Give the reason, and no kept result"),
        ({"command": ""}, "Say what to run"),
    ],
)
def test_half_an_empirical_claim_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ClaimError, match=message):
        empirical(**options)


def test_a_side_fact_decides_nothing() -> None:
    assert decide(empirical()).outcome == "open"
    side = decide(empirical(known=lambda: Finding(0, 0, "1 = 1")))
    assert (side.outcome, side.by, side.word) == ("open", "", "open: no run decides it yet")
    assert seen(side) == "side fact: 1 = 1"
    assert tally([side]) == (
        "0 computed, 0 decided by kept runs, 1 open (1 for want of a run, data or a package, 1 of them with a side "
        "fact that was computed and decides nothing)"
    )
    # What the ledger says of it is wrong then.
    assert decide(empirical(known=lambda: Finding(1, 0, ""))).outcome == "fail"


def test_a_missing_package_leaves_a_claim_open() -> None:
    def judge(form: Formula) -> Finding:
        raise MissingExtra("it needs numba: pip install it")

    decision = decide(claim("holds", judge=judge, rival=twice))
    assert (decision.outcome, decision.missing) == ("open", "it needs numba: pip install it")


def test_a_judge_that_raises_is_a_check_that_failed() -> None:
    def judge(form: Formula) -> Finding:
        raise KeyError("x")

    decision = decide(claim("holds", judge=judge, rival=twice))
    assert (decision.outcome, seen(decision)) == ("fail", "the check itself failed: KeyError: 'x'")


def test_a_kept_run_that_leaves_the_answer_open_is_told_from_one_that_is_missing(tmp_path: Path) -> None:
    runs = tuple(KeptRun({"recipe": "a"}, seed, {"test.accuracy": 0.8}) for seed in (1, 2, 3))
    kept = KeptResult("few", "porism compare images a", "digits", {"cpu": "one"}, {"porism": "0.2"}, runs)
    (tmp_path / "few.json").write_bytes(encode_kept(kept))
    undecided = empirical(kept="few", rule=lambda result: Ruling(None, f"{result.seeds} seeds, where 5 are needed"))
    found, missing = decide(undecided, tmp_path), decide(undecided)
    assert (found.outcome, found.word) == ("open", "open: its kept run is too small to decide it")
    assert seen(found) == "3 seeds, where 5 are needed (digits, 3 seeds, one)"
    assert (missing.outcome, missing.word) == ("open", "open: no run decides it yet")
    assert tally([found, missing]) == (
        "0 computed, 0 decided by kept runs, 2 open (1 by runs too small to decide them, 1 for want of a run, data or "
        "a package)"
    )
