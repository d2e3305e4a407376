"""Numbers as people read them."""

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from porism.report import numbers


def test_the_examples_hold() -> None:
    assert doctest.testmod(numbers).attempted >= 6
    assert doctest.testmod(numbers).failed == 0


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0, "0"),
        (830, "830"),
        (999.6, "1.0 k"),
        (6_104_000, "6.1 M"),
        (123_400_000, "123 M"),
        (2.5e21, "2,500 E"),
    ],
)
def test_amount(value: float | None, text: str) -> None:
    assert numbers.amount(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (138.384, "138.4"),
        (98.5151, "98.52"),
        (4.93, "4.930"),
        (0.97312, "0.9731"),
        (1.0, "1.000"),
        (12_345.6, "12,346"),
        (0.0, "0.0000"),
        (-1.5, "−1.500"),
        (None, "–"),
        (float("nan"), "–"),
        (float("inf"), "infinite"),
    ],
)
def test_score(value: float | None, text: str) -> None:
    assert numbers.score(value) == text


@pytest.mark.parametrize(
    ("ours", "theirs", "text"),
    [(154.92, 159.64, "−4.7"), (160.0, 159.64, "+0.4"), (159.65, 159.64, "0.0"), (0.98, 0.9731, "+0.0069")],
)
def test_difference(ours: float, theirs: float, text: str) -> None:
    assert numbers.difference(ours, theirs) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0 s"),
        (0.04, "40 ms"),
        (99.4, "99.4 s"),
        (99.6, "1 min 40 s"),
        (3599.7, "1 h 00 min"),
        (86_400.0, "24 h 00 min"),
        (None, "–"),
    ],
)
def test_duration(seconds: float | None, text: str) -> None:
    assert numbers.duration(seconds) == text


@pytest.mark.parametrize(
    ("part", "text"), [(0, "0.0 %"), (0.0001, "< 0.1 %"), (0.031, "3.1 %"), (0.0996, "10 %"), (1, "100 %")]
)
def test_percent(part: float, text: str) -> None:
    assert numbers.percent(part) == text


@given(st.floats(1e-3, 1e6))
def test_a_score_reads_back_to_four_figures(value: float) -> None:
    assert float(numbers.score(value).replace(",", "")) == pytest.approx(value, rel=5e-4, abs=5e-5)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, numbers.MISSING),
        (3.17e-5, "31.7 µs"),
        (0.25, "250 ms"),
        (0.9999, "1 s"),
        (12.34, "12.3 s"),
        (2e-9, "2 ns"),
        (0.00099996, "1 ms"),
    ],
)
def test_brief(seconds: float | None, text: str) -> None:
    assert numbers.brief(seconds) == text


@pytest.mark.parametrize(
    ("value", "low", "high", "text"),
    [
        (0.032, 0.0318, 0.0322, "0.03200 (0.03180 to 0.03220)"),
        (4.63, 3.9, 5.4, "4.63 (3.90 to 5.40)"),
        (12.0, -31.0, 55.0, f"12 ({numbers.MINUS}31 to 55)"),
        (3.0, 3.0, 3.0, "3.000 (3.000 to 3.000)"),
    ],
)
def test_the_ends_of_an_interval_can_be_told_apart(value: float, low: float, high: float, text: str) -> None:
    assert numbers.ranged(value, low, high) == text


@pytest.mark.parametrize(
    ("value", "margin", "text"),
    [
        (0.815, 0.0243, "0.815 ± 0.024"),
        (0.8151, 0.0996, "0.82 ± 0.10"),
        (101.0, 0.0, "101.0 ± 0.0"),
        (5.0, None, "5.000"),
    ],
)
def test_a_number_has_the_decimals_of_its_margin(value: float, margin: float | None, text: str) -> None:
    assert numbers.with_margin(value, margin) == text


def test_metrics_are_written_as_the_field_writes_them() -> None:
    assert numbers.sentence(numbers.metric_name("cer")) == "CER"
    assert numbers.metric_name("word_jaccard") == "word jaccard"
