"""porism cost: the closed formula of a layer, of a recipe, or of any module you bring."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, UseAppendAction, arg

from porism.cli.options import Json, optional
from porism.cli.output import print_json, tell
from porism.errors import PorismError, RecipeError, shown

if TYPE_CHECKING:
    from rich.console import Console

    from porism.api.cost import NamedTarget
    from porism.costing import cost as costing


@dataclass(kw_only=True)
class CostCommand:
    """Derive what a layer, a recipe's model or any module costs, from its code, and confirm it at sizes held out.

    $ porism cost elman --at B=32,T=100,D=50,H=100
    $ porism cost language/lstm --at V=10000 --memory 24GB
    $ porism cost torch.nn:Linear --with "64, 10" --input "B T D"
    $ porism cost mypackage.models:build --input "B T D"         a factory whose arguments are letters
    $ porism cost elman --against readout --at B=20,D=100,H=100  where one overtakes the other
    $ porism cost window --draw --at T=8,W=3                     which keys each query attends to
    $ porism cost grid --draw --at Y=4,X=6                       which cells are computed at once
    """

    target: Annotated[Positional[str], arg(metavar="TARGET")]
    """A layer's name, TASK/RECIPE, or package.module:factory."""
    input: Annotated[UseAppendAction[list[str]], arg(metavar='"B T D"')] = field(default_factory=list)
    """The sizes of an input: letters, numbers, arithmetic; ": int < V" after them for words or classes. Once for each
    input; NAME=... gives it by name."""
    arguments: Annotated[str, arg(name="with", metavar='"64, 10"', help_behavior_hint="")] = ""
    """Numbers the factory is called with. Left out: its letters are varied."""
    at: Annotated[str, optional("B=32,T=100")] = ""
    """Sizes to put in. A recipe brings its own for those that are left out."""
    multiples: Annotated[str, optional("D=8")] = ""
    """Letters that something must divide, with the number."""
    against: Annotated[str, optional("OTHER")] = ""
    """Another target: say from which size on one costs more than the other, and draw it."""
    along: Annotated[str, arg(metavar="LETTER")] = "T"
    """The letter to go along in a comparison."""
    plot: Annotated[Path | None, optional("FILE.svg", Path)] = None
    """Write the picture of a comparison to a file, too; of window alone, several widths over T in one picture."""
    draw: Annotated[bool, optional()] = False
    """Draw which keys an attention layer attends to, at the T and W of --at, or the diagonals of a grid, at Y and X.
    Nothing is counted then."""
    macs: Annotated[bool, optional()] = False
    """Count multiply-adds instead of floating-point operations."""
    causal_half: Annotated[bool, optional()] = False
    """Count half of what a kernel masks causally."""
    elementwise: Annotated[bool, optional()] = False
    """Count one operation for each element of elementwise work, too."""
    optimizer: Annotated[str, arg(metavar="NAME")] = "adam"
    """For the memory of training: sgd, momentum, rmsprop, adagrad, adam or adamw."""
    memory: Annotated[str, optional("24GB")] = ""
    """Say whether training fits into so much memory; needs sizes."""
    measure: Annotated[bool, optional()] = False
    """Predict the time of a pass from the device's measured peaks, and measure it beside; needs sizes."""
    device: Annotated[str, arg(metavar="auto|cpu|cuda")] = "auto"
    """Where to measure."""
    json: Json = False
    """Print the result as one JSON line on standard output, all else on standard error."""

    def run(self) -> int:
        from porism.api.cost import read_inputs, resolve
        from porism.cli.output import console_for

        console = console_for(self.json)
        sizes = self._check()
        target = resolve(self.target, read_inputs(self.input), self.arguments)
        if self.draw:
            return self._draw(target, sizes, console)
        if self.plot and not self.against:
            return self._plot(target, sizes, self.plot, console)
        given = sizes
        if target.recipe is not None:
            # A size that no formula of the recipe is for stays a number in it.
            target = target.at(given)
            sizes = {letter: size for letter, size in given.items() if letter not in target.fixed}
        derived = self._derive(target, console)
        console.print(derived.table())
        if target.fixed:
            numbers = ", ".join(f"{letter}={size}" for letter, size in target.fixed.items())
            tell(console, f"at {numbers}, along which the code has steps; another size: --at")
        variants = {}
        for variant in () if self.against else target.variants:
            variants[variant.name] = self._derive(variant, console)
            tell(console, f"{variant.name}, {variant.about}:")
            console.print(variants[variant.name].table())
        if self.against:
            result = derived.to_json() | {"against": self._compare(derived, {**given, **target.fixed}, console)}
        else:
            sizes = {**derived.sizes, **sizes} if sizes or self.memory or self.measure else {}
            self._check_sizes(derived, sizes)
            result = derived.to_json(**sizes) | self._numbers(derived, sizes, console)
            result |= {"variants": {name: one.to_json() for name, one in variants.items()}} if variants else {}
        if self.json:
            print_json(result)
        return 0

    def _check(self) -> dict[str, int]:
        """The sizes of --at. Mistakes that can be seen are reported before anything is counted."""
        from porism.costing.predicting.memory import check_optimizer

        check_optimizer(self.optimizer)
        if self.memory:
            self._bytes()
        other = "--against" if self.against else "--draw" if self.draw else "--plot" if self.plot else ""
        if other and (asked := self._asked()):
            raise RecipeError(
                f"cost: {asked} is about one target at its sizes, and {other} came. Leave one of them out."
            )
        if self.draw and self.against:
            raise RecipeError("cost: --draw is a picture of one pattern, and --against came. Leave one of them out.")
        if self.device != _default("device") and not self.measure:
            raise RecipeError(
                f"cost: --device {self.device} says where to measure, and nothing is measured. Add --measure, or leave "
                "--device out."
            )
        if self.along != _default("along") and not self.against:
            raise RecipeError(
                f"cost: --along {self.along} goes along a comparison, and there is none. Add --against OTHER, or leave "
                "--along out."
            )
        _sizes("--multiples", self.multiples)
        return _sizes("--at", self.at)

    def _check_sizes(self, derived: "costing.Cost", sizes: dict[str, int]) -> None:
        """What is asked at sizes needs them."""
        missing = [letter for letter in derived.letters if letter not in sizes]
        if missing and (asked := self._asked()):
            example = ",".join(f"{letter}=32" for letter in missing)
            raise RecipeError(f"cost: {asked} needs sizes, and {', '.join(missing)} came without. Add --at {example}.")

    def _asked(self) -> str:
        """What was asked that needs sizes."""
        return "--memory" if self.memory else "--measure" if self.measure else ""

    def _bytes(self) -> int:
        from porism.costing.predicting.memory import bytes_of

        try:
            return bytes_of(self.memory)
        except PorismError:
            raise RecipeError(
                f"cost: --memory takes bytes, got {shown(self.memory)}. Write for instance 24GB or 80GiB."
            ) from None

    def _draw(self, target: "NamedTarget", sizes: dict[str, int], console: "Console") -> int:
        from porism.api.cost import drawable

        if target.drawing is None:
            raise RecipeError(f"cost: {target.name} cannot be drawn. Choose from {', '.join(drawable())}.")
        drawing = target.drawing(sizes)
        tell(console, drawing)
        if self.json:
            print_json({"drawing": drawing})
        return 0

    def _plot(self, target: "NamedTarget", sizes: dict[str, int], path: Path, console: "Console") -> int:
        """Several formulas of one layer over T. Nothing is counted."""
        from porism.costing.alphabet import T
        from porism.costing.predicting.lines import plot_lines

        if target.curves is None:
            raise RecipeError(
                "cost: --plot draws a comparison, so it needs --against OTHER; of window, several widths."
            )
        title, lines = target.curves(sizes)
        plot_lines(path, T, title, lines, largest=2**15)
        tell(console, f"picture: {path}")
        if self.json:
            print_json({"picture": str(path), "formulas": {name: str(formula) for name, formula in lines.items()}})
        return 0

    def _derive(self, target: "NamedTarget", console: "Console") -> "costing.Cost":
        from porism.api.cost import cost_of
        from porism.costing.counting.conventions import Conventions

        causal = "half" if self.causal_half else "full"
        with console.status(f"counting {target.name} at a few sizes"):
            return cost_of(
                target,
                multiples=_sizes("--multiples", self.multiples),
                conventions=Conventions(1 if self.macs else 2, causal, self.elementwise),
            )

    def _numbers(self, derived: "costing.Cost", sizes: dict[str, int], console: "Console") -> dict[str, Any]:
        if not sizes and not self._asked():
            return {}
        from porism.costing.quantity import Quantity

        titles = derived.titles
        for kind, quantity in derived.at(recount=True, **sizes).items():
            tell(console, f"{titles[kind]}: {replace(quantity, unit='')}")
        found: dict[str, Any] = {}
        memory = derived.memory(self.optimizer, **sizes)
        # Without letters, and so without sizes, formulas are numbers.
        known = {
            name: part if isinstance(part, Quantity) else Quantity(int(part))
            for name, part in {**memory.parts, "total": memory.total}.items()
        }
        found["memory"] = {name: quantity.value for name, quantity in known.items()}
        shown = ", ".join(f"{name} {replace(known[name], unit='')}" for name in memory.parts)
        tell(console, f"bytes in training with {self.optimizer}: {replace(known['total'], unit='')} ({shown})")
        if self.memory:
            found["fits"] = self._fits(derived, sizes, console)
        if self.measure:
            found["time"] = self._time(derived, sizes, console)
        return found

    def _fits(self, derived: "costing.Cost", sizes: dict[str, int], console: "Console") -> dict[str, Any]:
        fit = derived.fits(self._bytes(), optimizer=self.optimizer, **sizes)
        tell(console, str(fit))
        return {"fits": fit.fits, "bytes": fit.total, "available": fit.available}

    def _time(self, derived: "costing.Cost", sizes: dict[str, int], console: "Console") -> dict[str, Any]:
        from porism.training.device import choose_device

        device = choose_device(self.device)
        with console.status(f"measuring on {device}; the device's peaks are measured once and kept"):
            time = derived.time(device, measure=True, backward=True, **sizes)
        tell(console, str(time))
        return time.to_json()

    def _compare(self, derived: "costing.Cost", sizes: dict[str, int], console: "Console") -> list[dict[str, Any]]:
        from porism.api.cost import read_inputs, resolve

        against = resolve(self.against, read_inputs(self.input) if ":" in self.against else ())
        if against.recipe is not None:
            against = against.at(sizes)
        other = self._derive(against, console)
        console.print(other.table())
        # What is a number in the formulas of one is the same number in those of the other.
        numbers = {**sizes, **against.fixed}
        fixed = {**derived.fixed, **other.fixed}
        letters = (*derived.letters, *other.letters)
        sizes = {letter: size for letter, size in numbers.items() if letter in letters or letter not in fixed}
        crossovers = derived.crossovers(other, self.along, **sizes)
        for crossover in crossovers:
            tell(console, str(crossover))
        drawn = next((one for one in crossovers if one.crossing), crossovers[0])
        tell(console, drawn.draw())
        if self.plot:
            drawn.plot(self.plot)
            tell(console, f"picture: {self.plot}")
        return [crossover.to_json() for crossover in crossovers]


def _default(option: str) -> Any:
    return CostCommand.__dataclass_fields__[option].default


def _sizes(flag: str, text: str) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for part in filter(None, text.split(",")):
        letter, equals, size = (word.strip() for word in part.partition("="))
        if not (letter and equals and size.isdecimal() and len(size) <= MOST_DIGITS):
            raise RecipeError(f"cost: {flag} takes letters with sizes, got {shown(part)}. {AN_EXAMPLE}")
        if letter in sizes:
            raise RecipeError(f"cost: {flag} names {letter} twice, {sizes[letter]} and {size}. Give one of them.")
        sizes[letter] = int(size)
    return sizes


MOST_DIGITS = 18
"""Of a size: what torch counts in has 64 bits."""
AN_EXAMPLE = "Write for instance B=32,T=100."
