"""What models have to show: pictures, sounds, matrices, plots, weighed texts and tables, as the page's articles."""

import base64
import io
from collections.abc import Iterable
from functools import singledispatch
from typing import TYPE_CHECKING, Any, NamedTuple

from markupsafe import Markup

from porism.errors import MissingExtra
from porism.report.comparison import Entry
from porism.report.drawing import Painter, adopt, draw, plain_ticks, role
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

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
    def paint(axes: "Axes") -> None:
        for number, points in enumerate(exhibit.lines.values(), 1):
            axes.plot(*zip(*points, strict=True), color=role(number), marker="o", markersize=3)
        axes.set_xlabel(exhibit.x)
        axes.set_ylabel(exhibit.y)
        for axis, scale, is_log in (
            (axes.xaxis, axes.set_xscale, exhibit.log_x),
            (axes.yaxis, axes.set_yscale, exhibit.log_y),
        ):
            if is_log:
                scale("log")
                plain_ticks(axis)

    return _plot(paint, exhibit.title, list(exhibit.lines), prefix)


@_content.register
def _(exhibit: Points, prefix: str) -> NamedPlot:
    def paint(axes: "Axes") -> None:
        # Thousands of dots are small, a few can be seen from afar.
        size = min(40.0, max(6.0, 2000 / max(1, sum(map(len, exhibit.groups.values())))))
        for number, points in enumerate(exhibit.groups.values(), 1):
            x, y = [x for x, _ in points], [y for _, y in points]
            axes.scatter(x, y, color=role(number), s=size, linewidths=0, alpha=0.8)
        for text, place in exhibit.labels.items():
            axes.annotate(text, place, (0, 2), textcoords="offset points", ha="center", fontsize=6)
        axes.set_xticks([])
        axes.set_yticks([])

    return _plot(paint, exhibit.title, list(exhibit.groups), prefix)


@_content.register
def _(exhibit: Histogram, prefix: str) -> NamedPlot:
    def paint(axes: "Axes") -> None:
        axes.stairs(exhibit.counts, exhibit.edges, fill=True, color=role(1))
        axes.locator_params(axis="x", integer=all(edge.is_integer() for edge in exhibit.edges))
        axes.locator_params(axis="y", integer=True)
        axes.set_xlabel(exhibit.x)
        axes.set_ylabel(exhibit.y)

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
    return NamedPlot(names, adopt(draw(paint), title, {}, prefix))


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
