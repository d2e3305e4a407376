"""Between measured points the time follows the logarithms; beyond them the rate stays."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from porism.costing.predicting.rates import Rates


def grid(rate: float = 1e-9) -> Rates:
    """Two axes; twice as slow where the second size is small, whatever the first."""
    return Rates(axes=((1, 16, 64), (4, 16)), per_unit=(2 * rate, rate) * 3, hosts=(1e-6, 4e-6) * 3, least=1e-8)


def test_a_measured_point_is_met() -> None:
    assert grid().seconds((16, 4), 100) == pytest.approx(200e-9)
    assert grid().seconds((64, 16), 100) == pytest.approx(100e-9)


def test_half_way_in_the_logarithm_is_half_way_in_the_factor() -> None:
    assert grid().seconds((7, 8), 100) == pytest.approx(100e-9 * 2**0.5)
    assert grid().host((7, 8)) == pytest.approx(2e-6)


def test_beyond_the_grid_the_rate_stays() -> None:
    assert grid().seconds((10_000, 10_000), 1000) == pytest.approx(1000e-9)
    assert grid().seconds((1, 1), 1000) == pytest.approx(2000e-9)


def test_nothing_is_faster_than_the_smallest_call() -> None:
    assert grid().seconds((1, 4), 1) == 1e-8


@given(st.integers(1, 200), st.integers(1, 200), st.integers(1, 10**6), st.integers(0, 10**6))
def test_more_of_the_same_work_never_takes_less(first: int, second: int, amount: int, more: int) -> None:
    assert grid().seconds((first, second), amount + more) >= grid().seconds((first, second), amount)


def test_the_best_rate_is_the_smallest() -> None:
    assert grid(3e-9).best == 3e-9
