"""The count and check workers' jobs, called as functions; and one claim through a real process."""

from typing import Any

import pytest

pytest.importorskip("fastapi")

from starlette.testclient import TestClient
from tests.web.conftest import Ended
from tests.web.test_predictions import Heard
from torch import nn

from porism.errors import PorismError, RecipeError
from porism.web.catalogue import catalogue
from porism.web.processes.check import check
from porism.web.processes.count import DERIVED, derive, recount
from porism.web.processes.letter_factory import letter_factory
from porism.web.processes.process import Cancelled
from porism.web.values import value_at

LSTM: dict[str, Any] = {"target": "torch.nn:LSTM", "inputs": ["T B 5"], "arguments": "5, 7", "multiples": {}}


def test_a_module_is_derived_with_its_formulas() -> None:
    found = derive(LSTM, Heard().step)
    assert (found["target"], found["kind"]) == ("torch.nn:LSTM", "module")
    assert found["flops"]["text"] == "672*B*T"
    sizes = {"T": 3, "B": 2}
    assert value_at(found, "flops", sizes).number == 8 * 2 * 3 * 7 * (5 + 7)


def test_a_class_is_costed_in_letters() -> None:
    found = derive({**LSTM, "inputs": ["T B D"], "arguments": ""}, Heard().step)
    assert (found["flops"]["text"], found["about"]) == ("8*B*H*T*(D + H)", "LSTM(input_size=D, hidden_size=H)")
    assert found["flops"]["label"] == "by formula"


@pytest.mark.parametrize(
    ("target", "arguments", "call"),
    [
        (nn.Linear, "", "Linear(in_features=D, out_features=H)"),
        (nn.Linear, "D, 10", "Linear(D, 10)"),
        (nn.Linear, "64,10", "Linear(64, 10)"),
        (nn.GRU, "D, D", "GRU(D, D)"),
        (nn.ReLU, "", ""),
    ],
)
def test_arguments_of_a_class_are_letters_or_numbers(target: Any, arguments: str, call: str) -> None:
    assert letter_factory(target, arguments)[1] == call


@pytest.mark.parametrize(
    ("target", "arguments", "why"),
    [
        (nn.Linear, "D, os", "'os' is neither a number nor a letter"),
        (nn.Linear, "D, 10**9", "is neither a number nor a letter"),
        (nn.Conv2d, "", "needs kernel_size, for which no letter stands"),
    ],
)
def test_arguments_that_cannot_be_read_are_refused(target: Any, arguments: str, why: str) -> None:
    with pytest.raises(RecipeError, match=why):
        letter_factory(target, arguments)


def test_a_derivation_tells_how_many_sizes_it_has_counted_and_stops_between_two() -> None:
    heard = Heard()
    derive({**LSTM, "multiples": {"T": 3}}, heard.step)
    told = [message[2:] for message in heard.messages]
    assert told[:3] == [(0, None, "sizes counted"), (1, None, "sizes counted"), (2, None, "sizes counted")]
    assert len(told) > 5
    heard.messages.clear()
    heard.cancelled.add("J")
    with pytest.raises(Cancelled):
        derive({**LSTM, "multiples": {"T": 5}}, heard.step)
    assert heard.messages == []


def test_what_was_derived_is_kept() -> None:
    derive(LSTM, Heard().step)
    first = DERIVED.get(LSTM).cost
    assert DERIVED.get(dict(LSTM)).cost is first
    assert DERIVED.get({**LSTM, "multiples": {"B": 2}}).cost is not first


def test_a_recount_is_counted_here_and_equals_the_formula() -> None:
    asked: dict[str, Any] = {"target": "attention", "inputs": [], "at": {"B": 1, "T": 64, "A": 8, "D": 64}}
    found = recount(asked, Heard().step)
    assert found["known"]["flops"]["label"] == "counted"
    assert found["values"]["flops"] == value_at(catalogue().costs["attention"], "flops", asked["at"]).digits


def test_a_recount_outside_of_the_confirmed_sizes_is_no_formula() -> None:
    asked = {**LSTM, "at": {"T": 300, "B": 200}}
    found = recount(asked, Heard().step)
    assert found["known"]["flops"]["label"] == "counted"
    assert found["values"]["flops"] == str(8 * 200 * 300 * 7 * 12)


@pytest.mark.parametrize("at", [{"T": 3}, {"T": 3, "B": 2, "Q": 1}])
def test_sizes_that_do_not_fit_are_refused(at: dict[str, int]) -> None:
    with pytest.raises(RecipeError):
        recount({**LSTM, "at": at}, Heard().step)


@pytest.mark.parametrize("inputs", [[], ["T B __import__('os')"], ["T B D : str"], ["T B 2**1000000"]])
def test_inputs_that_cannot_be_read_are_refused(inputs: list[str]) -> None:
    with pytest.raises(PorismError):
        derive({**LSTM, "inputs": inputs}, Heard().step)


def test_claims_are_told_one_by_one() -> None:
    heard = Heard()
    found = check({"ids": ["000-24", "002-12"]}, heard.step)
    assert (found["passed"], found["failed"]) == (2, 0)
    assert [part["claim"]["id"] for part in heard.parts] == ["000-24", "002-12"]
    claim = found["claims"][0]
    assert claim["passed"] is True
    assert claim["measured"] <= claim["tolerance"]
    assert claim["stated"]
    assert claim["true"]
    assert claim["command"] == "porism check claims --id 000-24"
    assert [message[2:4] for message in heard.messages if message[0] == "progress"] == [(0, 2), (1, 2)]


def test_a_check_stops_between_two_claims() -> None:
    heard = Heard(cancel_after=1)
    with pytest.raises(Cancelled):
        check({"ids": ["000-24", "002-12"]}, heard.step)
    assert len(heard.parts) == 1


@pytest.mark.sweep(0)
def test_a_claim_is_decided_in_a_process_of_its_own(client: TestClient, ended: Ended) -> None:
    answer = client.post("/api/claims/check", json={"ids": ["000-24"]})
    found = ended(answer.json()["job"])
    assert (found["state"], found["result"]["passed"]) == ("done", 1)
