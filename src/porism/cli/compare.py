"""porism compare: several recipes, one table, one report."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from porism.cli.options import TrainingOptions, new_folder, optional
from porism.errors import RecipeError


@dataclass(kw_only=True)
class Compare(TrainingOptions):
    """Train several recipes on the same data and put them side by side.

    $ porism compare language elman lstm
    $ porism compare language table-01 table-02 --data ptb/ --out ptb-table
    $ porism compare language table-01 table-02 --data ptb/ --out ptb-table --resume
    """

    task: Annotated[Positional[str], arg(metavar="TASK")]
    """What to learn: language."""
    recipes: Annotated[Positional[list[str]], arg(metavar="RECIPE...")]
    """The recipes' names."""
    out: Annotated[Path | None, optional("FOLDER")] = None
    """The folder of the comparison, one run in it for each recipe. Left out: a new one under runs/."""
    resume: Annotated[bool, optional()] = False
    """Keep what is done in --out, go on with what is not."""

    def run(self) -> int:
        from porism.cli.output import console_for, print_json
        from porism.report import costs_table, read_run, table, write_report
        from porism.tasks import find
        from porism.train.recipe import override, pick
        from porism.train.run import RECIPE, Run

        kind = find(self.task)
        if not self.recipes:
            raise RecipeError(f"which recipes? Choose from {', '.join(kind.recipes)}.")
        if self.resume and self.out is None:
            raise RecipeError("--resume needs --out, the folder of the comparison to go on with.")
        # All are checked before the first is trained.
        wishes = {name: override(pick(kind.recipes, name, kind.name), self.set) for name in self.recipes}
        folder = self.out or new_folder(f"{self.task}-compare")
        console = console_for(self.json)
        results = []
        for name, recipe in wishes.items():
            path = folder / name
            if self.resume and (path / RECIPE).exists():
                results.append(Run.open(path).metrics() or self.train_on(path, console))
            else:
                results.append(self.train_new(kind, recipe, path, console))
        paths = [folder / name for name in wishes]
        report = write_report(paths, folder / "report.html", command=self._command())
        records = [read_run(path) for path in paths]
        console.print(table(records, console.width))
        if costs := costs_table(records):
            console.print(costs)
        console.print(f"report: {report}", highlight=False, soft_wrap=True)
        if self.json:
            print_json({"runs": results, "report": str(report)})
        return 0

    def _command(self) -> str:
        words = ["porism", "compare", self.task, *self.recipes]
        for assignment in self.set:
            words += ["--set", assignment]
        if self.data is not None:
            words += ["--data", self.data]
        return shlex.join([*words, "--device", self.device, "--seed", str(self.seed)])
