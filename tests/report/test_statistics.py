"""Intervals and tests against numbers from tables and against enumeration."""

import math
from itertools import product
from statistics import fmean, stdev

import pytest

from porism.report.statistics import interval, mcnemar, student_quantile


@pytest.mark.parametrize(("degrees", "expected"), [(1, 12.706), (4, 2.776), (9, 2.262), (99, 1.984)])
def test_student_quantiles_are_those_of_the_tables(degrees: int, expected: float) -> None:
    assert student_quantile(0.975, degrees) == pytest.approx(expected, abs=5e-4)


def test_an_interval_is_the_mean_and_its_error_times_the_quantile() -> None:
    values = [0.81, 0.83, 0.82, 0.86, 0.79]
    found = interval(values)
    assert found.mean == pytest.approx(fmean(values))
    assert found.margin == pytest.approx(2.776445 * stdev(values) / math.sqrt(5), rel=1e-6)


def test_one_value_has_no_interval_and_excludes_nothing() -> None:
    found = interval([0.5])
    assert found.margin is None
    assert not found.excludes_zero


@pytest.mark.parametrize(
    ("values", "excludes"), [((1.0, 1.1, 0.9), True), ((-1.0, -1.1), True), ((-1.0, 1.0, 0.5), False)]
)
def test_whether_zero_lies_outside(values: tuple[float, ...], excludes: bool) -> None:
    assert interval(values).excludes_zero is excludes


@pytest.mark.parametrize(("only_first", "only_second"), [(0, 0), (0, 3), (1, 6), (5, 5), (7, 2)])
def test_mcnemar_is_what_tossing_every_coin_gives(only_first: int, only_second: int) -> None:
    """The share of all ways the disagreements could have fallen that are at least as lopsided."""
    tosses = only_first + only_second
    apart = abs(only_first - only_second)
    ways = [abs(2 * sum(coins) - tosses) >= apart for coins in product((0, 1), repeat=tosses)]
    first = "1" * 4 + "1" * only_first + "0" * only_second
    second = "1" * 4 + "0" * only_first + "1" * only_second
    assert mcnemar(first, second) == pytest.approx(sum(ways) / len(ways))
    assert mcnemar(second, first) == mcnemar(first, second)


def test_mcnemar_stands_large_test_sets() -> None:
    assert mcnemar("1" * 5500 + "0" * 4500, "0" * 4500 + "1" * 5500) == 1.0
    assert 0 <= mcnemar("1" * 6000 + "0" * 4000, "0" * 6000 + "1" * 4000) < 1e-80


def test_answers_to_different_examples_are_not_compared() -> None:
    with pytest.raises(ValueError, match="shorter"):
        mcnemar("101", "10")
