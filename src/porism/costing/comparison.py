"""Two costs beside each other: from which size on one is the costlier."""

from dataclasses import dataclass
from typing import Any

from sympy import Expr

from porism.costing.cost import KINDS, Cost
from porism.costing.fitting.basis import symbol
from porism.costing.predicting.crossover import changes
from porism.errors import RecipeError


@dataclass(frozen=True)
class Comparison:
    """One kind of cost of two modules along one letter, every other letter given or on both sides alike.

    >>> comparison = compare(attention, linear, "T", "flops", D=64)
    >>> print(comparison.sentence)
    attention costs less than linear up to T=31, as much as linear at T=32, more than linear from T=33 on (FLOPs).
    """

    names: tuple[str, str]
    formulas: tuple[Expr, Expr]
    letter: str
    title: str
    changes: tuple[tuple[int, int], ...]
    """From which size on the first costs more (1), less (-1) or as much (0)."""

    @property
    def crossing(self) -> int | None:
        """The last size at which the order changes; None where it never does."""
        return self.changes[-1][0] if len(self.changes) > 1 else None

    @property
    def sentence(self) -> str:
        ours, theirs = self.names
        words = {1: f"more than {theirs}", 0: f"as much as {theirs}", -1: f"less than {theirs}"}
        ends = [start - 1 for start, _ in self.changes[1:]]
        parts = [
            f"{words[sign]} {self._span(start, end)}"
            for (start, sign), end in zip(self.changes, [*ends, None], strict=True)
        ]
        return f"{ours} costs {', '.join(parts)} ({self.title})."

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
        return {"kind": self.title, "letter": self.letter, "crossing": self.crossing, "sentence": self.sentence}


def compare(ours: Cost, theirs: Cost, letter: str, kind: str = "flops", **letters: int) -> Comparison:
    """Where one overtakes the other along a letter."""
    for name, size in letters.items():
        if name not in (*ours.letters, *theirs.letters):
            known = ", ".join(dict.fromkeys((*ours.letters, *theirs.letters)))
            raise RecipeError(
                f"cost: neither {ours.name} nor {theirs.name} has a letter {name} to set. Letters: {known}."
            )
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise RecipeError(f"cost: {name}={size!r} is no size. Give a whole number from 1 on.")
    given = {symbol(name): size for name, size in letters.items()}
    formulas = ours.formula(kind).subs(given), theirs.formula(kind).subs(given)
    if all(symbol(letter) not in formula.free_symbols for formula in formulas):
        raise RecipeError(
            f"cost: neither {ours.name} nor {theirs.name} depends on {letter}. Name another letter to go along."
        )
    return Comparison(
        (ours.name, theirs.name),
        formulas,
        letter,
        ours.titles[kind],
        tuple(changes(*formulas, letter)),
    )


def compare_all(ours: Cost, theirs: Cost, letter: str, **letters: int) -> list[Comparison]:
    """Every kind of cost in which either has some."""
    kinds = [
        kind
        for kind in KINDS
        if any(symbol(letter) in derived.formula(kind).free_symbols for derived in (ours, theirs))
    ]
    return [compare(ours, theirs, letter, kind, **letters) for kind in kinds]
