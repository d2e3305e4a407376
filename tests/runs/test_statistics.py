"""Intervals and tests against numbers from tables and against enumeration."""

import math
from itertools import product
from statistics import fmean, stdev

import mpmath
import numpy as np
import pytest

from porism.report.examples import LEAST_RESAMPLED
from porism.runs.statistics import (
    binomial_interval,
    bootstrap_interval,
    holm,
    interval,
    mcnemar,
    paired_bootstrap,
    resample,
    student_quantile,
    student_tail,
    t_test,
)


@pytest.mark.parametrize(("degrees", "expected"), [(1, 12.706), (4, 2.776), (9, 2.262), (99, 1.984)])
def test_student_quantiles_are_those_of_the_tables(degrees: int, expected: float) -> None:
    assert student_quantile(0.975, degrees) == pytest.approx(expected, abs=5e-4)


def test_an_interval_is_the_mean_and_its_error_times_the_quantile() -> None:
    values = [0.81, 0.83, 0.82, 0.86, 0.79]
    found = interval(values)
    assert found.mean == pytest.approx(fmean(values))
    assert found.margin == pytest.approx(2.776445 * stdev(values) / math.sqrt(5), rel=1e-6)


def test_values_that_differ_by_rounding_have_no_spread() -> None:
    assert interval([8 / 11, 8 / 11, 1 - 3 / 11]).margin == 0
    assert interval([0.0, 0.0]).margin == 0
    assert interval([1.0, 1.0 + 1e-6]).margin > 0  # type: ignore[operator]


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


@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 7, 30, 199])
@pytest.mark.parametrize("t", [0.0, 0.3, 2.776, 11.0])
def test_student_tails_are_those_of_the_incomplete_beta_function(degrees: int, t: float) -> None:
    expected = 0.5 * float(mpmath.betainc(degrees / 2, 0.5, 0, degrees / (degrees + t * t), regularized=True))
    assert student_tail(t, degrees) == pytest.approx(expected, rel=1e-9, abs=1e-15)


def test_the_paired_t_test() -> None:
    """scipy.stats.ttest_1samp([0.3, 0.1, 0.4, -0.1, 0.2], 0) gives p = 0.10454."""
    assert t_test([0.3, 0.1, 0.4, -0.1, 0.2]) == pytest.approx(0.10453999978, rel=1e-9)
    assert t_test([-1.0, -2.0, -3.0]) == t_test([1.0, 2.0, 3.0])
    assert t_test([1.0]) is None
    assert t_test([0.0, 0.0]) == 1.0
    assert t_test([3.0, 3.0]) == 0.0


def test_holm_corrects_the_smallest_for_all_and_never_turns_the_order_round() -> None:
    """By hand: 0.01 x 4, then 0.013 x 3 which is less, so as much as before, 0.03 x 2, 0.9."""
    assert holm([0.03, 0.01, 0.9, 0.013]) == pytest.approx([0.06, 0.04, 0.9, 0.04])
    assert holm([]) == []
    assert holm([0.7, 0.6]) == [1.0, 1.0]


@pytest.mark.parametrize(("right", "examples"), [(0, 5), (12, 12), (3, 7), (40, 63)])
def test_the_ends_of_a_binomial_interval_leave_a_fortieth_on_either_side(right: int, examples: int) -> None:
    def at_least(successes: int, share: float) -> float:
        return sum(
            math.comb(examples, k) * share**k * (1 - share) ** (examples - k) for k in range(successes, examples + 1)
        )

    low, high = binomial_interval(right, examples)
    assert low == 0.0 if right == 0 else at_least(right, low) == pytest.approx(0.025)
    assert high == 1.0 if right == examples else 1 - at_least(right + 1, high) == pytest.approx(0.025)


@pytest.mark.parametrize(
    ("right", "examples", "low", "high"),
    [
        (8721, 10_000, 0.8653956539013026, 0.8785868087340395),
        (1000, 10_000, 0.09418721173378353, 0.10604689990359951),
        (1, 10_000, 2.5317775934746866e-06, 0.0005570369979470473),
        (0, 10_000, 0.0, 0.0003688199146187622),
        (999_999, 1_000_000, 0.9999944283693448, 0.9999999746821924),
    ],
)
def test_large_test_sets_have_their_binomial_interval(right: int, examples: int, low: float, high: float) -> None:
    """The ends are those of scipy.stats.beta.ppf, where mpmath's incomplete beta function does not converge."""
    assert binomial_interval(right, examples) == pytest.approx((low, high), rel=1e-9)


def test_the_bootstrap_of_a_mean_agrees_with_its_standard_error() -> None:
    values = np.random.default_rng(1).normal(2.0, 1.0, 400)
    low, high = bootstrap_interval(resample(np.stack([values, np.ones(400)], 1)))
    error = values.std() / 20
    assert low == pytest.approx(values.mean() - 1.96 * error, abs=0.1 * error)
    assert high == pytest.approx(values.mean() + 1.96 * error, abs=0.1 * error)


@pytest.mark.parametrize(("apart", "clear"), [(0.0, False), (0.05, True)])
def test_the_paired_bootstrap_sees_what_is_the_same_in_both(apart: float, clear: bool) -> None:
    """Examples differ by far more than the models do: only in pairs is a difference seen."""
    draw = np.random.default_rng(2)
    hard = draw.normal(5.0, 3.0, 200)
    models = [np.stack([hard + shift + draw.normal(0, 0.1, 200), np.ones(200)], 1) for shift in (0.0, apart)]
    p = paired_bootstrap(*(resample(sums) for sums in models))
    assert (p < 0.01) is clear
    assert p == paired_bootstrap(*(resample(sums) for sums in reversed(models)))


@pytest.mark.parametrize(("examples", "share"), [(LEAST_RESAMPLED, 0.9), (2, 0.5)])
def test_few_examples_leave_an_interval_that_holds_the_mean_less_often_than_it_says(
    examples: int, share: float
) -> None:
    drawn = np.random.default_rng(0).normal(size=(400, examples))
    ends = [bootstrap_interval(resample(np.stack([row, np.ones(examples)], 1))) for row in drawn]
    # Four standard errors of 400 draws at most.
    assert fmean(low <= 0.0 <= high for low, high in ends) == pytest.approx(share, abs=4 * (0.25 / 400) ** 0.5)
