"""A number that says how it is known: its words, its number, what can be compared."""

from collections.abc import Callable
from typing import Any

import pytest

from porism.costing.quantity import Quantity
from porism.errors import CostError

EXACT = Quantity(1024, unit="FLOPs")
COUNTED = Quantity(1024, unit="FLOPs", label="counted")
EXTRAPOLATED = Quantity(1024, unit="FLOPs", label="extrapolated", why="T confirmed to 138")
BOUND = Quantity.at_least(1024, unit="FLOPs", why="not counted: mine::gemm x2")
RANGE = Quantity.between(1024, 4096, unit="FLOPs", why="depends on the input")
UNKNOWN = Quantity.unknown("Conv1d refuses T=5", unit="FLOPs")


@pytest.mark.parametrize(
    ("quantity", "text"),
    [
        (EXACT, "1,024 FLOPs"),
        (COUNTED, "1,024 FLOPs (counted)"),
        (EXTRAPOLATED, "1,024 FLOPs (extrapolated: T confirmed to 138)"),
        (BOUND, "at least 1,024 FLOPs (not counted: mine::gemm x2)"),
        (RANGE, "1,024 to 4,096 FLOPs (depends on the input)"),
        (UNKNOWN, "unknown (Conv1d refuses T=5)"),
        (Quantity(33), "33"),
        (Quantity(0.00125, unit="s"), "0.00125 s"),
    ],
)
def test_it_says_how_it_is_known(quantity: Quantity, text: str) -> None:
    assert repr(quantity) == str(quantity) == f"{quantity}" == text


@pytest.mark.parametrize("quantity", [EXACT, COUNTED, EXTRAPOLATED])
def test_one_number_is_a_number(quantity: Quantity) -> None:
    assert int(quantity) == 1024
    assert float(quantity) == 1024.0
    assert list(range(2000))[quantity] == 1024
    assert f"{quantity:.1e}" == "1.0e+03"
    assert quantity == 1024
    assert quantity == 1024
    assert quantity != 1025
    assert quantity <= 1024 <= quantity
    assert not quantity < 1024
    assert quantity > 1023.5
    assert quantity < 5e9
    assert hash(quantity) == hash(1024)
    assert quantity.low == quantity.high == 1024


def test_a_lower_bound_decides_what_it_can() -> None:
    assert int(BOUND) == 1024
    assert f"{BOUND:,}" == "at least 1,024"
    assert (BOUND <= 1000) is False
    assert (BOUND < 1024) is False
    assert BOUND >= 1024
    assert BOUND > 1000
    assert BOUND != 1000
    undecided: list[Callable[[], Any]] = [
        lambda: BOUND <= 1024,
        lambda: BOUND < 5000,
        lambda: BOUND >= 5000,
        lambda: BOUND > 1024,
        lambda: BOUND == 1024,
        lambda: EXACT >= BOUND,
    ]
    for compare in undecided:
        with pytest.raises(CostError, match="cannot be compared with"):
            compare()
    assert (Quantity(1000) >= BOUND) is False


def test_a_range_is_compared_by_its_ends() -> None:
    assert RANGE <= 4096
    assert RANGE < 4097
    assert RANGE >= 1024
    assert (RANGE <= 1023) is False
    assert RANGE != 5000
    undecided: list[Callable[[], Any]] = [lambda: RANGE <= 4095, lambda: RANGE > 1024, lambda: RANGE == 2000]
    for compare in undecided:
        with pytest.raises(CostError, match="cannot be compared with"):
            compare()
    uses: list[Callable[[Any], Any]] = [int, float, lambda quantity: f"{quantity:,}"]
    for number in uses:
        with pytest.raises(CostError, match="1,024 to 4,096 FLOPs .* has no number"):
            number(RANGE)


def test_the_unknown_has_no_number() -> None:
    for use in (int, float, lambda q: q <= 1, lambda q: q == 1, lambda q: q > EXACT, lambda q: q > EXACT):
        with pytest.raises(CostError, match="Conv1d refuses T=5"):
            use(UNKNOWN)


def test_what_is_no_number_is_not_compared() -> None:
    assert EXACT != "1024"
    with pytest.raises(TypeError):
        assert EXACT < "2000"


def test_a_sum_is_known_as_well_as_its_least_known_part() -> None:
    assert repr(Quantity.total([EXACT, COUNTED])) == "2,048 FLOPs (counted)"
    assert repr(Quantity.total([EXTRAPOLATED, EXACT])) == "2,048 FLOPs (extrapolated: T confirmed to 138)"
    assert repr(Quantity.total([BOUND, EXACT])) == "at least 2,048 FLOPs (not counted: mine::gemm x2)"
    assert repr(Quantity.total([RANGE, EXACT])) == "2,048 to 5,120 FLOPs (depends on the input)"
    assert repr(Quantity.total([RANGE, UNKNOWN])) == "unknown (Conv1d refuses T=5)"


def test_a_float_is_no_size() -> None:
    with pytest.raises(CostError, match="no whole number"):
        range(Quantity(1.5))
