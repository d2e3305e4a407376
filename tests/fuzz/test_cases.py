"""The limits themselves: what hangs, takes all memory, or raises anything but the user's error fails a case."""

import sys
import time
from collections.abc import Callable

import pytest
from hypothesis import strategies as st
from tests.fuzz import cases
from tests.fuzz.cases import Fuzz, attempt
from tests.fuzz.mutations import CHANGES, Change, changed

from porism.errors import PorismError, RunError


def refuse(message: str) -> None:
    raise RunError(message)


def endless(work: Callable[[], object]) -> None:
    while True:
        try:
            work()
        except Exception:
            continue


@pytest.mark.parametrize(
    ("limit", "work"),
    [("SECONDS", lambda: sum(range(100))), ("ASLEEP", lambda: time.sleep(1))],
    ids=["computes", "waits"],
)
def test_what_has_no_end_fails(limit: str, work: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cases, limit, 0.05)
    with pytest.raises(AssertionError, match=r"no end after .*0\.05"):
        attempt(lambda: endless(work))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is limited on Linux")
def test_what_takes_all_memory_fails() -> None:
    with pytest.raises(MemoryError):
        attempt(lambda: bytearray(2 * cases.MEMORY))


def test_only_the_users_error_is_an_answer() -> None:
    assert isinstance(attempt(lambda: refuse("no such file.")), PorismError)
    with pytest.raises(ZeroDivisionError):
        attempt(lambda: 1 / 0)
    with pytest.raises(AssertionError, match="without a word"):
        attempt(lambda: refuse(" "))
    with pytest.raises(AssertionError):
        attempt(lambda: refuse("word " * 1000))


def test_a_case_that_fails_is_shown_and_the_number_of_cases_is_kept() -> None:
    seen: list[int] = []
    Fuzz(seed=1, whole=0.5)(st.integers(), seen.append, share=10, whole=80)
    assert len(seen) == 40
    with pytest.raises(AssertionError) as raised:
        Fuzz(seed=1, whole=0.0)(st.integers(0, 1000), small, share=50, whole=50)
    assert "case: 500" in "".join(raised.value.__notes__)


def small(case: int) -> None:
    assert case < 500


def test_changes_change_something(fuzz: Fuzz) -> None:
    tree = {"a.txt": b"some words of a text\n" * 5, "b.txt": b"others\n"}
    same = []

    def check(changes: list[Change]) -> None:
        same.append(changed(tree, changes) == tree)

    fuzz(CHANGES, check, share=100, whole=100)
    assert sum(same) < len(same) / 5
