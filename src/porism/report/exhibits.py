"""What models have to show, as HTML: pictures, sounds, matrices, curves, maps, histograms, weighed texts and tables."""

import base64
import io
from collections.abc import Iterable
from functools import singledispatch
from html import escape
from typing import TYPE_CHECKING

from porism.errors import MissingExtra
from porism.report import numbers
from porism.report.comparison import Entry
from porism.report.drawing import Painter, adopt, draw, plain_ticks, role, series
from porism.report.markup import fold, number_cell, scrolled, section
from porism.runs.exhibits import (
    AnyExhibit,
    Histogram,
    Lines,
    Matrix,
    Picture,
    Pictures,
    Points,
    Sounds,
    Table,
    WeighedTexts,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SMALLEST_PICTURE = 96
"""Pixels of the screen that a picture's shorter side takes at least: small ones are enlarged."""


def exhibits(entries: Iterable[Entry]) -> str:
    """A fold a run, open where there is only one."""
    shown = [entry for entry in entries if entry.record.exhibits]
    folds = []
    for entry in shown:
        parts = [article(exhibit, f"show{entry.number}-{place}") for place, exhibit in enumerate(entry.record.exhibits)]
        folds.append(fold(entry, "".join(parts), opened=len(shown) == 1))
    return section("What there is to see", "".join(folds)) if folds else ""


def article(exhibit: AnyExhibit, prefix: str) -> str:
    """One exhibit under its title; every id in it starts with the prefix."""
    about = f'<p class="aside">{escape(exhibit.about)}</p>' if exhibit.about else ""
    try:
        content = _content(exhibit, prefix)
    except MissingExtra as missing:
        content = f'<p class="missing">Not drawn here: {escape(str(missing))}</p>'
    return f"<article><h3>{escape(exhibit.title)}</h3>{about}{content}</article>"


@singledispatch
def _content(exhibit: object, prefix: str) -> str:
    raise TypeError(f"there is no way to draw {type(exhibit).__name__}.")


@_content.register
def _(exhibit: Pictures, prefix: str) -> str:
    shown = "".join(
        f'<li style="width: {_enlarged(one) * one.width}px">{_image(one)}<span>{escape(one.caption)}</span></li>'
        for one in exhibit.pictures
    )
    return f'<ul class="pictures">{shown}</ul>'


@_content.register
def _(exhibit: Sounds, prefix: str) -> str:
    """A player each, with the sound within the page."""
    shown = []
    for number, clip in enumerate(exhibit.clips, 1):
        data = base64.b64encode(clip.sound).decode()
        player = (
            f'<audio controls preload="metadata" src="data:{escape(clip.kind)};base64,{data}" '
            f'aria-label="{escape(exhibit.title)} {number}"></audio>'
        )
        shown.append(f"<li>{player}<span>{escape(clip.caption)}</span></li>")
    return f'<ul class="sounds">{"".join(shown)}</ul>'


@_content.register
def _(exhibit: Matrix, prefix: str) -> str:
    """Every cell on a shade of its share of the row."""
    head = "<th></th>" + "".join(f"<th class=number>{escape(name)}</th>" for name in exhibit.columns)
    rows = []
    for name, counts in zip(exhibit.rows, exhibit.counts, strict=True):
        whole = max(1, sum(counts))
        cells = "".join(
            f'<td class=number style="--share: {100 * count / whole:.0f}%">{numbers.count(count)}</td>'
            for count in counts
        )
        rows.append(f'<th scope="row">{escape(name)}</th>{cells}')
    return f'<div class="matrix">{scrolled(head, rows, exhibit.title)}</div>'


@_content.register
def _(exhibit: Lines, prefix: str) -> str:
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
def _(exhibit: Points, prefix: str) -> str:
    def paint(axes: "Axes") -> None:
        # Thousands of dots are small, a few can be seen from afar.
        size = min(40.0, max(6.0, 2000 / sum(map(len, exhibit.groups.values()))))
        for number, points in enumerate(exhibit.groups.values(), 1):
            x, y = zip(*points, strict=True)
            axes.scatter(x, y, color=role(number), s=size, linewidths=0, alpha=0.8)
        for text, place in exhibit.labels.items():
            axes.annotate(text, place, (0, 2), textcoords="offset points", ha="center", fontsize=6)
        axes.set_xticks([])
        axes.set_yticks([])

    return _plot(paint, exhibit.title, list(exhibit.groups), prefix)


@_content.register
def _(exhibit: Histogram, prefix: str) -> str:
    def paint(axes: "Axes") -> None:
        axes.stairs(exhibit.counts, exhibit.edges, fill=True, color=role(1))
        axes.locator_params(axis="x", integer=all(edge.is_integer() for edge in exhibit.edges))
        axes.locator_params(axis="y", integer=True)
        axes.set_xlabel(exhibit.x)
        axes.set_ylabel(exhibit.y)

    return f"<figure>{adopt(draw(paint), exhibit.title, {}, prefix)}</figure>"


@_content.register
def _(exhibit: WeighedTexts, prefix: str) -> str:
    """Every word on a shade of its share of the heaviest; its weight is told where a pointer rests."""
    shown = []
    for text in exhibit.texts:
        most = max(text.weights, default=0.0) or 1.0
        words = " ".join(
            f'<span style="--share: {100 * weight / most:.0f}%" title="{numbers.score(weight)}">{escape(word)}</span>'
            for word, weight in zip(text.words, text.weights, strict=True)
        )
        shown.append(f"<li><p>{words}</p><span class=caption>{escape(text.caption)}</span></li>")
    return f'<ul class="weighed">{"".join(shown)}</ul>'


@_content.register
def _(exhibit: Table, prefix: str) -> str:
    numeric = [
        all(isinstance(row[place], int | float) for row in exhibit.rows) for place in range(len(exhibit.columns))
    ]
    head = "".join(
        f"<th{' class=number' * number}>{escape(name)}</th>"
        for name, number in zip(exhibit.columns, numeric, strict=True)
    )
    rows = ["".join(_cell(value) for value in row) for row in exhibit.rows]
    return scrolled(head, rows, exhibit.title)


def _cell(value: str | int | float) -> str:
    if isinstance(value, str):
        return f"<td>{escape(value)}</td>"
    return number_cell(numbers.count(value) if isinstance(value, int) else numbers.score(value), value)


def _plot(paint: Painter, title: str, names: list[str], prefix: str) -> str:
    legend = "".join(
        f'<li><span class="dot" style="--run: var(--series-{series(number)})"></span>{escape(name)}</li>'
        for number, name in enumerate(names, 1)
    )
    return f'<ul class="legend">{legend}</ul><figure>{adopt(draw(paint), title, {}, prefix)}</figure>'


def _enlarged(picture: Picture) -> int:
    """How many pixels of the screen one of the picture's takes, down and across."""
    return max(1, -(-SMALLEST_PICTURE // min(picture.width, picture.height)))


def _image(picture: Picture) -> str:
    """As PNG within the page."""
    try:
        from PIL import Image
    except ImportError:
        raise MissingExtra('pictures need pillow, which is not installed: pip install "porism[report]"') from None
    stream = io.BytesIO()
    size, times = (picture.width, picture.height), _enlarged(picture)
    Image.frombytes("L" if picture.colours == 1 else "RGB", size, picture.pixels).save(stream, format="PNG")
    data = base64.b64encode(stream.getvalue()).decode()
    return (
        f'<img src="data:image/png;base64,{data}" width="{times * picture.width}" height="{times * picture.height}" '
        f'alt="{escape(picture.caption)}">'
    )
