"""The formulas of a cost: what was found, at which sizes it was confirmed, and what it leaves out."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sympy import Expr

from porism.costing.counting.conventions import Conventions
from porism.costing.counting.target import Target
from porism.costing.fitting.interpolate import Fitted
from porism.costing.module_row import KINDS, ModuleRow, tallies_of
from porism.errors import Advice, CostError, RecipeError


@dataclass(frozen=True, eq=False, repr=False)
class CostFormulas:
    """The formulas of a module or function, of the whole and of every submodule."""

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
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Sizes of letters that are left out where numbers are requested: those of a recipe."""

    @property
    def uncounted(self) -> Mapping[str, int]:
        """Operations that compute something but have no formula here, with the number of calls."""
        return self.target.uncounted

    @property
    def unmeasured(self) -> str:
        """What keeps memory of a size that is not known here, in words."""
        return f"without the workspace of {', '.join(sorted(self.target.unmeasured))}, whose size cuDNN decides"

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
        """Bytes that autograd keeps between the forward and the backward pass."""
        return self.formula("activation_bytes")

    @property
    def valid(self) -> dict[str, tuple[int, int]]:
        """The sizes of each letter between which all formulas that were found are confirmed."""
        ranges = [self.confirmed_range(kind) for kind in KINDS]
        found = [known for known in ranges if known]
        return {
            letter: (max(known[letter][0] for known in found), min(known[letter][1] for known in found))
            for letter in (self.letters if found else ())
        }

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
        formula = self.formula_or_none(kind)
        if formula is None:
            raise CostError(
                f"cost: no formula was found for the {self.titles[kind]} of {self.name}: {self.reason(kind)}.",
                self._without_formula(),
            )
        return formula

    def _without_formula(self) -> Advice:
        """What to do where there is no formula."""
        widths = ""
        if self.target.kernels.type == "cuda" and not self.multiples:
            widths = 'A GPU has kernels of their own for widths that 8 divides: multiples={"D": 8} may have a formula. '
        return Advice(
            f"{widths}Numbers can be counted: give sizes to --at.",
            f"{widths}Numbers can be counted: give sizes to .at.",
        )

    def formula_or_none(self, kind: str) -> Expr | None:
        return self.rows[0].formula(kind, self.conventions)

    @property
    def verdict(self) -> str:
        """One line: at which sizes the formulas were confirmed, what was run, what they leave out, and conventions."""
        return f"{self.findings}; {self.conventions.text}"

    @property
    def findings(self) -> str:
        """The verdict without the conventions."""
        missing = [self.titles[kind] for kind in KINDS if self.formula_or_none(kind) is None]
        parts = [f"{self.titles[kind]} differ at {at}" for kind in KINDS if (at := self.differs_at(kind))]
        parts.append(f"no formula for {', '.join(missing)}" if missing else self._confirmed())
        parts += [f"{letter} in multiples of {step}" for letter, step in self.multiples.items()]
        for kind in KINDS:
            from_on = [f"{letter}={size}" for letter, size in self.least_sizes(kind).items()]
            parts += [f"{self.titles[kind]} from {' and '.join(from_on)} on"] if from_on else []
        if self.target.needs_numbers:
            parts.append(f"counted on real tensors, since fake ones gave {self.target.needs_numbers}")
        if self.target.uncompared:
            parts.append(f"not compared with a run on real tensors: {self.target.uncompared}")
        if varying := [self.titles[kind] for kind in KINDS if self.varies(kind)]:
            parts.append(f"{', '.join(varying)} depend on the data")
        if self.target.outputs is not None:
            parts.append(f"backward pass from {', '.join(map(str, self.target.outputs.names))}")
        elif self.target.ends > 1:
            parts.append(f"backward pass from the sum of all {self.target.ends} outputs")
        if self.target.aside:
            parts.append(f"no backward pass from {', '.join(sorted(self.target.aside))}, which is no output")
        if self.target.unsearched:
            parts.append(f"outputs of type {', '.join(sorted(self.target.unsearched))} cannot be searched for tensors")
        if self.target.ahead:
            where = ", ".join(path or self.name for path in sorted(self.target.ahead))
            parts.append(f"the gradient that {where} computes in the forward pass counts as backward")
        if self.target.summed and not self.conventions.elementwise:
            sums = ", ".join(sorted(self.target.summed))
            parts.append(f"messages along edges count as a sparse product, other sums by {sums} as elementwise work")
        if self.target.has_complex:
            parts.append("a complex product counts as four")
        if self.target.unmeasured:
            parts.append(f"{self.titles['activation_bytes']} {self.unmeasured}")
        if self.uncounted:
            parts.append(f"not counted: {', '.join(self.uncounted)}")
        parts.append(f"kernels of {self.target.kernels.type}")
        if self.target.follows_gpu:
            parts[-1] += ", compute capability 8"
        return "; ".join(parts)

    def differs_at(self, kind: str) -> str:
        """The sizes at which a count differs from the formula of a kind, in words; empty where there are none."""
        return next((fitted.differs_at for fitted in self._fitted(kind)[:1] if fitted.differs_at), "")

    def varies(self, kind: str) -> bool:
        """Whether the count of a kind depends on the values of the input, and not on its sizes alone."""
        path = self.rows[0].path
        return any(f"{tally} {path}" in self.target.varying for tally in tallies_of(kind))

    def _confirmed(self) -> str:
        checked = self.rows[0].fitted["flops"].checked
        ranges = (
            f"{letter} {min(sizes[letter] for sizes in checked)} to {max(sizes[letter] for sizes in checked)}"
            for letter in self.letters
        )
        if not self.letters:
            return "a lower bound was counted" if self.uncounted else "counted"
        sizes = f"{len(checked)} held-out sizes ({', '.join(ranges)})"
        return f"a lower bound, the same on {sizes}" if self.uncounted else f"exact on {sizes}"

    def least_sizes(self, *kinds: str) -> dict[str, int]:
        """The sizes from which on the formulas hold, of letters for which that is not the smallest."""
        least: dict[str, int] = {}
        for fitted in self._fitted(*kinds):
            for letter, size in fitted.least.items():
                least[letter] = max(size, least.get(letter, 1))
        return least

    def confirmed_range(self, *kinds: str) -> dict[str, tuple[int, int]]:
        """Between which sizes the formulas of these kinds or tallies were confirmed."""
        known = [fitted.ranges for fitted in self._fitted(*kinds) if fitted.formula is not None and fitted.ranges]
        return {
            letter: (max(ranges[letter][0] for ranges in known), min(ranges[letter][1] for ranges in known))
            for letter in (self.letters if known else ())
        }

    def confirmed_to(self, letter: str, kind: str) -> int | None:
        """The largest size of a letter at which the formula of a kind was confirmed; None where it does not depend."""
        known = self.confirmed_range(kind).get(letter)
        return None if known is None else known[1]

    def refusal(self, sizes: Mapping[str, int]) -> str:
        """That it does not run at some sizes, in words: those outside of the confirmed ones, where some are."""
        known = {letter: found for kind in KINDS for letter, found in self.confirmed_range(kind).items()}
        odd = [letter for letter, (low, high) in known.items() if not low <= sizes[letter] <= high]
        return f"{self.name} refuses {', '.join(f'{letter}={sizes[letter]}' for letter in odd or sizes)}"

    def _fitted(self, *kinds: str) -> list[Fitted]:
        return [self.rows[0].fitted[tally] for kind in kinds for tally in tallies_of(kind)]

    def reason(self, kind: str) -> str:
        """Why a kind has no formula."""
        return next(fitted.reason for fitted in self._fitted(kind) if fitted.reason)
