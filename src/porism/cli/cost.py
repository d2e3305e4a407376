"""porism cost: the closed formula of a layer, of a recipe, or of any module you bring."""

import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, UseAppendAction, arg

from porism.cli.options import Json, optional
from porism.cli.output import print_json, tell
from porism.errors import RecipeError

if TYPE_CHECKING:
    from rich.console import Console

    from porism.cli.target import Target
    from porism.costing import cost as costing


@dataclass(kw_only=True)
class Cost:
    """Derive what a layer, a recipe's model or any module costs, from its code, and confirm it at sizes held out.

    $ porism cost elman --at B=32,T=100,D=50,H=100
    $ porism cost language/lstm --at V=10000 --memory 24GB
    $ porism cost torch.nn:Linear --with "64, 10" --input "B T D"
    $ porism cost mypackage.models:build --input "B T D"         a factory whose arguments are letters
    $ porism cost elman --against readout --at B=20,D=100,H=100  where one overtakes the other
    $ porism cost window --draw --at T=8,W=3                     who looks at whom
    """

    target: Annotated[Positional[str], arg(metavar="TARGET")]
    """A layer's name, TASK/RECIPE, or package.module:factory."""
    input: Annotated[UseAppendAction[list[str]], arg(metavar='"B T D"')] = field(default_factory=list)
    """The sizes of an input: letters, numbers, arithmetic; ": int < V" behind them for words or classes. Once for each
    input."""
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
    """Write the picture of a comparison to a file, too."""
    draw: Annotated[bool, optional()] = False
    """Draw which keys a layer that attends looks at, at the T and W of --at. Nothing is counted then."""
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
        from porism.cli.output import console_for
        from porism.cli.target import find

        console = console_for(self.json)
        sizes = self._check()
        target = find(self.target, self.input, self.arguments)
        if self.draw:
            return self._draw(target, sizes, console)
        derived = self._derive(target, console)
        console.print(derived.table())
        if self.against:
            result = derived.to_json() | {"against": self._compare(derived, sizes, console)}
        else:
            sizes = self._all_sizes(derived, sizes, target) if sizes or self.memory or self.measure else {}
            result = derived.to_json(**sizes) | self._numbers(derived, sizes, console)
        if self.json:
            print_json(result)
        return 0

    def _check(self) -> dict[str, int]:
        """The sizes of --at. What can be seen to be wrong is said before anything is counted."""
        from porism.costing.predicting.memory import check_optimizer

        check_optimizer(self.optimizer)
        if self.memory:
            _bytes(self.memory)
        _sizes("--multiples", self.multiples)
        return _sizes("--at", self.at)

    def _draw(self, target: "Target", sizes: dict[str, int], console: "Console") -> int:
        from porism.cli.target import drawable

        if target.drawing is None:
            raise RecipeError(f"cost: {target.name} cannot be drawn. Choose from {', '.join(drawable())}.")
        drawing = target.drawing(sizes)
        tell(console, drawing)
        if self.json:
            print_json({"drawing": drawing})
        return 0

    def _derive(self, target: "Target", console: "Console") -> "costing.Cost":
        from porism.costing.counting.conventions import Conventions
        from porism.costing.derive import derive

        conventions = Conventions(1 if self.macs else 2, "half" if self.causal_half else "full", self.elementwise)
        multiples = target.multiples | _sizes("--multiples", self.multiples)
        with console.status(f"counting {target.name} at a few sizes"):
            derived = derive(
                target.counted, *target.inputs, multiples=multiples, largest=target.largest, conventions=conventions
            )
        return replace(derived, name=target.name)

    def _all_sizes(self, derived: "costing.Cost", sizes: dict[str, int], target: "Target") -> dict[str, int]:
        return {letter: size for letter, size in target.sizes.items() if letter in derived.letters} | sizes

    def _numbers(self, derived: "costing.Cost", sizes: dict[str, int], console: "Console") -> dict[str, Any]:
        if not sizes:
            return {}
        titles = derived.titles
        for kind, number in derived.at(**sizes).items():
            tell(console, f"{titles[kind]}: {number:,}")
        found: dict[str, Any] = {}
        parts = derived.memory(self.optimizer, **sizes).at(**sizes)
        found["memory"] = parts
        shown = ", ".join(f"{name} {number:,}" for name, number in parts.items() if name != "total")
        tell(console, f"bytes in training with {self.optimizer}: {parts['total']:,} ({shown})")
        if self.memory:
            found["fits"] = self._fits(derived, sizes, console)
        if self.measure:
            found["time"] = self._time(derived, sizes, console)
        return found

    def _fits(self, derived: "costing.Cost", sizes: dict[str, int], console: "Console") -> dict[str, Any]:
        fit = derived.fits(_bytes(self.memory), self.optimizer, **sizes)
        tell(console, str(fit))
        return {"fits": fit.fits, "bytes": fit.total, "available": fit.available}

    def _time(self, derived: "costing.Cost", sizes: dict[str, int], console: "Console") -> dict[str, Any]:
        from porism.training.device import choose_device

        device = choose_device(self.device)
        with console.status(f"measuring on {device}; the device's peaks are measured once and kept"):
            timed = derived.time(device, **sizes)
        tell(console, timed.text)
        return timed.to_json()

    def _compare(self, derived: "costing.Cost", sizes: dict[str, int], console: "Console") -> list[dict[str, Any]]:
        from porism.cli.target import find
        from porism.costing.comparison import compare_all
        from porism.report.crossover import draw

        other = self._derive(find(self.against, self.input if ":" in self.against else ()), console)
        console.print(other.table())
        comparisons = compare_all(derived, other, self.along, **sizes)
        for comparison in comparisons:
            tell(console, comparison.sentence)
        drawn = next((one for one in comparisons if one.crossing), comparisons[0])
        tell(console, draw(drawn))
        if self.plot:
            from porism.report.crossover import write_crossing

            write_crossing(drawn, self.plot)
            tell(console, f"picture: {self.plot}")
        return [comparison.to_json() for comparison in comparisons]


def _sizes(flag: str, text: str) -> dict[str, int]:
    sizes = {}
    for part in filter(None, text.split(",")):
        letter, equals, size = part.partition("=")
        if not equals or not size.strip().isdigit():
            raise RecipeError(f"cost: {flag} takes letters with sizes, got {part!r}. Write for instance B=32,T=100.")
        sizes[letter.strip()] = int(size)
    return sizes


def _bytes(text: str) -> int:
    """`24GB`, `80GiB` or a plain number, as bytes."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?", text.strip(), re.IGNORECASE)
    if not found:
        raise RecipeError(f"cost: --memory takes bytes, got {text!r}. Write for instance 24GB or 80GiB.")
    number, prefix, binary = found.groups()
    return int(float(number) * (1024 if binary else 1000) ** " KMGT".index(prefix.upper() or " "))
