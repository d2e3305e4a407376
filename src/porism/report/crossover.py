"""Two costs over one letter, as a picture in a file: where one overtakes the other."""

import math
from pathlib import Path

from porism.costing.comparison import Comparison
from porism.errors import MissingExtra, RunError

COLOURS = ("#2563a8", "#c2571a")


def write_crossing(comparison: Comparison, file: Path) -> None:
    """Draw both costs, doubling along both axes, and mark where their order changes. The suffix tells the format."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra('plots need matplotlib, which is not installed: pip install "porism[report]"') from None
    middle = math.log2(comparison.crossing or 1024)
    sizes = sorted({max(1, round(2 ** (middle - 5 + step / 8))) for step in range(81)})
    with matplotlib.rc_context({"svg.hashsalt": "porism", "axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(figsize=(6.0, 3.8), constrained_layout=True)
        axes = figure.subplots()
        for name, colour, values in zip(comparison.names, COLOURS, comparison.values(sizes), strict=True):
            axes.loglog(sizes, values, color=colour, label=name)
        if comparison.crossing:
            axes.axvline(comparison.crossing, color="0.5", linewidth=0.8, linestyle=":")
            axes.annotate(
                f" {comparison.letter} = {comparison.crossing:,}",
                (comparison.crossing, 0.02),
                xycoords=("data", "axes fraction"),
            )
        axes.set_xlabel(comparison.letter)
        axes.set_ylabel(comparison.title)
        axes.legend(frameon=False)
        try:
            figure.savefig(file)
        except (OSError, ValueError) as error:
            raise RunError(
                f"the picture cannot be written to {file}: {error}. Name a file that ends in .svg or .png."
            ) from error


def draw(comparison: Comparison, width: int = 64, height: int = 14) -> str:
    """Both costs over the letter, doubling along both axes: ● the first, ○ the second, ◉ both."""
    middle = comparison.crossing or 1024
    low, high = max(0.0, math.log2(middle) - 5), math.log2(middle) + 5
    sizes = [max(1, round(2 ** (low + (high - low) * column / (width - 1)))) for column in range(width)]
    heights = [[math.log2(max(value, 1)) for value in values] for values in comparison.values(sizes)]
    bottom, top = min(map(min, heights)), max(map(max, heights))
    canvas = [[" "] * width for _ in range(height)]
    for values, mark in zip(heights, "●○", strict=True):
        for column, value in enumerate(values):
            row = round((top - value) / max(top - bottom, 1e-9) * (height - 1))
            canvas[row][column] = "◉" if canvas[row][column] not in (" ", mark) else mark
    labels = [f"{2**top:.2g}", *[""] * (height - 2), f"{2**bottom:.2g}"]
    lines = [f"{label:>8} ┤{''.join(row)}" for label, row in zip(labels, canvas, strict=True)]
    ends = f"{comparison.letter}={sizes[0]}", f"{comparison.letter}={sizes[-1]}"
    foot = f"{'':>9}└{'─' * width}\n{'':>10}{ends[0]}{ends[1]:>{width - len(ends[0])}}"
    return "\n".join([*lines, foot, f"{'':>10}● {comparison.names[0]}   ○ {comparison.names[1]}   {comparison.title}"])
