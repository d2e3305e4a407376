"""Every plot of the page as SVG: lines, dots, rectangles and texts over two axes, in the style sheet's colours.

Written here since these few forms need little, and matplotlib takes a second to be loaded and to draw one run's plots.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from typing import Literal, NamedTuple

from porism.report.axis import Axis

INK, PAPER = "currentColor", "var(--paper)"
SERIES = 12
"""How many colours the style sheet has for runs; the thirteenth starts again with the first."""
NORMAL, SMALL = (360.0, 245.0), (245.0, 166.0)
"""Width and height of a plot, and of those that stand three in a row. A letter is FONT high."""
FONT = 10.0
LETTER = 0.62
"""The width of a letter, as a share of its height: about, since the reader's browser chooses the font."""
LINE = 30.0
"""Of a vertical axis, what a tick takes."""
TICK, GAP = 3.5, 4.0
"""The length of a tick, and what is free beside a text."""

Point = tuple[float, float]
Anchor = Literal["start", "middle", "end"]


def series(number: int) -> int:
    """The place in the palette of the run with this number, from 1 on."""
    return (number - 1) % SERIES + 1


def role(number: int) -> str:
    """The colour to draw the run with this number in."""
    return f"var(--series-{series(number)})"


class RunPart(NamedTuple):
    """Whose part of a drawing it is and which, so that pointing at it tells."""

    number: int
    part: str


class Place(NamedTuple):
    """Where the axes lie in the drawing, and with them every value."""

    left: float
    top: float
    right: float
    bottom: float
    x: Axis
    y: Axis

    def __call__(self, x: float, y: float) -> Point:
        return self.across(self.x.share(x)), self.up(self.y.share(y))

    def across(self, share: float) -> float:
        return self.left + share * (self.right - self.left)

    def up(self, share: float) -> float:
        return self.bottom - share * (self.bottom - self.top)


@dataclass
class Axes:
    """What a painter draws on. Later parts lie over earlier ones; what has no position on an axis is left out."""

    size: tuple[float, float] = NORMAL
    names: Mapping[int, str] = field(default_factory=dict)
    """Of runs, by number."""
    prefix: str = ""
    """Of every id."""
    x: Axis = field(default_factory=Axis)
    y: Axis = field(default_factory=Axis)
    has_grid: bool = True
    parts: list[Callable[[Place], str]] = field(default_factory=list)
    """Each gives its SVG once it is known where values lie."""

    def line(
        self,
        points: Iterable[Point],
        colour: str,
        width: float = 1.5,
        *,
        is_dashed: bool = False,
        opacity: float = 1.0,
        run: RunPart | None = None,
    ) -> None:
        """A line from point to point, broken where one has no position."""
        known = self._include(points)
        dashes = ' stroke-dasharray="6 3"' if is_dashed else ""
        look = f'stroke="{colour}" stroke-width="{width:g}"{dashes}{_opacity(opacity)} stroke-linejoin="round"'
        self._add(lambda place: f'<path d="{self._path(known, place)}" fill="none" {look}/>', run)

    def dots(
        self,
        points: Iterable[Point],
        colour: str,
        radius: float = 3.0,
        *,
        opacity: float = 1.0,
        run: RunPart | None = None,
    ) -> None:
        """Filled circles: lines of no length with round ends."""
        known = self._include(points)
        look = f'stroke="{colour}" stroke-width="{2 * radius:.3g}"{_opacity(opacity)} stroke-linecap="round"'
        self._add(
            lambda place: (
                f'<path d="{"".join(f"M{_at(place(x, y))}h0" for x, y in known if self._has(x, y))}" {look}/>'
            ),
            run,
        )

    def circle(self, x: float, y: float, colour: str, radius: float = 3.0) -> None:
        """A circle that is filled with the paper."""
        look = f'r="{radius:g}" fill="{PAPER}" stroke="{colour}"'

        def svg(place: Place) -> str:
            across, down = place(x, y)
            return f'<circle cx="{across:.2f}" cy="{down:.2f}" {look}/>'

        if self._has(*self._include([(x, y)])[0]):
            self._add(svg)

    def bars(self, rectangles: Iterable[tuple[Point, Point]], colour: str) -> None:
        """Filled rectangles, each by two corners."""
        known = [(*self._include([a]), *self._include([b])) for a, b in rectangles]

        def svg(place: Place) -> str:
            corners = [(place(*a), place(*b)) for a, b in known]
            d = "".join(f"M{_at(a)}H{b[0]:.2f}V{b[1]:.2f}H{a[0]:.2f}z" for a, b in corners)
            return f'<path d="{d}" fill="{colour}"/>'

        self._add(svg)

    def across(self, y: float, text: str) -> None:
        """A dotted line over the whole width, named at its left end."""
        self.y.include([y])

        def svg(place: Place) -> str:
            height = place.up(self.y.share(y))
            line = f'<path d="M{place.left:.2f},{height:.2f}H{place.right:.2f}" {_thin(0.8)} stroke-dasharray="1 2"/>'
            return line + text_at(text, (place.left + GAP, height - 2), size=9)

        if self.y.has(y):
            self._add(svg)

    def upright(self, x: float) -> None:
        """A line over the whole height."""
        self.x.include([x])

        def svg(place: Place) -> str:
            return f'<path d="M{place.across(self.x.share(x)):.2f},{place.top:.2f}V{place.bottom:.2f}" {_thin(0.7)}/>'

        self._add(svg)

    def text(
        self, text: str, point: Point, shift: Point = (0, 0), size: float = FONT, anchor: Anchor = "start"
    ) -> None:
        """A text at a point, or beside it by so much to the right and down."""

        def svg(place: Place) -> str:
            across, down = place(*point)
            return text_at(text, (across + shift[0], down + shift[1]), size, anchor)

        if self._has(*point):
            self._add(svg)

    def svg(self, title: str) -> str:
        """The drawing, under a title for those who cannot see it."""
        width, height = self.size
        y_ticks = self.y.ticks(max(2, int(height // LINE))) if self.y.is_shown else []
        widest = max((len(text) for _, text in y_ticks), default=0) * LETTER * FONT
        left = (min(0.45 * width, widest) + TICK + 2 * GAP if y_ticks else GAP) + (FONT + GAP) * bool(self.y.label)
        bottom = (FONT + TICK + 2 * GAP if self.x.is_shown else GAP) + (FONT + GAP) * bool(self.x.label)
        # The last tick's text may end beyond the axis.
        place = Place(left, GAP + FONT / 2, width - 1.5 * FONT, height - bottom, self.x, self.y)
        x_ticks = self._x_ticks(place.right - place.left)
        frame = self._grid(place, x_ticks, y_ticks) + self._frame(place, x_ticks, y_ticks)
        body = "".join(part(place) for part in self.parts)
        head = f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(title)}"'
        return f'{head} font-size="{FONT:g}" fill="{INK}">{frame}{body}</svg>'

    def _x_ticks(self, width: float) -> list[tuple[float, str]]:
        """As many as have room beside each other."""
        ticks: list[tuple[float, str]] = []
        for most in (7, 6, 5, 4, 3, 2):
            ticks = self.x.ticks(most) if self.x.is_shown else []
            texts = [(self.x.share(value) * width, len(text) * LETTER * FONT) for value, text in ticks]
            if all(b - a >= (long + wide) / 2 + GAP for (a, long), (b, wide) in pairwise(texts)):
                break
        return ticks

    def _grid(self, place: Place, x_ticks: Sequence[tuple[float, str]], y_ticks: Sequence[tuple[float, str]]) -> str:
        if not self.has_grid:
            return ""
        upright = (f"M{place.across(self.x.share(x)):.2f},{place.top:.2f}V{place.bottom:.2f}" for x, _ in x_ticks)
        across = (f"M{place.left:.2f},{place.up(self.y.share(y)):.2f}H{place.right:.2f}" for y, _ in y_ticks)
        return f'<path d="{"".join(upright)}{"".join(across)}" {_thin(0.6)} stroke-opacity="0.12"/>'

    def _frame(self, place: Place, x_ticks: Sequence[tuple[float, str]], y_ticks: Sequence[tuple[float, str]]) -> str:
        """Both axes with their ticks and labels."""
        d, texts = "", []
        if self.y.is_shown:
            d += f"M{place.left:.2f},{place.top:.2f}V{place.bottom:.2f}"
            for value, text in y_ticks:
                height = place.up(self.y.share(value))
                d += f"M{place.left:.2f},{height:.2f}h{-TICK}"
                texts.append(text_at(text, (place.left - TICK - GAP, height + 0.36 * FONT), anchor="end"))
        if self.x.is_shown:
            d += f"M{place.left:.2f},{place.bottom:.2f}H{place.right:.2f}"
            for value, text in x_ticks:
                across = place.across(self.x.share(value))
                d += f"M{across:.2f},{place.bottom:.2f}v{TICK}"
                texts.append(text_at(text, (across, place.bottom + TICK + GAP / 2 + FONT), anchor="middle"))
        middle = (place.left + place.right) / 2, (place.top + place.bottom) / 2
        if self.x.label:
            texts.append(text_at(self.x.label, (middle[0], self.size[1] - GAP), anchor="middle"))
        if self.y.label:
            turned = f' transform="rotate(-90 {FONT:g} {middle[1]:.2f})"'
            texts.append(text_at(self.y.label, (FONT, middle[1]), anchor="middle", turned=turned))
        return f'<path d="{d}" {_thin(0.7)}/>{"".join(texts)}'

    def _include(self, points: Iterable[Point]) -> list[Point]:
        """The points, which lie within both axes from now on."""
        known = list(points)
        self.x.include(x for x, _ in known)
        self.y.include(y for _, y in known)
        return known

    def _has(self, x: float, y: float) -> bool:
        return self.x.has(x) and self.y.has(y)

    def _path(self, points: Sequence[Point], place: Place) -> str:
        d, command = "", "M"
        for x, y in points:
            known = self._has(x, y)
            d += f"{command}{_at(place(x, y))}" if known else ""
            command = "L" if known else "M"
        return d

    def _add(self, svg: Callable[[Place], str], run: RunPart | None = None) -> None:
        if run is None:
            self.parts.append(svg)
            return
        about = f"{escape(self.names[run.number])} ({escape(run.part)})"
        head = f'<g id="{self.prefix}-run-{run.number}-{escape(run.part)}"><title>{about}</title>'
        self.parts.append(lambda place: f"{head}{svg(place)}</g>")


Painter = Callable[[Axes], None]


def draw(
    paint: Painter,
    title: str,
    prefix: str,
    names: Mapping[int, str] | None = None,
    size: tuple[float, float] = NORMAL,
) -> str:
    """What a painter paints, as SVG. names: of runs, by number. Every id starts with the prefix."""
    axes = Axes(size, names or {}, prefix)
    paint(axes)
    return axes.svg(title)


def _at(point: Point) -> str:
    return f"{point[0]:.2f},{point[1]:.2f}"


def _thin(width: float) -> str:
    return f'fill="none" stroke="{INK}" stroke-width="{width:g}"'


def _opacity(opacity: float) -> str:
    return f' stroke-opacity="{opacity:.3g}"' if opacity < 1 else ""


def text_at(text: str, at: Point, size: float = FONT, anchor: Anchor = "start", turned: str = "") -> str:
    """A text at a place of the drawing."""
    look = f' font-size="{size:g}"' * (size != FONT) + f' text-anchor="{anchor}"' * (anchor != "start") + turned
    return f'<text x="{at[0]:.2f}" y="{at[1]:.2f}"{look}>{escape(text, quote=False)}</text>'
