"""porism train: one recipe from data to report."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, UseAppendAction, arg

from porism.errors import RecipeError

if TYPE_CHECKING:
    from rich.console import Console

Assignments = Annotated[UseAppendAction[list[str]], arg(metavar="FIELD=VALUE")]


@dataclass(kw_only=True)
class Train:
    """Train a model, evaluate it and write a report.

    porism train language                          the default recipe on the embedded text
    porism train language table-02 --data ptb/     a recipe on your own data
    porism train language elman --set hidden=200 --set epochs=5
    porism train --resume runs/language-elman      go on after Ctrl-C or a crash
    """

    task: Annotated[Positional[str | None], arg(metavar="TASK")] = None
    """What to learn: language."""
    recipe: Annotated[Positional[str | None], arg(metavar="RECIPE")] = None
    """A recipe's name, or the recipe.toml of an earlier run. Left out: the task's default."""
    set: Assignments = field(default_factory=list)
    """Change a field of the recipe."""
    data: str | None = None
    """A file, a folder or a known name (see porism data). Left out: the embedded data."""
    device: str = "auto"
    """auto, cpu or cuda."""
    seed: int = 1
    """Two runs of one seed on one CPU give the same bits."""
    threads: int | None = None
    """Threads on a CPU. Left out: all cores."""
    out: Path | None = None
    """The folder of the run. Left out: a new one under runs/."""
    resume: Path | None = None
    """Go on with this run; all other settings come from it."""
    checkpoint_every: float = 60.0
    """Seconds between checkpoints within an epoch."""
    tensorboard: bool = False
    """Write curves for TensorBoard into the run's folder too."""
    json: bool = False
    """Print the result as one JSON line on standard output, all else on standard error."""

    def run(self) -> int:
        from porism.cli.output import console_for, print_json
        from porism.report import read_run, table

        console = console_for(self.json)
        result = self.train(console)
        folder = Path(result["run"])
        console.print(table([read_run(folder)], console.width))
        console.print(f"report: {folder / 'report.html'}", highlight=False, soft_wrap=True)
        if self.json:
            print_json(result)
        return 0

    def train(self, console: "Console") -> dict[str, Any]:
        """Train as asked and return what metrics.json says."""
        import torch

        from porism.report import write_report
        from porism.train.run import Run
        from porism.train.session import begin, complete, reopen
        from porism.train.watch import Audience, ConsoleWatcher, TensorBoardWatcher, Watcher

        if self.threads is not None:
            if self.threads < 1:
                raise RecipeError(f"--threads takes a whole number from 1 on, got {self.threads}.")
            torch.set_num_threads(self.threads)
        watchers: list[Watcher] = [ConsoleWatcher(console)]
        if self.resume is not None:
            from porism.tasks import find

            run = Run.open(self.resume)
            training = reopen(find(run.facts.task), run, watchers[0])
        else:
            training = begin(*self._wish(), source=self.data, device=self.device, seed=self.seed, overrides=self.set)
            training.run.append("start", command=" ".join(training.run.facts.command()))
        run = training.run
        if self.tensorboard:
            watchers.append(TensorBoardWatcher(run.path / "tensorboard"))
        facts = run.facts
        where = f"on {facts.device} in {facts.precision}"
        console.print(f"{facts.task} {facts.recipe} {where}: {run.path}", highlight=False, soft_wrap=True)
        result = complete(training, Audience(*watchers), self.checkpoint_every)
        write_report([run.path], run.path / "report.html")
        return result

    def _wish(self) -> tuple[Any, Any, Path]:
        from porism.tasks import TASKS, find
        from porism.train.recipe import from_fields, override, pick
        from porism.train.run import read_recipe

        if self.task is None:
            raise RecipeError(f"which task? Write porism train TASK, with a task from: {', '.join(TASKS)}.")
        kind = find(self.task)
        if self.recipe is not None and self.recipe.endswith(".toml"):
            _, fields = read_recipe(Path(self.recipe))
            recipe = from_fields(type(kind.recipes[kind.default_recipe]), fields)
        else:
            recipe = pick(kind.recipes, self.recipe or kind.default_recipe, kind.name)
        recipe = override(recipe, self.set)
        return kind, recipe, self.out or new_folder(f"{kind.name}-{recipe.name}")


def new_folder(name: str) -> Path:
    """The first free of runs/NAME, runs/NAME-2, runs/NAME-3 ..."""
    folder, number = Path("runs") / name, 1
    while folder.exists():
        number += 1
        folder = Path("runs") / f"{name}-{number}"
    return folder
