"""A right form that is changed a little is noticed, and so is a statement that says something else, in every claim.

A judge that agrees with a form that is off by a hundredth, by one or by its sign, decides something else than it says.
"""

import dataclasses
import math
import re
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import sympy
import torch
from tests.claims.test_ledger import NOWHERE_RIGHT
from torch import Tensor

import porism.claims.topics
import porism.tasks.images.recipes as images
import porism.tasks.language.published as language
import porism.tasks.speech.recipes as speech
from porism.claims.claim import Claim
from porism.claims.decide import decide
from porism.claims.ledger import all_claims
from porism.costing.alphabet import T

DECIDED: list[Claim[Any]] = [claim for claim in all_claims().values() if isinstance(claim, Claim)]
IDS = [claim.id for claim in DECIDED]

Change = Callable[[Any], Any]


def changed(value: Any, change: Change) -> Any:
    """A value with all its numbers changed; a yes becomes a no."""
    match value:
        case bool():
            return not value
        case Tensor() if value.dtype == torch.bool:
            return ~value
        case str():
            return value
        case tuple() if hasattr(value, "_make"):
            return type(value)._make(changed(part, change) for part in value)
        case tuple() | list():
            return type(value)(changed(part, change) for part in value)
        case dict():
            return {key: changed(part, change) for key, part in value.items()}
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = {field.name: changed(getattr(value, field.name), change) for field in dataclasses.fields(value)}
            return dataclasses.replace(value, **fields)
        case _ if callable(value) and not isinstance(value, Tensor | sympy.Basic):
            return lambda *case: changed(value(*case), change)
    return change(value)


CHANGES: dict[str, Change] = {
    "times 1.01": lambda value: value * sympy.Rational(101, 100) if isinstance(value, sympy.Basic) else value * 1.01,
    "plus one": lambda value: value + 1,
    "negated": lambda value: -value,
}


ORDER_JUDGES = ("grows_like", "order_of_product", "work_in_small_windows")
BY_DEGREE = ("002-19", "003-34")
"""The degree of a polynomial is what is stated, and no factor."""


def is_order(claim: Claim[Any]) -> bool:
    """Whether the form is an order of three sizes: then a factor is no part of it, and a power is."""
    return claim.judge.__qualname__.startswith(ORDER_JUDGES)


ORDERS: dict[str, Callable[..., Any]] = {
    "times the first": lambda value, first, second, third: value * first,
    "times the second": lambda value, first, second, third: value * second,
    "over the first": lambda value, first, second, third: value / first,
}
DEGREES_OF_T: dict[str, Change] = {"times T": lambda value: value * T, "over T": lambda value: value / T}


def mutants_of(claim: Claim[Any], form: Any) -> dict[str, Any]:
    if is_order(claim):
        return {change: of_order(form, how) for change, how in ORDERS.items()}
    changes = DEGREES_OF_T if claim.id in BY_DEGREE else CHANGES
    return {change: changed(form, how) for change, how in changes.items()}


def of_order(form: Callable[..., Any], change: Callable[..., Any]) -> Callable[..., Any]:
    def mutant(*sizes: int) -> Any:
        return changed(form(*sizes), lambda value: change(value, *sizes))

    return mutant


UNNOTICED: Mapping[str, tuple[set[str], str]] = {
    "000-30": ({"times 1.01"}, "published nets keep 0.9, 0.6 or 0.2, and a share is taken to the nearest of them"),
    "001-26": ({"times 1.01", "plus one", "negated"}, "a size is what is stated"),
    "001-36": ({"times 1.01"}, "the order of shares is what the table tells"),
    "002-11": ({"negated"}, "features and their negatives have one inner product"),
    "002-17": ({"times 1.01", "negated"}, "nothing is stated to be apart: zero"),
    "003-09": ({"times the second"}, "D is fixed, as the statement says"),
    "003-11": ({"negated"}, "features and their negatives have one inner product"),
    "003-13": ({"negated"}, "features and their negatives have one inner product"),
    "004-11": ({"times the second"}, "D is fixed"),
}
"""Changes of the right form that a judge does not notice, and why it need not."""


@pytest.mark.sweep(16)
@pytest.mark.parametrize("claim", DECIDED, ids=IDS)
def test_a_small_change_of_the_right_form_is_noticed(claim: Claim[Any]) -> None:
    name = "stated" if claim.verdict == "holds" else "corrected"
    mutants = mutants_of(claim, getattr(claim, name))
    found = {change: decide(dataclasses.replace(claim, **{name: mutant})) for change, mutant in mutants.items()}
    if any(decision.missing for decision in found.values()):
        pytest.skip("a package is missing")
    unnoticed = {change for change, decision in found.items() if decision.outcome != "fail"}
    assert unnoticed == UNNOTICED.get(claim.id, (set(), ""))[0]


@pytest.mark.sweep(16)
@pytest.mark.parametrize("claim", DECIDED, ids=IDS)
def test_another_statement_is_noticed(claim: Claim[Any]) -> None:
    garbage = changed(claim.stated, lambda value: value * 0 + 12345.678)
    decision = decide(dataclasses.replace(claim, stated=garbage))
    if decision.missing:
        pytest.skip(decision.missing)
    # What is right nowhere is refused as well when it is something else; sizes are all that 001-26 states.
    assert (decision.outcome == "fail") == (claim.id not in {*NOWHERE_RIGHT, "001-26"})


BOUNDS = ("001-39", "002-08", "002-09", "002-14", "003-25")


@pytest.mark.parametrize("number", BOUNDS)
@pytest.mark.parametrize("factor", [0.5, 2.0, math.inf])
def test_a_bound_is_refused_when_it_is_halved_doubled_or_infinite(number: str, factor: float) -> None:
    claim = all_claims()[number]
    assert isinstance(claim, Claim)
    # Spans are about one.
    by_one = number in ("001-39", "002-14", "003-25")
    wider = changed(claim.corrected, lambda value: 1 + (value - 1) * factor if by_one else value * factor)
    assert decide(dataclasses.replace(claim, corrected=wider)).outcome == "fail"


PUBLISHED_NUMBERS: list[tuple[str, str, Any]] = [
    ("001-33", "porism.tasks.language.published.PUBLISHED.table-11.test.perplexity", 100.0),
    ("001-36", "porism.tasks.language.published.PUBLISHED.table-05.train.perplexity", 1.0),
    ("000-27", "porism.tasks.language.published.PUBLISHED.table-04.test.perplexity", 1000.0),
    ("000-28", "porism.tasks.language.published.PUBLISHED_ELSEWHERE.wide", 195.0),
    ("000-30", "porism.tasks.language.published.PUBLISHED_ELSEWHERE.wide", 300.0),
    ("003-36a", "porism.tasks.images.recipes.PUBLISHED.strided.test.accuracy", 0.8380),
    ("003-50", "porism.tasks.speech.recipes.PUBLISHED.attention-ljspeech.test.jaccard", 0.7),
]


@pytest.mark.parametrize(("number", "place", "value"), PUBLISHED_NUMBERS, ids=lambda value: str(value)[-20:])
def test_a_published_number_that_is_changed_is_noticed(
    number: str, place: str, value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, _, keys = place.partition(".PUBLISHED")
    name, *path, last = f"PUBLISHED{keys}".split(".")
    numbers = getattr(import_module(module), name)
    for key in path:
        numbers = numbers[key]
    assert decide(all_claims()[number]).outcome != "fail"
    monkeypatch.setitem(numbers, last, value)
    assert decide(all_claims()[number]).outcome == "fail"


def test_another_number_of_parameters_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("porism.claims.topics.images.downsampling.PUBLISHED_PARAMETERS", 224_893)
    assert decide(all_claims()["003-37"]).outcome == "fail"


def test_published_numbers_stand_in_one_place() -> None:
    """Claims take them from the tasks, so that no text of the ledger can say another."""
    typed = [language.PUBLISHED, images.PUBLISHED, speech.PUBLISHED]
    numbers = {
        f"{number:g}"
        for table in typed
        for row in table.values()
        for scores in row.values()
        for number in scores.values()
    }
    numbers |= {"0.8280", f"{images.PUBLISHED_PARAMETERS:,}", f"{images.PUBLISHED_PARAMETERS:_}"}
    folder = Path(porism.claims.topics.__file__).parent
    found = [
        (file.name, number) for file in folder.rglob("*.py") for number in numbers
        if re.search(rf"(?<![\d.]){re.escape(number)}(?![\d])", file.read_text())
    ]  # fmt: skip
    assert not found


def test_statements_say_the_published_numbers() -> None:
    says = {claim.id: claim.says for claim in all_claims().values()}
    expected = {
        "000-25a": language.PUBLISHED_ELSEWHERE["default"],
        "000-25b": language.PUBLISHED_ELSEWHERE["tuned"],
        "000-28": language.PUBLISHED_ELSEWHERE["wide"],
        "000-29": language.PUBLISHED_ELSEWHERE["widest"],
        "001-33": language.PUBLISHED["table-12"]["test"]["perplexity"],
        "001-34a": language.PUBLISHED_EPOCHS["table-09"],
        "001-35": language.PUBLISHED_EPOCHS["table-12"],
        "003-35b": images.PUBLISHED["pooled"]["test"]["accuracy"],
        "003-36b": images.PUBLISHED["strided"]["test"]["accuracy"],
        "003-40": speech.PUBLISHED["lstm-ljspeech"]["test"]["loss"],
        "003-41": speech.PUBLISHED["attention-ljspeech"]["test"]["loss"],
    }
    for number, value in expected.items():
        assert f"{value:g}" in says[number], number
