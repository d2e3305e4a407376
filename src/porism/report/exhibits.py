"""What models have to show: pictures, sounds, matrices, plots, weighed texts and tables, as the page's articles."""

import base64
import io
from collections.abc import Iterable
from functools import singledispatch
from typing import Any, NamedTuple

from markupsafe import Markup

from porism.errors import MissingExtra
from porism.report.comparison import Entry
from porism.report.drawing import Axes, Painter, draw, role
from porism.report.templates import render
from porism.runs.exhibits import (
    AnyExhibit,
    Clip,
    Histogram,
    Lines,
    Matrix,
    Picture,
    Pictures,
    Points,
    Sounds,
    Table,
    WeighedText,
    WeighedTexts,
)

SMALLEST_PICTURE = 96
"""Pixels of the screen that a picture's shorter side takes at least: small ones are enlarged."""


class NamedPlot(NamedTuple):
    """A plot and the names of its series, for the legend."""

    names: list[str]
    svg: str


class EncodedPicture(NamedTuple):
    """A picture as PNG in base64, and its size on the screen."""

    width: int
    height: int
    data: str


def exhibits(entries: Iterable[Entry]) -> list[tuple[Entry, list[Markup]]]:
    """The entries that have something to show, with an article for each exhibit."""
    return [
        (entry, [article(exhibit, f"show{entry.number}-{at}") for at, exhibit in enumerate(entry.record.exhibits)])
        for entry in entries
        if entry.record.exhibits
    ]


def article(exhibit: AnyExhibit, prefix: str) -> Markup:
    """One exhibit under its title; every id in it starts with the prefix."""
    content, missing = None, ""
    try:
        content = _content(exhibit, prefix)
    except MissingExtra as error:
        missing = str(error)
    return render("exhibit.html", exhibit=exhibit, kind=type(exhibit).__name__, content=content, missing=missing)


@singledispatch
def _content(exhibit: object, prefix: str) -> Any:
    """What the template shows beside the exhibit's own fields."""
    raise TypeError(f"there is no way to draw {type(exhibit).__name__}.")


@_content.register
def _(exhibit: Pictures, prefix: str) -> list[tuple[Picture, EncodedPicture]]:
    return [(picture, _image(picture)) for picture in exhibit.pictures]


@_content.register
def _(exhibit: Sounds, prefix: str) -> list[tuple[Clip, str]]:
    """Each sound within the page."""
    return [(clip, base64.b64encode(clip.sound).decode()) for clip in exhibit.clips]


@_content.register
def _(exhibit: Matrix, prefix: str) -> list[tuple[str, list[tuple[int, str]]]]:
    """Each count with its share of the row in percent."""
    rows = zip(exhibit.rows, exhibit.counts, strict=True)
    return [(name, [(count, f"{100 * count / max(1, sum(counts)):.0f}") for count in counts]) for name, counts in rows]


@_content.register
def _(exhibit: Table, prefix: str) -> list[tuple[str, bool]]:
    """Each column's title, and whether it holds numbers alone; some have their digits fixed, and so are texts."""
    return [
        (title, all(_is_number(row[column]) for row in exhibit.rows)) for column, title in enumerate(exhibit.columns)
    ]


def _is_number(cell: str | float) -> bool:
    """Empty, too: a number that is not known."""
    try:
        float(cell or 0)
    except ValueError:
        return False
    return True


@_content.register
def _(exhibit: Lines, prefix: str) -> NamedPlot:
    def paint(axes: Axes) -> None:
        axes.x.label, axes.y.label = exhibit.x, exhibit.y
        axes.x.is_log, axes.y.is_log = exhibit.log_x, exhibit.log_y
        for number, points in enumerate(exhibit.lines.values(), 1):
            axes.line(points, role(number))
            axes.dots(points, role(number), 1.8)

    return _plot(paint, exhibit.title, list(exhibit.lines), prefix)


@_content.register
def _(exhibit: Points, prefix: str) -> NamedPlot:
    def paint(axes: Axes) -> None:
        axes.x.is_shown = axes.y.is_shown = False
        # Thousands of dots are small, a few can be seen from afar.
        radius = min(3.2, max(1.2, 22 / max(1, sum(map(len, exhibit.groups.values()))) ** 0.5))
        for number, points in enumerate(exhibit.groups.values(), 1):
            axes.dots(points, role(number), radius, opacity=0.8)
        for text, place in exhibit.labels.items():
            axes.text(text, place, (0, -2), size=6, anchor="middle")

    return _plot(paint, exhibit.title, list(exhibit.groups), prefix)


@_content.register
def _(exhibit: Histogram, prefix: str) -> NamedPlot:
    def paint(axes: Axes) -> None:
        axes.x.label, axes.y.label = exhibit.x, exhibit.y
        axes.x.is_whole, axes.y.is_whole = all(edge.is_integer() for edge in exhibit.edges), True
        axes.y.limits = 0, 1.05 * max([1, *exhibit.counts])
        bars = zip(exhibit.edges, exhibit.edges[1:], exhibit.counts, strict=False)
        axes.bars([((left, 0), (right, count)) for left, right, count in bars], role(1))

    return _plot(paint, exhibit.title, [], prefix)


@_content.register
def _(exhibit: WeighedTexts, prefix: str) -> list[tuple[WeighedText, list[tuple[str, float, str]]]]:
    """Each word with its weight, and that as a share of the largest in percent."""
    return [
        (
            text,
            [
                (word, weight, f"{100 * weight / (max(text.weights) or 1.0):.0f}")
                for word, weight in zip(text.words, text.weights, strict=True)
            ],
        )
        for text in exhibit.texts
    ]


def _plot(paint: Painter, title: str, names: list[str], prefix: str) -> NamedPlot:
    return NamedPlot(names, draw(paint, title, prefix))


def _image(picture: Picture) -> EncodedPicture:
    try:
        from PIL import Image
    except ImportError:
        raise MissingExtra('pictures need pillow, which is not installed: pip install "porism[report]"') from None
    stream = io.BytesIO()
    mode = "L" if picture.colours == 1 else "RGB"
    Image.frombytes(mode, (picture.width, picture.height), picture.pixels).save(stream, format="PNG")
    # How many pixels of the screen one of the picture's takes, down and across.
    times = max(1, -(-SMALLEST_PICTURE // min(picture.width, picture.height)))
    return EncodedPicture(times * picture.width, times * picture.height, base64.b64encode(stream.getvalue()).decode())
