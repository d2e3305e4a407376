"""How every plot of the page looks: one style, one size, drawn as SVG."""

import io
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from porism.errors import MissingExtra
from porism.report.numbers import tick
from porism.report.svg import INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.typing import RcKeyType

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


def draw(paint: Painter) -> str:
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra('plots need matplotlib, which is not installed: pip install "porism[report]"') from None
    stream = io.StringIO()
    with matplotlib.rc_context(STYLE):
        figure = Figure()
        axes = figure.subplots()
        axes.grid(color=INK, alpha=0.12, linewidth=0.6)
        axes.set_axisbelow(True)
        paint(axes)
        figure.savefig(stream, format="svg", metadata={"Date": None})
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
