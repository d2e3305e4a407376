"""What was derived from a module's code: formulas, their numbers, and what follows from them."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import sympy
import torch
from rich.table import Table
from sympy import Expr

from porism.costing.counting.conventions import Conventions
from porism.costing.counting.target import Target, dtype_of
from porism.costing.fitting.basis import symbol
from porism.costing.fitting.interpolate import Fitted
from porism.costing.predicting.crossover import first_above, largest
from porism.costing.predicting.memory import TrainingMemory, check_optimizer, training_memory
from porism.errors import RecipeError

if TYPE_CHECKING:
    from porism.costing.predicting.memory import Fit
    from porism.costing.predicting.time import Timed

KINDS = ("parameters", "flops", "backward_flops", "activation_bytes")

TALLIES = (
    *KINDS,
    *("causal", "causal_backward_flops", "elementwise", "elementwise_backward_flops"),
    *("parameter_bytes", "gradient_bytes", "trained_tensors"),
)
"""What is counted of every submodule; the kinds are made of these."""


@dataclass(frozen=True)
class ModuleRow:
    """One submodule: where it sits, what it is, and the formula of each tally with all below it."""

    path: str
    kind: str
    fitted: Mapping[str, Fitted]

    def formula(self, kind: str, conventions: Conventions) -> Expr | None:
        """One kind of cost under given conventions; None where no formula was found."""
        if kind not in ("flops", "backward_flops"):
            return self.fitted[kind].formula
        parts = [self.fitted[tally].formula for tally in _tallies(kind)]
        needed = [
            part
            for part, name in zip(parts, ("products", "causal", "elementwise"), strict=True)
            if name in conventions.parts
        ]
        if any(part is None for part in needed):
            return None
        return conventions.join(*(sympy.Integer(0) if part is None else part for part in parts))


def _tallies(kind: str) -> tuple[str, str, str]:
    """The tallies of products, causal products and elementwise work that one direction's operations are made of."""
    return ("flops", "causal", "elementwise") if kind == "flops" else (kind, f"causal_{kind}", f"elementwise_{kind}")


@dataclass(frozen=True)
class Cost:
    """The cost of a module or function, as formulas in its letters.

    >>> lstm = porism.cost(lambda D, H: nn.LSTM(D, H), "T B D")
    >>> lstm.flops
    8*B*H*T*(D + H)
    >>> lstm.at(B=32, T=100, D=50, H=100)["flops"]
    384000000
    >>> lstm.under(multiply_add=1).flops
    4*B*H*T*(D + H)
    """

    name: str
    target: Target
    letters: tuple[str, ...]
    fixed: Mapping[str, int]
    """Letters whose size the module itself decides."""
    rows: tuple[ModuleRow, ...]
    """The whole first, then every submodule that costs something."""
    conventions: Conventions
    multiples: Mapping[str, int]
    """Letters whose formulas hold for multiples only."""

    @property
    def uncounted(self) -> Mapping[str, int]:
        """Operations that compute something but have no formula here, with the number of calls."""
        return self.target.uncounted

    @property
    def parameters(self) -> Expr:
        return self.formula("parameters")

    @property
    def flops(self) -> Expr:
        return self.formula("flops")

    @property
    def backward_flops(self) -> Expr:
        return self.formula("backward_flops")

    @property
    def activation_bytes(self) -> Expr:
        return self.formula("activation_bytes")

    @property
    def titles(self) -> dict[str, str]:
        """What each kind is called."""
        unit = self.conventions.unit
        names = ("parameters", f"forward {unit}", f"backward {unit}", "bytes kept for the backward pass")
        return dict(zip(KINDS, names, strict=True))

    def formula(self, kind: str) -> Expr:
        """The whole's formula of one kind. Where none was found, the error says why."""
        if kind not in KINDS:
            raise RecipeError(f"cost: there is no kind {kind!r}. Choose from {', '.join(KINDS)}.")
        formula = self.rows[0].formula(kind, self.conventions)
        if formula is None:
            raise RecipeError(
                f"cost: no formula was found for the {self.titles[kind]} of {self.name}: {self._reason(kind)}. "
                "Numbers can be counted: give sizes to .at or --at."
            )
        return formula

    def under(self, **conventions: Any) -> "Cost":
        """The same under other conventions: `multiply_add=1`, `causal="half"`, `elementwise=True`."""
        try:
            return replace(self, conventions=replace(self.conventions, **conventions))
        except TypeError:
            known = ", ".join(Conventions.__dataclass_fields__)
            raise RecipeError(f"cost: conventions are {known}, got {', '.join(conventions)}.") from None

    def memory(self, optimizer: str = "adam", **letters: int) -> TrainingMemory:
        """Bytes that training takes, each part as a formula.

        Given sizes, what autograd keeps is counted there if no formula was found for it.
        """
        check_optimizer(optimizer)
        whole = self.rows[0].fitted
        parts = {}
        for tally in ("parameter_bytes", "gradient_bytes", "trained_tensors"):
            formula = whole[tally].formula
            if formula is None:
                raise RecipeError(f"cost: no formula was found for the {tally.replace('_', ' ')} of {self.name}.")
            parts[tally] = formula
        found = self.rows[0].formula("activation_bytes", self.conventions)
        saved = (
            sympy.Integer(self.at(**letters)["activation_bytes"])
            if found is None and letters
            else self.activation_bytes
        )
        return training_memory(optimizer, saved=saved, **parts)

    @property
    def verdict(self) -> str:
        """One line: at which sizes the formulas were confirmed, what was run, and what they leave out."""
        missing = [self.titles[kind] for kind in KINDS if self.rows[0].formula(kind, self.conventions) is None]
        said = [f"no formula for {', '.join(missing)}" if missing else self._confirmed()]
        said += [f"{letter} in multiples of {step}" for letter, step in self.multiples.items()]
        for kind in KINDS:
            from_on = [f"{letter}={size}" for letter, size in self._least(kind).items()]
            said += [f"{self.titles[kind]} from {' and '.join(from_on)} on"] if from_on else []
        if self.target.needs_numbers:
            said.append(f"counted on real tensors, since fake ones gave {self.target.needs_numbers}")
        if self.uncounted:
            said.append(f"not counted: {', '.join(self.uncounted)}")
        return "; ".join(said)

    def _confirmed(self) -> str:
        checked = self.rows[0].fitted["flops"].checked
        ranges = (
            f"{letter} {min(sizes[letter] for sizes in checked)} to {max(sizes[letter] for sizes in checked)}"
            for letter in self.letters
        )
        return f"exact on {len(checked)} held-out sizes ({', '.join(ranges)})" if self.letters else "counted"

    def _least(self, kind: str) -> dict[str, int]:
        """The sizes from which on the formula of one kind holds, of letters for which that is not the smallest."""
        least: dict[str, int] = {}
        for tally in self._parts(kind):
            for letter, size in self.rows[0].fitted[tally].least.items():
                least[letter] = max(size, least.get(letter, 1))
        return least

    def _parts(self, kind: str) -> tuple[str, ...]:
        return _tallies(kind) if kind in ("flops", "backward_flops") else (kind,)

    def _reason(self, kind: str) -> str:
        reasons = (self.rows[0].fitted[tally].reason for tally in self._parts(kind))
        return next(reason for reason in reasons if reason)

    def at(self, **letters: int) -> dict[str, int]:
        """The number of each kind at given sizes: from its formula, or counted there where no formula holds."""
        self._check(letters, self.letters)
        sizes = {symbol(letter): size for letter, size in letters.items()}
        formulas = {
            kind: self.rows[0].formula(kind, self.conventions)
            if all(letters[letter] >= size for letter, size in self._least(kind).items())
            else None
            for kind in KINDS
        }
        counted = self._counted(letters) if None in formulas.values() else {}
        return {
            kind: counted[kind] if formula is None else int(formula.subs(sizes)) for kind, formula in formulas.items()
        }

    def _counted(self, letters: Mapping[str, int]) -> dict[str, int]:
        quantities = self.target.quantities({**self.fixed, **letters})
        counted = {kind: quantities[f"{kind} "] for kind in KINDS}
        for kind in ("flops", "backward_flops"):
            counted[kind] = int(
                self.conventions.join(*(sympy.Integer(quantities[f"{tally} "]) for tally in _tallies(kind)))
            )
        return counted

    def solve(self, letter: str, kind: str = "flops", budget: float = 0, **letters: int) -> int:
        """The largest size of a letter that stays within a budget of one kind, the other letters given.

        >>> attention.solve("T", "flops", 1e12, B=1)
        """
        self._check(letters, [other for other in self.letters if other != letter])
        formula = self.formula(kind).subs({symbol(other): size for other, size in letters.items()})
        if symbol(letter) not in formula.free_symbols:
            raise RecipeError(
                f"cost: the {self.titles[kind]} of {self.name} do not depend on {letter}: they are {formula}."
            )
        return largest(
            lambda size: bool(formula.subs({symbol(letter): size}) <= budget),
            f"the {self.titles[kind]} of {self.name} exceed {budget:g} at {letter}=1",
        )

    def crossover(self, other: "Cost", letter: str, kind: str = "flops", **letters: int) -> int | None:
        """The smallest size of a letter at which this costs more than the other; None where it never does."""
        given = {symbol(name): size for name, size in letters.items()}
        return first_above(self.formula(kind).subs(given), other.formula(kind).subs(given), letter)

    def time(self, device: torch.device | str = "cpu", **letters: int) -> "Timed":
        """How long a pass forward and backward takes on a device at given sizes: predicted, and measured beside it."""
        from porism.costing.predicting.time import timed

        self._check(letters, self.letters)
        place = torch.device(device)
        called, args, kwargs = self.target.call({**self.fixed, **letters}, place)
        return timed(called, args, kwargs, place, self.target.dtype or dtype_of(called))

    def fits(self, available: int, optimizer: str = "adam", **letters: int) -> "Fit":
        """Whether a training step at given sizes stays within so many bytes, and what takes them."""
        from porism.costing.predicting.memory import will_it_fit

        self._check(letters, self.letters)
        called, args, kwargs = self.target.hollow_call({**self.fixed, **letters})
        return will_it_fit(called, *args, device=available, optimizer=optimizer, **kwargs)

    def table(self) -> "Table":
        """Formulas by submodule, for a terminal."""
        return table(self)

    def latex(self, kind: str = "flops") -> str:
        """One formula for a paper."""
        return str(sympy.latex(self.formula(kind)))

    def mathml(self, kind: str = "flops") -> str:
        """One formula for a web page."""
        return str(sympy.mathml(self.formula(kind), printer="presentation"))

    def to_json(self, **letters: int) -> dict[str, Any]:
        """The keys scripts rely on."""
        formulas = {kind: self.rows[0].formula(kind, self.conventions) for kind in KINDS}
        texts = {kind: None if formula is None else str(formula) for kind, formula in formulas.items()}
        return {
            "parameters": texts["parameters"],
            "flops": texts["flops"],
            "backward_flops": texts["backward_flops"],
            "activation_bytes": texts["activation_bytes"],
            **({"at": _with_old_names(self.at(**letters))} if letters else {}),
            "fixed": dict(self.fixed),
            "modules": {
                row.path: _with_old_names({kind: str(row.formula(kind, self.conventions)) for kind in KINDS})
                for row in self.rows[1:]
            },
            "conventions": self.conventions.text,
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
                    f"cost: {self.name} has no letter {letter} to set.{fixed} Letters: {', '.join(wanted) or 'none'}."
                )
            if isinstance(size, bool) or not isinstance(size, int) or size < 1:
                raise RecipeError(f"cost: {letter}={size!r} is no size. Give a whole number from 1 on.")
            if size % self.multiples.get(letter, 1):
                raise RecipeError(f"cost: {letter}={size} is no multiple of {self.multiples[letter]}, as it was asked.")
        if missing := [letter for letter in wanted if letter not in letters]:
            raise RecipeError(f"cost: {self.name} needs numbers for {', '.join(missing)} too.")


def _with_old_names(by_kind: Mapping[str, Any]) -> dict[str, Any]:
    """Values by kind, with those whose names have changed under their names of 0.1 too."""
    return {**by_kind, "backward": by_kind["backward_flops"], "saved": by_kind["activation_bytes"]}


def table(derived: "Cost") -> Table:
    """One row for the whole, one for each submodule; a stack of equal ones is one row with their number."""
    shown = Table("module", *derived.titles.values(), caption=f"{derived.verdict}\n{derived.conventions.text}")
    for name, number, row in folded(derived):
        formulas = (row.formula(kind, derived.conventions) for kind in derived.titles)
        cells = ["?" if formula is None else str(formula) for formula in formulas]
        shown.add_row(f"{name} × {number}" if number > 1 else name, *cells)
    return shown


def folded(derived: "Cost") -> list[tuple[str, int, "ModuleRow"]]:
    """Rows whose paths differ in numbers only and whose formulas are the same, as one: `layers.*.mlp`, how many, row.

    >>> [name for name, number, row in folded(porism.cost(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)), "B 4"))]
    ['Sequential', '* (Linear)']
    """
    groups: dict[tuple[str, str, str], list[ModuleRow]] = {}
    for row in derived.rows:
        starred = re.sub(r"(?<![^.])\d+(?![^.])", "*", row.path)
        formulas = str([row.formula(kind, derived.conventions) for kind in derived.titles])
        groups.setdefault((starred, row.kind, formulas), []).append(row)
    return [
        (_title(path if len(rows) > 1 else rows[0].path, kind, derived.name), len(rows), rows[0])
        for (path, kind, _), rows in groups.items()
    ]


def _title(path: str, kind: str, name: str) -> str:
    return f"{path} ({kind})" if path else name
