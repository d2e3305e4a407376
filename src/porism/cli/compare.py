"""porism compare: several recipes, one table, one report."""

import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from porism.cli.train import Assignments, Train, new_folder
from porism.errors import RecipeError


@dataclass(kw_only=True)
class Compare:
    """Train several recipes on the same data and put them side by side.

    porism compare language elman lstm
    porism compare language table-01 table-02 --data ptb/ --out ptb-table
    porism compare language elman lstm --out ptb-table --resume
    """

    task: Annotated[Positional[str], arg(metavar="TASK")]
    """What to learn: language."""
    recipes: Annotated[Positional[list[str]], arg(metavar="RECIPE...")]
    """The recipes' names."""
    set: Assignments = field(default_factory=list)
    """Change a field of every recipe."""
    data: str | None = None
    """A file, a folder or a known name (see porism data). Left out: the embedded data."""
    device: str = "auto"
    """auto, cpu or cuda."""
    seed: int = 1
    """The seed of every run."""
    threads: int | None = None
    """Threads on a CPU. Left out: all cores."""
    out: Path | None = None
    """The folder of the comparison, one run in it for each recipe. Left out: a new one under runs/."""
    resume: bool = False
    """Keep what is done in --out, go on with what is not."""
    json: bool = False
    """Print the result as one JSON line on standard output, all else on standard error."""

    def run(self) -> int:
        from porism.cli.output import console_for, print_json
        from porism.report import read_run, table, write_report
        from porism.tasks import find
        from porism.train.recipe import override, pick
        from porism.train.run import Run

        if not self.recipes:
            raise RecipeError(f"which recipes? Choose from {', '.join(find(self.task).recipes)}.")
        if self.resume and self.out is None:
            raise RecipeError("--resume needs --out, the folder of the comparison to go on with.")
        kind = find(self.task)
        for recipe in self.recipes:
            override(pick(kind.recipes, recipe, kind.name), self.set)
        folder = self.out or new_folder(f"{self.task}-compare")
        console = console_for(self.json)
        results = []
        for recipe in self.recipes:
            path = folder / recipe
            started = self.resume and (path / "recipe.toml").exists()
            done = Run.open(path).metrics() if started else None
            if done is None:
                wish = Train(
                    task=self.task,
                    recipe=recipe,
                    set=self.set,
                    data=self.data,
                    device=self.device,
                    seed=self.seed,
                    threads=self.threads,
                    out=path,
                    resume=path if started else None,
                )
                done = wish.train(console)
            results.append(done)
        paths = [folder / recipe for recipe in self.recipes]
        report = write_report(paths, folder / "report.html", command=self._command())
        console.print(table([read_run(path) for path in paths], console.width))
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
