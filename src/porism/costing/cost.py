"""Cost, what `porism.cost` returns: formulas, their numbers with labels, and what follows from them."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, overload

import sympy
import torch
from rich.table import Table
from sympy import Expr

from porism.costing.budget import largest_within
from porism.costing.cost_at import CostAt
from porism.costing.counting.conventions import Conventions
from porism.costing.counting.outputs import tensors_of
from porism.costing.counting.staging import quietly
from porism.costing.counting.target import NEEDS_NUMBERS, dtype_of, first_line, known_device
from porism.costing.fitting.basis import symbol
from porism.costing.formulas import CostFormulas
from porism.costing.given_numbers import check_budget, whole_size
from porism.costing.module_row import KINDS, ModuleRow
from porism.costing.predicting.available import within_memory
from porism.costing.predicting.crossover import Crossover, compared
from porism.costing.predicting.memory import Memory, bytes_of, check_optimizer, state_bytes, will_it_fit
from porism.costing.quantity import FIRMEST, Quantity
from porism.costing.reading import CostReading
from porism.costing.table import FoldedRow, TableRow, cut, folded, html_table, terminal_table, unfolded
from porism.errors import CostError, PorismError, RecipeError, ShapeError, shown

if TYPE_CHECKING:
    from porism.costing.predicting.memory import Fit
    from porism.costing.predicting.time import Time


@dataclass(frozen=True, eq=False, repr=False)
class Cost(CostFormulas):
    """The cost of a module or function, as formulas in its letters.

    >>> lstm = porism.cost(lambda D, H: nn.LSTM(D, H), "T B D")
    >>> lstm.flops
    8*B*H*T*(D + H)
    >>> lstm.at(B=32, T=100, D=50, H=100).flops
    384,000,000 FLOPs
    >>> lstm.under(macs=True).flops
    4*B*H*T*(D + H)
    """

    @property
    def modules(self) -> dict[str, "Cost"]:
        """The cost of every submodule that has one, by its path."""
        inside = self.rows[1:]
        return {
            row.path: replace(
                self,
                name=f"{self.name}.{row.path}",
                rows=(row, *(other for other in inside if other.path.startswith(f"{row.path}."))),
            )
            for row in inside
        }

    def under(
        self,
        *,
        macs: bool | None = None,
        causal: Literal["full", "half"] | None = None,
        elementwise: bool | None = None,
    ) -> "Cost":
        """The same under other conventions: multiply-adds, causal products by half, elementwise work counted too."""
        now = self.conventions
        return replace(
            self,
            conventions=Conventions(
                now.multiply_add if macs is None else 1 if macs else 2,
                now.causal if causal is None else causal,
                now.elementwise if elementwise is None else elementwise,
            ),
        )

    def at(self, *, recount: bool = True, **sizes: SupportsIndex) -> CostAt:
        """The number of each kind at given sizes, each with a label that says how it is known.

        It comes from the formula inside of the confirmed sizes. Outside of them it is counted there too, unless that
        would take long, and where the two differ it says from which size on; `recount=False` leaves that out. Where
        there is no formula, it is counted.
        """
        given = self.complete_sizes(sizes)
        reading = CostReading(self, given, recount, explains=True)
        return CostAt(**{kind: reading.quantity(kind) for kind in KINDS})

    def solve(
        self,
        letter: str,
        *,
        flops: float | None = None,
        backward_flops: float | None = None,
        activation_bytes: float | None = None,
        memory: float | str | None = None,
        seconds: float | None = None,
        **sizes: SupportsIndex,
    ) -> Quantity:
        """The largest size of a letter within one budget, the other letters given.

        >>> porism.cost(nn.Linear(64, 10), "B D").solve("B", flops=1e6)
        781

        `memory` is that of training with AdamW, in bytes or as "24GB"; `seconds` are those predicted of a pass forward
        and backward on this machine. The answer and the next size are counted, where that does not take long. Where
        there is no formula, every size on the way is counted.
        """
        operations = {"flops": flops, "backward_flops": backward_flops, "activation_bytes": activation_bytes}
        budgets = {**operations, "memory": memory, "seconds": seconds}
        given_budgets = {kind: budget for kind, budget in budgets.items() if budget is not None}
        if len(given_budgets) != 1:
            raise RecipeError(f"cost: solve takes one budget, got {', '.join(given_budgets) or 'none'}. {_BUDGETS}")
        ((kind, budget),) = given_budgets.items()
        budget = bytes_of(budget) if kind == "memory" else check_budget("budget", budget)
        if letter not in self.letters:
            raise self._no_letter(letter, self.letters)
        given = self.complete_sizes(sizes, left_out=letter)
        value, title = self._budgeted(kind, letter, given)
        size, known = largest_within(
            value,
            budget,
            f"the {title} of {self.name} exceed {budget:g} at {letter}=",
            letter,
            step=self.multiples.get(letter, 1),
            least=self.valid.get(letter, (1, 1))[0],
            recounted=kind != "seconds",
        )
        label = "extrapolated" if known.label == "lower bound" else known.label
        return Quantity(size, label=label, why=known.why, formula=known.formula, sizes={**given, letter: size})

    def _budgeted(self, kind: str, letter: str, given: Mapping[str, int]) -> tuple[Callable[..., Quantity], str]:
        """What a budget limits, as a function of the letter's size and of whether to recount there; and its name.

        The function's third argument asks from which size on formula and count differ.
        """

        def at(size: int) -> dict[str, int]:
            return {**given, letter: size}

        if kind == "seconds":

            def predicted(size: int, _recount: bool, explains: bool = False) -> Quantity:
                try:
                    time = self.time("auto", measure=False, backward=True, **at(size))
                except ShapeError:
                    return Quantity.unknown(self.refusal(at(size)), sizes=at(size))
                return Quantity(time.predicted, label="extrapolated", why=f"predicted of {time.device}, not measured")

            return predicted, "predicted seconds"
        if kind == "memory":
            if None not in (self.formula_or_none("activation_bytes"), *self._memory_formulas().values()):
                self._depends(self.memory().total, letter, "bytes in training")

            def in_training(size: int, recount: bool, explains: bool = False) -> Quantity:
                return Quantity.total(self._memory_at("adamw", at(size), recount, explains).values())

            return in_training, "bytes in training"
        if (formula := self.formula_or_none(kind)) is not None:
            self._depends(formula, letter, self.titles[kind])

        def of_kind(size: int, recount: bool, explains: bool = False) -> Quantity:
            return CostReading(self, at(size), recount, explains).quantity(kind)

        return of_kind, self.titles[kind]

    def _depends(self, formula: Expr, letter: str, title: str) -> None:
        if symbol(letter) not in formula.free_symbols:
            raise RecipeError(f"cost: the {title} of {self.name} do not depend on {letter}: they are {formula}.")

    def crossover(self, other: "Cost", letter: str, *, kind: str = "flops", **sizes: SupportsIndex) -> Crossover:
        """From which size of a letter on this costs more than the other, or less.

        Letters on both sides alike need no size. The size found and the one before are counted where that does not take
        long; `.size` says how it is known.
        """
        known = self._letters_to_compare_along(other, letter)
        if unknown := [name for name in sizes if name not in known]:
            raise RecipeError(
                f"cost: neither {self.name} nor {other.name} has a letter {unknown[0]} to set. "
                f"Letters: {', '.join(known)}."
            )
        given = {name: whole_size(name, size) for name, size in sizes.items()}
        numbers = {symbol(name): size for name, size in given.items()}
        return compared(
            (self.name, other.name),
            (self.formula(kind).subs(numbers), other.formula(kind).subs(numbers)),
            letter,
            self.titles[kind],
            lambda changes: self._confirm_change(other, letter, kind, changes, given),
            min((high for one in (self, other) if (high := one.confirmed_to(letter, kind))), default=None),
        )

    def crossovers(self, other: "Cost", letter: str, **sizes: SupportsIndex) -> list[Crossover]:
        """The same for every kind of cost in which either depends on the letter."""
        self._letters_to_compare_along(other, letter)
        kinds = [
            kind for kind in KINDS if any(symbol(letter) in one.formula(kind).free_symbols for one in (self, other))
        ]
        return [self.crossover(other, letter, kind=kind, **sizes) for kind in kinds]

    def _letters_to_compare_along(self, other: "Cost", letter: str) -> tuple[str, ...]:
        """The letters of both, among which one must be to go along."""
        if not isinstance(other, Cost):
            raise RecipeError(f"cost: Cost.crossover got {other!r}, expected what porism.cost returns.")
        known = tuple(dict.fromkeys((*self.letters, *other.letters)))
        for one in (self, other):
            if isinstance(letter, str) and letter in one.fixed:
                raise RecipeError(
                    f"cost: {letter} is {one.fixed[letter]} in the formulas of {one.name}, so that nothing is compared "
                    f"along it. Letters of {one.name}: {', '.join(one.letters) or 'none'}."
                )
        if letter not in known:
            called = letter if isinstance(letter, str) and letter.isidentifier() else shown(letter)
            raise RecipeError(
                f"cost: neither {self.name} nor {other.name} depends on {called}. "
                f"Name a letter to go along from {', '.join(known) or 'none'}."
            )
        return known

    def _confirm_change(
        self,
        other: "Cost",
        letter: str,
        kind: str,
        changes: Sequence[tuple[int, int]],
        given: Mapping[str, int],
    ) -> Quantity | None:
        """The last change of order with how it is known: both costs are looked at there and at the size before."""
        if len(changes) < 2:
            return None
        (_, before), (size, after) = changes[-2:]
        step = math.lcm(self.multiples.get(letter, 1), other.multiples.get(letter, 1))
        least_known = Quantity(0)
        for here, expected in ((-(-size // step) * step, after), ((size - 1) // step * step, before)):
            if here == 0:
                continue
            ours, theirs = (one._somewhere({**given, letter: here}, kind) for one in (self, other))
            for found in (ours, theirs):
                if found.label in ("unknown", "lower bound", "range"):
                    return Quantity.unknown(found.why, sizes={**given, letter: size})
                least_known = max(least_known, found, key=lambda one: FIRMEST.index(one.label))
            if (ours > theirs) - (ours < theirs) != expected:
                why = f"by formula {letter}={size}, but counted at {letter}={here} it is {ours:,} against {theirs:,}"
                why += "".join(
                    f"; {one.name}: {found.why}" for one, found in ((self, ours), (other, theirs)) if found.why
                )
                return Quantity.unknown(why, sizes={**given, letter: size})
        return Quantity(size, label=least_known.label, why=least_known.why, sizes={**given, letter: size})

    def _somewhere(self, given: Mapping[str, int], kind: str) -> Quantity:
        """One kind at given sizes, letters that are left out at a size that was confirmed."""
        sizes = {name: size for name, size in given.items() if name in self.letters}
        for letter in self.letters:
            step = self.multiples.get(letter, 1)
            known = self.valid.get(letter, (1, 1))
            sizes.setdefault(letter, self.sizes.get(letter, -(-known[0] // step) * step))
        return CostReading(self, sizes, recount=True, explains=True).quantity(kind)

    @overload
    def memory(self, optimizer: str = "adamw") -> Memory[Expr]: ...
    @overload
    def memory(self, optimizer: str = "adamw", **sizes: SupportsIndex) -> Memory[Quantity]: ...

    def memory(self, optimizer: str = "adamw", **sizes: SupportsIndex) -> Memory[Any]:
        """Bytes that training takes: formulas, or given sizes quantities.

        >>> porism.cost(lambda D: nn.Linear(D, D, bias=False), "B D").memory("adam").optimizer
        4*(2*D**2 + 1)
        """
        check_optimizer(optimizer)
        if sizes:
            return Memory(**self._memory_at(optimizer, self.complete_sizes(sizes), True, explains=True))
        formulas = self._memory_formulas()
        for tally, formula in formulas.items():
            if formula is None:
                raise CostError(f"cost: no formula was found for the {tally.replace('_', ' ')} of {self.name}.")
        return Memory(
            parameters=formulas["parameter_bytes"],
            gradients=formulas["gradient_bytes"],
            optimizer=state_bytes(optimizer, formulas["gradient_bytes"], formulas["trained_tensors"]),
            activations=self.activation_bytes,
        )

    def _memory_formulas(self) -> dict[str, Any]:
        return {tally: self.rows[0].fitted[tally].formula for tally in _MEMORY_TALLIES}

    def _memory_at(
        self, optimizer: str, given: Mapping[str, int], recount: bool, explains: bool = False
    ) -> dict[str, Quantity]:
        reading = CostReading(self, given, recount, explains)
        return {
            "parameters": reading.of(lambda of: of["parameter_bytes"], ("parameter_bytes",), "bytes"),
            "gradients": reading.of(lambda of: of["gradient_bytes"], ("gradient_bytes",), "bytes"),
            "optimizer": reading.of(
                lambda of: state_bytes(optimizer, of["gradient_bytes"], of["trained_tensors"]),
                ("gradient_bytes", "trained_tensors"),
                "bytes",
            ),
            "activations": reading.quantity("activation_bytes"),
        }

    def fits(self, available: float | str | torch.device, *, optimizer: str = "adamw", **sizes: SupportsIndex) -> "Fit":
        """Whether a training step at given sizes stays within so much memory, and what takes it.

        `available` is a number of bytes, a text as "24GB", or a device.
        """
        self._only_whole("fit")
        check_optimizer(optimizer)
        given = self.complete_sizes(sizes)
        limit = bytes_of(available)
        try:
            called, args, kwargs = self.target.hollow_call({**self.fixed, **given})
            with self.target.following(), quietly():
                return will_it_fit(called, *args, device=limit, optimizer=optimizer, **kwargs)
        except NEEDS_NUMBERS as error:
            raise CostError(
                f"cost: {self.name} reads numbers ({first_line(error)}), so that no step can be followed without them. "
                "Its memory at sizes, .memory(...), is counted."
            ) from error
        except PorismError:
            raise
        except Exception as error:  # code that nobody here wrote may raise anything
            raise self._refused(given, error) from error

    def time(
        self,
        device: torch.device | str = "auto",
        *,
        measure: bool = True,
        backward: bool = True,
        **sizes: SupportsIndex,
    ) -> "Time":
        """How long a pass takes on a device at given sizes: predicted from its calibration, and measured beside it."""
        from porism.costing.predicting.time import time_of

        self._only_whole("time")
        given = {**self.fixed, **self.complete_sizes(sizes)}
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        place = known_device(device)
        # A prediction for a CPU needs no memory; the kernels of another device are those that run there.
        hollow = not measure and place.type == "cpu" and not self.target.needs_numbers
        try:
            with nullcontext() if hollow else self.within_memory(given, place), quietly():
                called, args, kwargs = self.target.hollow_call(given) if hollow else self.target.call(given, place)
                dtype = self.target.dtype or dtype_of(called)
                return time_of(called, args, kwargs, place, dtype, measured=measure, backward=backward)
        except ShapeError as error:
            raise self._refused(given, error) from error

    def within_memory(self, sizes: Mapping[str, int], device: torch.device) -> AbstractContextManager[None]:
        """Make and run a pass inside: refused where it takes more than is left of a device's memory."""
        numbers = {symbol(letter): size for letter, size in sizes.items()}
        formulas = self._memory_formulas()["parameter_bytes"], self.formula_or_none("activation_bytes")
        kept = sum(int(formula.subs(numbers)) for formula in formulas if formula is not None)
        if formulas[1] is None and not self.target.needs_numbers:  # the inputs are there in any case
            kept += sum(tensor.nbytes for tensor in tensors_of(list(self.target.hollow_call(sizes)[1:])))
        at = ", ".join(f"{letter}={size:,}" for letter, size in sizes.items())
        return within_memory(f"a pass of {self.name} at {at}", device, kept)

    def _refused(self, sizes: Mapping[str, int], error: Exception) -> ShapeError:
        """What raises at some sizes, as an answer about those sizes."""
        return ShapeError(
            f"cost: {self.refusal(sizes)}: {first_line(error.__cause__ or error)}. Give sizes it runs at."
        )

    def _only_whole(self, question: str) -> None:
        if self.rows[0].path:
            raise CostError(
                f"cost: {self.name} cannot be run alone to {question} it. Ask the whole, or give the submodule to cost."
            )

    def table(self, by: Literal["module", "path"] = "module", depth: int | None = None) -> Table:
        """Formulas by submodule, for a terminal: `print(cost.table())`, or rich's print.

        by: `module` shows a stack of equal submodules as one row, `path` shows each.
        depth: how many levels of submodules to show; 0 is the whole alone.
        """
        return terminal_table(list(self.titles.values()), self._table_rows(by, depth), self._caption)

    def _table_rows(self, by: str, depth: int | None) -> list[FoldedRow]:
        if by not in ("module", "path"):
            raise RecipeError(f"cost: a table goes by module or by path, got {by!r}.")
        root = self.rows[0].path
        rows = []
        for row in self.rows:
            path = row.path.removeprefix(root).removeprefix(".")
            if depth is None or (path.count(".") + 1 if path else 0) <= depth:
                formulas = tuple(row.formula(kind, self.conventions) for kind in KINDS)
                rows.append(TableRow(path, row.kind, formulas))
        return folded(self.name, rows) if by == "module" else unfolded(self.name, rows)

    @property
    def _caption(self) -> str:
        return f"{self.findings}\n{self.conventions.text}"

    def __repr__(self) -> str:
        """Two lines: the formulas, each cut where it is long, and the verdict. All of it is in `table()`."""
        found = {self.titles[kind]: self.formula_or_none(kind) for kind in KINDS}
        parts = [f"{title} {'?' if formula is None else cut(str(formula), 40)}" for title, formula in found.items()]
        return f"{self.name}: {', '.join(parts)}\n{cut(self.verdict, 160)}"

    def _repr_html_(self) -> str:
        return html_table(list(self.titles.values()), self._table_rows("module", None), self._caption)

    def latex(self, kind: str = "flops") -> str:
        """One formula for a paper."""
        return str(sympy.latex(self.formula(kind)))

    def mathml(self, kind: str = "flops") -> str:
        """One formula for a web page."""
        return str(sympy.mathml(self.formula(kind), printer="presentation"))

    def to_json(self, **sizes: SupportsIndex) -> dict[str, Any]:
        """The keys scripts rely on: `at` has plain numbers, None for the unknown; `labels` says how each is known."""
        formulas = {kind: self.formula_or_none(kind) for kind in KINDS}
        texts = {kind: None if formula is None else str(formula) for kind, formula in formulas.items()}
        numbers: dict[str, Any] = {}
        if sizes:
            at = self.at(recount=True, **sizes)
            numbers["at"] = _with_old_names({kind: quantity.value for kind, quantity in at.items()})
            numbers["labels"] = {kind: quantity.label for kind, quantity in at.items()}
            numbers["why"] = {kind: quantity.why for kind, quantity in at.items() if quantity.why}
        return {
            **texts,
            **numbers,
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

    def complete_sizes(self, sizes: Mapping[str, SupportsIndex], left_out: str | None = None) -> dict[str, int]:
        """A whole number for each letter but the one left out: those given, else those that go without saying."""
        expected = [letter for letter in self.letters if letter != left_out]
        given = {letter: size for letter, size in self.sizes.items() if letter in expected}
        for letter, size in sizes.items():
            if letter not in expected:
                raise self._no_letter(letter, expected)
            given[letter] = whole_size(letter, size)
            if given[letter] % self.multiples.get(letter, 1):
                raise RecipeError(
                    f"cost: {letter}={size} is no multiple of {self.multiples[letter]}, as was requested."
                )
        if missing := [letter for letter in expected if letter not in given]:
            raise RecipeError(f"cost: {self.name} needs numbers for {', '.join(missing)} too.")
        return {letter: given[letter] for letter in expected}

    def _no_letter(self, letter: str, letters: Sequence[str]) -> RecipeError:
        # In a tuple, since a letter that came from outside may have no hash.
        fixed = f" {letter} is fixed at {self.fixed[letter]}." if letter in tuple(self.fixed) else ""
        return RecipeError(
            f"cost: {self.name} has no letter {letter} to set.{fixed} Letters: {', '.join(letters) or 'none'}."
        )


_BUDGETS = "Give flops, backward_flops, activation_bytes, memory or seconds."
_MEMORY_TALLIES = ("parameter_bytes", "gradient_bytes", "trained_tensors")


def _with_old_names(by_kind: Mapping[str, Any]) -> dict[str, Any]:
    """Values by kind, with those whose names have changed under their names of 0.1 too."""
    return {**by_kind, "backward": by_kind["backward_flops"], "saved": by_kind["activation_bytes"]}
