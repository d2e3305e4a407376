"""The benchmark of decoding notices what grows and what differs."""

from typing import Any

import pytest
import torch

import decoding

CONSTANT = {
    "mechanism": "series",
    "grows": False,
    "growth": 1.0,
    "early_bytes": 64,
    "last_bytes": 64,
    "differences": {"float64": 1e-15, "float32": 1e-7},
}


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"growth": 2.0}, "series: a token takes 2.0 times as long at the end"),
        ({"last_bytes": 65}, "series: the state grew from 64 to 65 bytes"),
        ({"differences": {"float64": 1e-9, "float32": 0.0}}, "series: float64 decoding is 1.0e-09 away"),
        ({"differences": {"float64": float("nan"), "float32": 0.0}}, "series: float64 decoding is nan away"),
    ],
)
def test_a_failure_is_named(change: dict[str, Any], complaint: str) -> None:
    assert decoding.failures(CONSTANT) == []
    (found,) = decoding.failures(CONSTANT | change)
    assert found.startswith(complaint)


def test_softmax_may_grow() -> None:
    assert decoding.failures(CONSTANT | {"grows": True, "growth": 9.0, "last_bytes": 640}) == []


def test_bytes_are_those_of_storages_each_counted_once() -> None:
    x = torch.zeros(10)
    assert decoding.bytes_of((x, x[1:], None)) == 40
    assert decoding.bytes_of((x, (torch.zeros(3),))) == 52


def test_all_mechanisms_are_measured_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "PART", 3)
    # More tokens than the cache first has room for.
    rows = decoding.measured(24, 1, torch.device("cpu"))
    assert [row["mechanism"] for row in rows] == list(decoding.MECHANISMS)
    for row in rows:
        assert row["differences"].keys() == {"float64", "float32"}
        assert row["differences"]["float64"] < 1e-12
        # The series has all of its state at once, and torch's cache is allocated in full.
        assert row["early_bytes"] < row["last_bytes"] or row["mechanism"] in ("series", decoding.TORCH)
