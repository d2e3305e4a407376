"""What was derived from a module's code: formulas, their numbers, and what follows from them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sympy
from sympy import Expr, Symbol

from porism.cost.alphabet import SYMBOLS
from porism.cost.interpolation import Fitted
from porism.errors import RecipeError

if TYPE_CHECKING:
    from rich.table import Table

KINDS = {
    "parameters": "parameters",
    "flops": "forward FLOPs",
    "backward": "backward FLOPs",
    "saved": "bytes kept for the backward pass",
}


@dataclass(frozen=True)
class ModuleRow:
    """One submodule: where it sits, what it is, and its formula of each kind with all below it."""

    path: str
    kind: str
    fitted: Mapping[str, Fitted]


@dataclass(frozen=True)
class Derived:
    """The cost of a module or function, as formulas in its letters.

    >>> lstm = porism.cost(lambda D, H: nn.LSTM(D, H), "T B D")
    >>> lstm.flops
    8*B*H*T*(D + H)
    >>> lstm.at(B=32, T=100, D=50, H=100)["flops"]
    384000000
    """

    name: str
    letters: tuple[str, ...]
    fixed: Mapping[str, int]
    """Letters whose size the module itself decides."""
    rows: tuple[ModuleRow, ...]
    """The whole first, then every submodule that costs something."""
    uncounted: Mapping[str, int]
    """Operations that compute something but have no formula here, with the number of calls."""

    @property
    def parameters(self) -> Expr:
        return self.formula("parameters")

    @property
    def flops(self) -> Expr:
        return self.formula("flops")

    @property
    def backward(self) -> Expr:
        return self.formula("backward")

    @property
    def saved(self) -> Expr:
        return self.formula("saved")

    def formula(self, kind: str) -> Expr:
        """The whole's formula of one kind. Where none was found, the error says why."""
        if kind not in KINDS:
            raise RecipeError(f"cost: there is no kind {kind!r}. Choose from {', '.join(KINDS)}.")
        fitted = self.rows[0].fitted[kind]
        if fitted.formula is None:
            raise RecipeError(f"cost: no formula was found for the {KINDS[kind]} of {self.name}: {fitted.reason}")
        return fitted.formula

    @property
    def verdict(self) -> str:
        """One line: at which sizes the formulas were confirmed, and what they leave out."""
        missing = [KINDS[kind] for kind, fitted in self.rows[0].fitted.items() if fitted.formula is None]
        if missing:
            return f"no formula for {', '.join(missing)}"
        checked = self.rows[0].fitted["flops"].checked
        ranges = (
            f"{letter} {min(sizes[letter] for sizes in checked)} to {max(sizes[letter] for sizes in checked)}"
            for letter in self.letters
        )
        confirmed = f"exact on {len(checked)} held-out sizes ({', '.join(ranges)})" if self.letters else "counted"
        return f"{confirmed}, not counted: {', '.join(self.uncounted)}" if self.uncounted else confirmed

    def at(self, **letters: int) -> dict[str, int]:
        """The number of each kind at given sizes."""
        self._check(letters, self.letters)
        sizes = {_symbol(letter): size for letter, size in letters.items()}
        return {kind: int(self.formula(kind).subs(sizes)) for kind in KINDS}

    def solve(self, letter: str, kind: str, budget: float, **letters: int) -> int:
        """The largest size of a letter that stays within a budget of one kind, the other letters given."""
        self._check(letters, [other for other in self.letters if other != letter])
        formula = self.formula(kind).subs({_symbol(other): size for other, size in letters.items()})
        if _symbol(letter) not in formula.free_symbols:
            raise RecipeError(f"cost: the {KINDS[kind]} of {self.name} do not depend on {letter}: they are {formula}.")

        def within(size: int) -> bool:
            return bool(formula.subs({_symbol(letter): size}) <= budget)

        return _largest(within, f"the {KINDS[kind]} of {self.name} exceed {budget:g} at {letter}=1")

    def crossover(self, other: "Derived", letter: str, kind: str = "flops", **letters: int) -> int | None:
        """The smallest size of a letter from which this costs more than the other; None where it never does."""
        ours, theirs = (
            found.formula(kind).subs({_symbol(name): size for name, size in letters.items()}) for found in (self, other)
        )
        difference = sympy.expand(ours - theirs)
        symbol = _symbol(letter)
        if open_letters := difference.free_symbols - {symbol}:
            missing = ", ".join(sorted(map(str, open_letters)))
            raise RecipeError(f"cost: the comparison needs numbers for {missing} too. Give them by name.")
        roots = [root for root in sympy.Poly(difference, symbol).nroots() if abs(sympy.im(root)) < 1e-9]
        for size in sorted({1, *(max(1, int(sympy.floor(sympy.re(root))) + 1) for root in roots)}):
            if difference.subs({symbol: size}) > 0:
                return size
        return None

    def table(self) -> "Table":
        """Formulas by submodule, for a terminal."""
        from rich.table import Table

        shown = Table("module", *KINDS.values())
        for row in self.rows:
            cells = [str(row.fitted[kind].formula or "?") for kind in KINDS]
            shown.add_row(f"{row.path or self.name} ({row.kind})" if row.path else self.name, *cells)
        shown.caption = self.verdict
        return shown

    def latex(self, kind: str = "flops") -> str:
        """One formula for a paper."""
        return str(sympy.latex(self.formula(kind)))

    def to_json(self, **letters: int) -> dict[str, Any]:
        """The keys scripts rely on."""
        formulas = {kind: str(self.rows[0].fitted[kind].formula) for kind in KINDS}
        return {
            "parameters": formulas["parameters"],
            "flops": formulas["flops"],
            "backward_flops": formulas["backward"],
            "activation_bytes": formulas["saved"],
            **({"at": self.at(**letters)} if letters else {}),
            "uncounted": list(self.uncounted),
            "verdict": self.verdict,
        }

    def __iter__(self) -> Iterator[ModuleRow]:
        return iter(self.rows)

    def _check(self, letters: Mapping[str, int], wanted: Any) -> None:
        wanted = list(wanted)
        for letter, size in letters.items():
            if letter not in wanted:
                fixed = f" {letter} is fixed at {self.fixed[letter]}." if letter in self.fixed else ""
                raise RecipeError(
                    f"cost: {self.name} has no letter {letter} to set.{fixed} Letters: {', '.join(wanted)}."
                )
            if isinstance(size, bool) or not isinstance(size, int) or size < 1:
                raise RecipeError(f"cost: {letter}={size!r} is no size. Give a whole number from 1 on.")
        if missing := [letter for letter in wanted if letter not in letters]:
            raise RecipeError(f"cost: {self.name} needs numbers for {', '.join(missing)} too.")


def _symbol(letter: str) -> Symbol:
    return SYMBOLS.get(letter, Symbol(letter, integer=True, positive=True))


def _largest(within: Any, refusal: str) -> int:
    """The largest size a condition holds for, where it holds up to some size and not beyond: doubling, then halving."""
    if not within(1):
        raise RecipeError(f"cost: {refusal}. Give a larger budget.")
    high = 2
    while within(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if within(middle) else (low, middle)
    return low
