"""What the documents say of the errors is what the benchmark finds, and it would notice if it were not."""

import json
from typing import Any

import pytest

import attention_error

KEPT = json.loads(attention_error.RESULT.read_text())


def test_what_was_kept_holds_every_claim_and_every_warning_was_right() -> None:
    rows, watched = KEPT["rows"], KEPT["watched"]
    assert attention_error.broken(rows) == []
    assert {row["deviation"] for row in rows} == set(attention_error.DEVIATIONS)
    assert all(row["rightly"] for row in watched)
    assert {row["warned"] for row in watched} == {True, False}
    # No claim is empty.
    assert all(any(covers(row) for row in rows) for _, covers in attention_error.CLAIMS.values())


@pytest.mark.parametrize(
    ("row", "claims"),
    [
        ({"T": 64, "W": 16, "deviation": 4.0}, {"quarter": "answer", "weights": "weights"}),
        ({"T": 64, "W": 8, "deviation": 2.0}, {"deviation of 2": "answer", "weights": "weights"}),
        ({"T": 64, "W": 8, "deviation": 4.0}, {"weights": "weights"}),
    ],
)
def test_a_claim_that_does_not_hold_is_named(row: dict[str, Any], claims: dict[str, str]) -> None:
    off = {"hybrid": 0.2, "window": 0.3, "series": 0.1}
    row |= {"order": 2, "answer": off, "weights": off, "hybrid_is_closest": {"answer": False, "weights": False}}
    found = attention_error.broken([row, row])
    assert len(found) == len(claims)
    assert all(any(claim in text for text in found) for claim in claims)


def test_a_row_is_measured() -> None:
    row = attention_error.errors(deviation=1.0, T=64, W=16, order=2, seeds=2)
    assert row["hybrid_is_closest"] == {"answer": True, "weights": True}
    assert 0 < row["weights"]["hybrid"] < row["weights"]["series"] < 1
    # A window over the whole text is softmax.
    whole = attention_error.errors(deviation=1.0, T=32, W=32, order=2, seeds=1)
    assert max(whole["answer"]["window"], whole["weights"]["hybrid"]) < 1e-12


@pytest.mark.parametrize(("deviation", "warns"), [(0.1, False), (1.0, True)])
def test_a_warning_is_seen(deviation: float, warns: bool) -> None:
    row = attention_error.watched(deviation, T=64, D=8, order=2, causal=True, seed=0)
    assert (row["warned"], row["rightly"]) == (warns, True)
    assert row["estimate"] == pytest.approx(row["measured"], rel=1e-9)
