"""porism check: decide by machine."""

from dataclasses import dataclass
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from porism.cli.options import Json


@dataclass(kw_only=True)
class Check:
    """Hold every gradient derived by hand against autograd and finite differences, in float64.

    $ porism check gradients
    $ porism check gradients --json
    """

    what: Annotated[Positional[Literal["gradients", "all"]], arg(metavar="WHAT")] = "all"
    """gradients, or all."""
    seed: Annotated[int, arg(metavar="N")] = 0
    """Of the random inputs."""
    json: Json = False
    """Print the result as one JSON line on standard output, all else on standard error."""

    def run(self) -> int:
        import dataclasses

        from rich.table import Table

        from porism.cli.output import console_for, print_json
        from porism.layers.check import gradients

        console = console_for(self.json)
        checks = gradients(seed=self.seed)
        shown = Table("check", "verdict", "measured", "tolerance")
        for check in checks:
            shown.add_row(check.name, check.verdict, f"{check.measured:.1e}", f"{check.tolerance:.0e}")
        failed = sum(check.verdict != "pass" for check in checks)
        console.print(shown)
        console.print(f"{len(checks) - failed} passed, {failed} failed", highlight=False)
        if self.json:
            rows = [dataclasses.asdict(check) for check in checks]
            print_json({"checks": rows, "passed": len(checks) - failed, "failed": failed})
        return 1 if failed else 0
