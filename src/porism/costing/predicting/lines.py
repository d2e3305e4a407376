"""Several formulas over one letter in one picture."""

from collections.abc import Mapping
from os import PathLike
from pathlib import Path

from sympy import Expr, Symbol

from porism.errors import MissingExtra, RunError


def plot_lines(path: str | PathLike[str], letter: Symbol, title: str, lines: Mapping[str, Expr], largest: int) -> None:
    """Draw formulas in one letter by their names, doubling along both axes. The suffix tells the format."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra('plots need matplotlib, which is not installed: pip install "porism[report]"') from None
    sizes = sorted({max(1, round(largest * 2 ** (-step / 8))) for step in range(81)})
    with matplotlib.rc_context({"svg.hashsalt": "porism", "axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(figsize=(6.0, 3.8), constrained_layout=True)
        axes = figure.subplots()
        for number, (name, formula) in enumerate(lines.items()):
            values = [float(formula.subs(letter, size)) for size in sizes]
            # From light to dark, in the order they came; the last, the one to compare with, dashed.
            last = number == len(lines) - 1
            colour = "0.35" if last else matplotlib.colormaps["viridis"](0.9 - 0.8 * number / max(len(lines) - 2, 1))
            axes.loglog(sizes, values, label=name, color=colour, linestyle="--" if last else "-")
        axes.set_xscale("log", base=2)
        axes.set_xlabel(letter.name)
        axes.set_ylabel(title)
        axes.legend(frameon=False)
        try:
            figure.savefig(Path(path))
        except (OSError, ValueError) as error:
            raise RunError(
                f"the picture cannot be written to {path}: {error}. Name a file that ends in .svg or .png."
            ) from error
