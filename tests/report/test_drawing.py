"""Plots are SVG in which every value lies where its axes say, and texts stay texts."""

import math
import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from porism.report.drawing import INK, NORMAL, Axes, Painter, RunPart, draw


def svg(paint: Painter) -> ElementTree.Element:
    return ElementTree.fromstring(draw(paint, "A <title>", "plot", {1: "<one>"}))


def positions(d: str | None) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r"[ML]([-\d.]+),([-\d.]+)", d or "")]


def test_letters_of_any_language_stay_letters() -> None:
    assert "日本語 café &lt;1&gt;" in draw(lambda axes: axes.text("日本語 café <1>", (0, 0)), "", "plot")


def test_a_line_goes_through_its_points_between_the_ticks_they_lie_between() -> None:
    def paint(axes: Axes) -> None:
        axes.line([(0, 1.0), (5, 3.0), (10, 2.0)], "red", run=RunPart(1, "valid"))

    found = svg(paint)
    assert found.get("aria-label") == "A <title>"
    (group,) = found.findall("g")
    assert (group.get("id"), group.findtext("title")) == ("plot-run-1-valid", "<one> (valid)")
    line = positions(group.find("path").get("d"))  # type: ignore[union-attr]
    across: dict[float, float] = {}
    up: dict[float, float] = {}
    for text in found.findall("text"):
        where = across if text.get("text-anchor") == "middle" else up
        where[float(text.text or "")] = float(text.get("x" if where is across else "y", ""))
    assert line[1][0] == pytest.approx((across[4] + across[6]) / 2, abs=0.02)
    assert line[0][0] == pytest.approx(across[0], abs=0.02)
    # The text of a tick stands a third of a letter lower than its line.
    heights = [up[value] for value in (1.0, 3.0, 2.0)]
    assert [y for _, y in line] == [pytest.approx(height - 3.6, abs=0.02) for height in heights]
    assert all(0 <= x <= NORMAL[0] and 0 <= y <= NORMAL[1] for x, y in line)


@pytest.mark.parametrize("lost", [math.nan, math.inf, -math.inf])
def test_a_line_is_broken_where_a_value_has_no_position(lost: float) -> None:
    (line,) = (
        path
        for path in svg(lambda axes: axes.line([(0, 1.0), (1, 2.0), (2, lost), (3, 1.5)], "red")).findall("path")
        if path.get("stroke") == "red"
    )
    assert re.sub(r"[-\d.,]", "", line.get("d") or "") == "MLM"


def test_on_a_log_axis_equal_factors_are_equally_far() -> None:
    def paint(axes: Axes) -> None:
        axes.y.is_log = True
        axes.line([(0, 1.0), (1, 10.0), (2, 100.0), (3, 0.0)], "red")

    (line,) = (positions(path.get("d")) for path in svg(paint).findall("path") if path.get("stroke") == "red")
    heights = [y for _, y in line]
    assert len(heights) == 3, "0 has no position"
    assert heights[0] - heights[1] == pytest.approx(heights[1] - heights[2], abs=0.02)


@pytest.mark.parametrize(
    "values", [[0.0], [-3.5, -3.5], [1e-320, 0.0], [1e-149, 1e149], [-1e308, 1e308], [1e149], [1.0, 1.0 + 1e-15], []]
)
@pytest.mark.parametrize("is_log", [False, True])
@pytest.mark.parametrize("is_whole", [False, True])
def test_any_values_can_be_drawn(values: list[float], is_log: bool, is_whole: bool) -> None:
    def paint(axes: Axes) -> None:
        axes.y.is_log, axes.y.is_whole = is_log, is_whole
        axes.line([(number, value) for number, value in enumerate(values)], "red")
        axes.dots([(number, value) for number, value in enumerate(values)], "red")
        axes.circle(0, math.nan, "red")

    drawn = draw(paint, "", "plot")
    assert "nan" not in drawn
    assert "inf" not in drawn


def test_dots_and_circles_and_bars_are_where_they_belong() -> None:
    def paint(axes: Axes) -> None:
        axes.x.limits = axes.y.limits = (0, 4)
        axes.dots([(2, 2)], "red", 3)
        axes.circle(2, 2, "blue")
        axes.bars([((1, 0), (3, 2))], "green")

    found = svg(paint)
    dot, bar = (path for path in found.findall("path") if "red" in path.attrib.values() or path.get("fill") == "green")
    circle = found.find("circle")
    assert circle is not None
    middle = float(circle.get("cx", "")), float(circle.get("cy", ""))
    assert positions(dot.get("d")) == [middle]
    left, bottom, right, top = map(float, re.findall(r"[\d.]+", bar.get("d") or "")[:4])
    assert (left + right) / 2 == pytest.approx(middle[0], abs=0.02)
    assert top == middle[1] < bottom


def test_every_stroke_of_the_frame_has_the_page_s_ink() -> None:
    def paint(axes: Axes) -> None:
        axes.line([(0, 0), (1, 1)], INK)
        axes.across(0.5, "limit")
        axes.upright(0.5)

    found = svg(paint)
    assert found.get("fill") == INK
    assert {path.get("stroke") for path in found.findall("path")} == {INK}


@pytest.mark.parametrize("limits", [(0.0, 1.0), (17_000.0, 52_000.0), (1_000_000.0, 1_000_007.0), (99.999, 100.001)])
@pytest.mark.parametrize("is_log", [False, True])
def test_numbers_under_an_axis_stand_apart(limits: tuple[float, float], is_log: bool) -> None:
    def paint(axes: Axes) -> None:
        axes.x.is_log = is_log and limits[0] > 0
        axes.line([(x, 1.0) for x in limits], "red")

    texts = [text for text in svg(paint).findall("text") if text.get("text-anchor") == "middle"]
    assert len(texts) > 1
    ends = [(float(text.get("x", "")), 3.1 * len(text.text or "")) for text in texts]
    assert all(b - a > half + other for (a, half), (b, other) in pairwise(ends))
