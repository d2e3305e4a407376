"""Ticks are round numbers within the range, enough of them to read it and few enough to stand beside each other."""

import math
import re
from itertools import pairwise

import pytest

from porism.report.axis import Axis

RANGES = [(0.0, 1.0), (0.87, 0.88), (-3.0, 250.0), (1.0, 20.0), (0.0, 7e8), (1e-7, 3e-7), (99.0, 101.0), (-0.2, -0.1)]


def number(text: str) -> float:
    digits, _, prefix = text.replace("\N{MINUS SIGN}", "-").partition(" ")
    return float(digits) * 1000.0 ** ["", "k", "M", "G", "T", "P", "E"].index(prefix)


@pytest.mark.parametrize("limits", RANGES)
@pytest.mark.parametrize("most", [2, 5, 7])
def test_linear_ticks_are_few_even_and_say_their_value(limits: tuple[float, float], most: int) -> None:
    ticks = Axis(limits=limits).ticks(most)
    values = [value for value, _ in ticks]
    assert 1 <= len(ticks) <= most + 1
    assert all(limits[0] - 1e-9 <= value <= limits[1] + 1e-9 for value in values)
    steps = [b - a for a, b in pairwise(values)]
    assert steps == [pytest.approx(steps[0])] * len(steps)
    assert [number(text) for _, text in ticks] == [pytest.approx(value) for value in values]
    assert len({text for _, text in ticks}) == len(ticks)
    decimals = {len(re.sub(r"^.*\.", "", text)) if "." in text else 0 for _, text in ticks if "e" not in text}
    assert len(decimals) <= 1 or max(map(abs, values)) >= 1e4, "as many decimals in each"


@pytest.mark.parametrize("limits", [(0.95, 1.05), (1.0, 3.0), (0.5, 200.0), (0.0, 7e6)])
def test_whole_ticks_have_no_decimals(limits: tuple[float, float]) -> None:
    ticks = Axis(limits=limits, is_whole=True).ticks(6)
    assert ticks
    assert all(value.is_integer() for value, _ in ticks)
    assert limits[1] >= 1e4 or all(text.isdigit() for _, text in ticks)


@pytest.mark.parametrize("limits", [(80.0, 400.0), (1.0, 64.0), (0.01, 5e4), (1e-12, 1e12), (3.0, 11.0), (1.9, 2.1)])
@pytest.mark.parametrize("most", [2, 4, 7])
def test_logarithmic_ticks_are_within_the_range_and_few(limits: tuple[float, float], most: int) -> None:
    ticks = Axis(limits=limits, is_log=True).ticks(most)
    assert 1 <= len(ticks) <= most + 1
    assert all(limits[0] <= value <= limits[1] for value, _ in ticks)


@pytest.mark.parametrize("is_log", [False, True])
def test_a_range_holds_all_values_with_a_margin(is_log: bool) -> None:
    axis = Axis(is_log=is_log)
    axis.include([3.0, math.nan, 5.0])
    axis.include([11.0, math.inf])
    low, high = axis.range()
    assert 2 < low < 3
    assert 11 < high < 12.5
    assert axis.share(low) == pytest.approx(0)
    assert axis.share(high) == pytest.approx(1)
    assert 0 < axis.share(3.0) < axis.share(5.0) < axis.share(11.0) < 1


def test_names_stand_in_place_of_numbers() -> None:
    assert Axis(named_ticks=[(0, "dropout")], limits=(0, 1)).ticks(5) == [(0, "dropout")]
