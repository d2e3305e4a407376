"""The style of every plot of the page: one size, drawn as SVG."""

import io
import re
import warnings
from collections.abc import Callable, Mapping
from html import escape
from typing import TYPE_CHECKING, Any

from porism.errors import MissingExtra
from porism.report.numbers import tick

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.typing import RcKeyType


INK, PAPER = "#010203", "#010204"
SERIES = 12
"""How many colours the style sheet has for runs; the thirteenth starts again with the first."""


def series(number: int) -> int:
    """The place in the palette of the run with this number, from 1 on."""
    return (number - 1) % SERIES + 1


def role(number: int) -> str:
    """The colour to draw the run with this number in."""
    return f"#0100{series(number):02x}"


def gid(number: int, what: str) -> str:
    """The id of a part of the drawing that belongs to a run, so that pointing at it tells which."""
    return f"run-{number}-{what}"


def adopt(svg: str, title: str, names: Mapping[int, str], prefix: str) -> str:
    """The drawing without prologue and metadata, under a title for those who cannot see it, its ids prefixed."""
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    view = re.search(r'viewBox="[^"]*"', svg)
    head = f'<svg {view.group() if view else ""} role="img" aria-label="{escape(title)}">'
    svg = re.sub(r"<svg[^>]*>", lambda _: head, svg, count=1)
    svg = svg.replace("xlink:href=", "href=")
    svg = re.sub(
        r'<g id="run-(\d+)-(\w+)">',
        lambda found: f"{found.group()}<title>{escape(names[int(found.group(1))])} ({found.group(2)})</title>",
        svg,
    )
    svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{prefix}-", svg)
    svg = re.sub(r"#0100([0-9a-f]{2})", lambda found: f"var(--series-{int(found.group(1), 16)})", svg)
    return svg.replace(INK, "currentColor").replace(PAPER, "var(--paper)")


STYLE: "dict[RcKeyType, Any]" = {
    "svg.fonttype": "none",
    "svg.hashsalt": "porism",
    "text.parse_math": False,
    "font.size": 10.0,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "figure.facecolor": "none",
    "figure.figsize": (5.0, 3.4),
    "figure.constrained_layout.use": True,
}

Painter = Callable[["Axes"], None]


SMALL = (3.4, 2.3)
"""Inches of the plots that stand three in a row."""


def draw(paint: Painter, size: tuple[float, float] | None = None) -> str:
    """The drawing as SVG, in inches of `size` where it is given."""
    try:
        import matplotlib
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra('plots need matplotlib, which is not installed: pip install "porism[report]"') from None
    stream = io.StringIO()
    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        # Text stays text in the SVG, and the reader's browser has the letters that matplotlib's own font lacks.
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        figure = Figure(size)
        axes = figure.subplots()
        axes.grid(color=INK, alpha=0.12, linewidth=0.6)
        axes.set_axisbelow(True)
        paint(axes)
        # Not figure.savefig, which draws once more before for a layout that is settled by the drawing itself.
        FigureCanvasSVG(figure).print_svg(stream, metadata={"Date": None})  # type: ignore[no-untyped-call]
    return stream.getvalue()


def plain_ticks(axis: "Axis") -> None:
    """Plain numbers on a logarithmic axis, and enough of them where it spans less than a decade."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    low, high = axis.get_view_interval()
    if high < 3 * low:
        axis.set_major_locator(MaxNLocator(5))
    elif high < 12 * low:
        axis.set_major_locator(LogLocator(subs=(1.0, 1.5, 2.0, 3.0, 5.0, 7.0)))
    else:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < 300 * low else (1.0,)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: tick(value)))
