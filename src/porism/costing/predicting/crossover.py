"""Where one cost overtakes another along a letter, and the largest size within a budget."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import sympy
from sympy import Expr, Symbol

from porism.costing.fitting.basis import symbol
from porism.costing.quantity import Quantity
from porism.errors import CostError, MissingExtra, RecipeError, RunError

LARGEST = 2**62
"""No length, width or batch goes beyond this."""

EVERY_SIZE_TO = 1024
"""Sizes up to which a formula with floors or branches is looked at one by one; beyond, at every doubling."""

COLOURS = ("#2563a8", "#c2571a")


@dataclass(frozen=True, repr=False)
class Crossover:
    """One kind of cost of two modules along one letter, every other letter given or on both sides alike.

    >>> from porism.costing.alphabet import T
    >>> found = compared(("square", "line"), (T**2, 64 * T), "T", "FLOPs")
    >>> print(found)
    square costs less than line up to T=63, as much as line at T=64, more than line from T=65 on (FLOPs).
    >>> found.size, found.changes
    (65, ((1, -1), (64, 0), (65, 1)))
    """

    names: tuple[str, str]
    formulas: tuple[Expr, Expr]
    letter: str
    title: str
    changes: tuple[tuple[int, int], ...]
    """From which size on the first costs more (1), less (-1) or as much (0), by the formulas."""
    size: Quantity | None
    """The last size at which the order changes; None where it never does."""
    confirmed: int | None = None
    """The size up to which both formulas were held against counts."""

    @property
    def crossing(self) -> int | None:
        """The last size at which the order changes by the formulas, wherever they were confirmed."""
        return last_change(self.changes)

    def __repr__(self) -> str:
        ours, theirs = self.names
        words = {1: f"more than {theirs}", 0: f"as much as {theirs}", -1: f"less than {theirs}"}
        ends = [start - 1 for start, _ in self.changes[1:]]
        parts = [
            f"{words[sign]} {self._span(start, end)}"
            for (start, sign), end in zip(self.changes, [*ends, None], strict=True)
        ]
        known = "" if self.confirmed is None else f", formulas confirmed to {self.letter}={self.confirmed}"
        text = f"{ours} costs {', '.join(parts)} ({self.title}{known})."
        if self.size is None or self.size.label in ("by formula", "counted"):
            return text
        return f"{text} By formula; {self.letter}={self.crossing} is {self.size.label}: {self.size.why}."

    def _span(self, start: int, end: int | None) -> str:
        if end is None:
            return f"at every {self.letter}" if start == 1 else f"from {self.letter}={start} on"
        if start == end:
            return f"at {self.letter}={start}"
        return f"up to {self.letter}={end}" if start == 1 else f"from {self.letter}={start} to {end}"

    def values(self, sizes: list[int]) -> tuple[list[float], list[float]]:
        """Both costs at some sizes. A letter that is on both sides alike is 1."""
        ours, theirs = (
            [
                float(formula.subs({symbol(self.letter): size}).subs(dict.fromkeys(formula.free_symbols, 1)))
                for size in sizes
            ]
            for formula in self.formulas
        )
        return ours, theirs

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.title,
            "letter": self.letter,
            "crossing": None if self.size is None or self.size.value is None else int(self.size),
            "label": None if self.size is None else self.size.label,
            "sentence": str(self),
        }

    def plot(self, path: str | PathLike[str]) -> None:
        """Draw both costs, doubling along both axes, with the change of their order. The suffix tells the format."""
        try:
            import matplotlib
            from matplotlib.figure import Figure
        except ImportError:
            raise MissingExtra('plots need matplotlib, which is not installed: pip install "porism[report]"') from None
        middle = math.log2(self.crossing or 1024)
        sizes = sorted({max(1, round(2 ** (middle - 5 + step / 8))) for step in range(81)})
        with matplotlib.rc_context({"svg.hashsalt": "porism", "axes.spines.top": False, "axes.spines.right": False}):
            figure = Figure(figsize=(6.0, 3.8), constrained_layout=True)
            axes = figure.subplots()
            for name, colour, values in zip(self.names, COLOURS, self.values(sizes), strict=True):
                axes.loglog(sizes, values, color=colour, label=name)
            if self.crossing:
                axes.axvline(self.crossing, color="0.5", linewidth=0.8, linestyle=":")
                axes.annotate(
                    f" {self.letter} = {self.crossing:,}", (self.crossing, 0.02), xycoords=("data", "axes fraction")
                )
            axes.set_xlabel(self.letter)
            axes.set_ylabel(self.title)
            axes.legend(frameon=False)
            try:
                figure.savefig(Path(path))
            except (OSError, ValueError) as error:
                raise RunError(
                    f"the picture cannot be written to {path}: {error}. Name a file that ends in .svg or .png."
                ) from error

    def draw(self, width: int = 64, height: int = 14) -> str:
        """Both costs over the letter in text, doubling along both axes: ● the first, ○ the second, ◉ both."""
        middle = self.crossing or 1024
        low, high = max(0.0, math.log2(middle) - 5), math.log2(middle) + 5
        sizes = [max(1, round(2 ** (low + (high - low) * column / (width - 1)))) for column in range(width)]
        heights = [[math.log2(max(value, 1)) for value in values] for values in self.values(sizes)]
        bottom, top = min(map(min, heights)), max(map(max, heights))
        canvas = [[" "] * width for _ in range(height)]
        for values, mark in zip(heights, "●○", strict=True):
            for column, value in enumerate(values):
                row = round((top - value) / max(top - bottom, 1e-9) * (height - 1))
                canvas[row][column] = "◉" if canvas[row][column] not in (" ", mark) else mark
        labels = [f"{2**top:.2g}", *[""] * (height - 2), f"{2**bottom:.2g}"]
        lines = [f"{label:>8} ┤{''.join(row)}" for label, row in zip(labels, canvas, strict=True)]
        ends = f"{self.letter}={sizes[0]}", f"{self.letter}={sizes[-1]}"
        foot = f"{'':>9}└{'─' * width}\n{'':>10}{ends[0]}{ends[1]:>{width - len(ends[0])}}"
        return "\n".join([*lines, foot, f"{'':>10}● {self.names[0]}   ○ {self.names[1]}   {self.title}"])


def compared(
    names: tuple[str, str],
    formulas: tuple[Expr, Expr],
    letter: str,
    title: str,
    check: Callable[[tuple[tuple[int, int], ...]], Quantity | None] | None = None,
    confirmed: int | None = None,
) -> Crossover:
    """Two formulas along a letter. `check` says how far the last change of their order is to be trusted."""
    if all(symbol(letter) not in formula.free_symbols for formula in formulas):
        raise RecipeError(
            f"cost: neither {names[0]} nor {names[1]} depends on {letter}. Name another letter to go along."
        )
    found = tuple(changes(*formulas, letter))
    crossing = last_change(found)
    by_formula = None if crossing is None else Quantity(crossing)
    return Crossover(names, formulas, letter, title, found, check(found) if check else by_formula, confirmed)


def last_change(found: tuple[tuple[int, int], ...]) -> int | None:
    return found[-1][0] if len(found) > 1 else None


def changes(ours: Expr, theirs: Expr, letter: str) -> list[tuple[int, int]]:
    """The sizes of a letter from which another is the costlier, with a sign: 1 ours, -1 theirs, 0 neither.

    >>> from porism.costing.alphabet import B, D, T
    >>> changes(4 * B * T**2 * 64, 2 * B * T * 64**2, "T")        # B is on both sides
    [(1, -1), (32, 0), (33, 1)]
    >>> changes(4 * B * T**2 * D, 2 * B * T * D**2, "T")
    Traceback (most recent call last):
    porism.errors.RecipeError: cost: the comparison needs numbers for D too. Give them by name.
    """
    varied = symbol(letter)
    difference = _without_positive_factors(ours - theirs, varied)
    if missing := ", ".join(sorted(str(other) for other in difference.free_symbols - {varied})):
        raise RecipeError(f"cost: the comparison needs numbers for {missing} too. Give them by name.")

    def sign(size: int) -> int:
        return int(sympy.sign(difference.subs({varied: size})))

    if difference.is_polynomial(varied):
        roots = sympy.Poly(difference, varied).nroots() if varied in difference.free_symbols else []
        near = [int(sympy.floor(sympy.re(root))) for root in roots if abs(sympy.im(root)) < 1e-9]
        return _where_it_changes(sign, (root + step for root in near for step in (-1, 0, 1, 2)))
    return _where_it_changes(sign, [*range(1, EVERY_SIZE_TO + 1), *_found_by_doubling(sign)])


def _without_positive_factors(difference: Expr, varied: Symbol) -> Expr:
    """Letters stand for sizes from 1 on, so factors of letters alone do not decide a sign."""
    factors = sympy.Mul.make_args(sympy.factor(difference))
    return sympy.Mul(*(part for part in factors if varied in part.free_symbols or not part.is_positive))


def _where_it_changes(sign: Callable[[int], int], sizes: Iterable[int]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for size in sorted({1, *(size for size in sizes if size > 1)}):
        if not found or sign(size) != found[-1][1]:
            found.append((size, sign(size)))
    return found


def _found_by_doubling(sign: Callable[[int], int]) -> Iterable[int]:
    low, high = EVERY_SIZE_TO, 2 * EVERY_SIZE_TO
    while low < LARGEST:
        if sign(low) == sign(high):
            low, high = high, 2 * high
            continue
        below, above = low, high
        while above - below > 1:
            middle = (below + above) // 2
            below, above = (middle, above) if sign(middle) == sign(low) else (below, middle)
        yield above
        low = above


def largest(within: Callable[[int], bool], refusal: str, start: int = 1) -> int:
    """The largest size from `start` on that a condition holds for, where it holds up to some size and not beyond."""
    if not within(start):
        raise CostError(f"cost: {refusal}. Give a larger budget.")
    low, high = start, 2 * start
    while within(high):
        low, high = high, 2 * high
        if high > LARGEST:
            raise CostError("cost: the budget is reached at no size. Give a smaller budget.")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if within(middle) else (low, middle)
    return low
