"""porism cost: the closed formula of a layer, or of any module you bring."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, UseAppendAction, arg

from porism.cli.options import Json, optional
from porism.errors import PorismError, RecipeError

if TYPE_CHECKING:
    from porism.cost.derived import Derived


@dataclass(kw_only=True)
class Cost:
    """Derive what a layer or any module costs, from its code: parameters, FLOPs forward and backward, bytes kept.

    $ porism cost elman --at B=32,T=100,D=50,H=100
    $ porism cost torch.nn:Linear --with "64, 10" --input "B T D"
    $ porism cost mypackage.models:build --input "B T D"         a factory whose arguments are letters
    """

    target: Annotated[Positional[str], arg(metavar="TARGET")]
    """A layer's name, or package.module:factory."""
    input: Annotated[UseAppendAction[list[str]], arg(metavar='"B T D"')] = field(default_factory=list)
    """The sizes of an input, letters or numbers; ": int" behind them for words or classes. Once for each input."""
    arguments: Annotated[str, arg(name="with", metavar='"64, 10"', help_behavior_hint="")] = ""
    """Numbers the factory is called with. Left out: its letters are varied."""
    at: Annotated[str, optional("B=32,T=100")] = ""
    """Sizes to put in."""
    json: Json = False
    """Print the result as one JSON line on standard output, all else on standard error."""

    def run(self) -> int:
        from porism.cli.output import console_for, print_json

        console = console_for(self.json)
        derived = self._derived()
        console.print(derived.table())
        sizes = self._sizes()
        if sizes:
            for kind, number in derived.at(**sizes).items():
                console.print(f"{kind}: {number:,}", highlight=False)
        if self.json:
            print_json(derived.to_json(**sizes))
        return 0

    def _derived(self) -> "Derived":
        from importlib import import_module

        from porism.cost.derive import derive
        from porism.layers.check import LAYERS
        from porism.train.recipe import nearest

        if self.target in LAYERS:
            target, inputs = import_module(f"porism.layers.{self.target}.cost").subject()
            return derive(target, *inputs)
        if ":" not in self.target:
            raise RecipeError(
                f"cost: there is no layer {self.target!r}. {nearest(self.target, list(LAYERS))} "
                "For a module of yours write package.module:factory."
            )
        if not self.input:
            raise RecipeError(f'cost: what goes into {self.target}? Name its sizes, for instance --input "B T D".')
        return derive(self._brought(), *self.input)

    def _brought(self) -> Any:
        """The module or factory a user names."""
        import os
        import sys
        from importlib import import_module

        place, _, name = self.target.partition(":")
        sys.path.insert(0, os.getcwd())  # noqa: PTH109  # the folder the user stands in, as `python -m` does
        try:
            found = getattr(import_module(place), name)
        except (ImportError, AttributeError) as error:
            raise PorismError(f"cost: {self.target} cannot be found: {error}.") from error
        if not self.arguments:
            return found
        try:
            return found(*(int(word) for word in self.arguments.split(",")))
        except (TypeError, ValueError) as error:
            raise PorismError(f"cost: {name}({self.arguments}) cannot be made: {error}.") from error

    def _sizes(self) -> dict[str, int]:
        sizes = {}
        for part in filter(None, self.at.split(",")):
            letter, equals, size = part.partition("=")
            if not equals or not size.strip().isdigit():
                raise RecipeError(f"cost: --at takes letters with sizes, got {part!r}. Write for instance B=32,T=100.")
            sizes[letter.strip()] = int(size)
        return sizes
