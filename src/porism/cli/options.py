"""The options that every verb which trains has, and what they do."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import UseAppendAction, arg

from porism.errors import RecipeError

if TYPE_CHECKING:
    from rich.console import Console

    from porism.train.recipe import Recipe
    from porism.train.task import Task


def optional(metavar: str | None = None) -> Any:
    """How the help shows an option that may be left out: its text says what happens then."""
    return arg(metavar=metavar, help_behavior_hint="")


Assignments = Annotated[UseAppendAction[list[str]], arg(metavar="FIELD=VALUE")]
Json = Annotated[bool, optional()]


@dataclass(kw_only=True)
class TrainingOptions:
    """How to train, whatever is trained."""

    set: Assignments = field(default_factory=list)
    """Change a field of the recipe."""
    data: Annotated[str | None, optional("PATH|NAME")] = None
    """A file, a folder or a known name (see porism data). Left out: the embedded data."""
    device: Annotated[str, arg(metavar="auto|cpu|cuda")] = "auto"
    """Where to train; auto takes the GPU where there is one."""
    seed: Annotated[int, arg(metavar="N")] = 1
    """Two runs of one seed on one CPU give the same bits."""
    threads: Annotated[int | None, optional("N")] = None
    """Threads on a CPU. Left out: all cores."""
    checkpoint_every: Annotated[float, arg(metavar="SECONDS")] = 60.0
    """Seconds between checkpoints within an epoch."""
    tensorboard: Annotated[bool, optional()] = False
    """Write curves for TensorBoard into the run's folder too."""
    json: Json = False
    """Print the result as one JSON line on standard output, all else on standard error."""

    def train_new(
        self,
        kind: "type[Task]",
        recipe: "Recipe",
        out: Path,
        console: "Console",
        overrides: Sequence[str] | None = None,
        seed: int | None = None,
        report: bool = True,
    ) -> dict[str, Any]:
        """Train a recipe into a new folder, write its report and return what metrics.json says.

        overrides: the assignments that made the recipe what it is, if others than --set.
        """
        from porism.train.session import begin

        training = begin(
            kind,
            recipe,
            out,
            source=self._source(kind.name),
            device=self.device,
            seed=self.seed if seed is None else seed,
            threads=self._checked_threads(),
            overrides=self.set if overrides is None else overrides,
        )
        return self._complete(training, console, report)

    def train_on(self, folder: Path, console: "Console", report: bool = True) -> dict[str, Any]:
        """Go on with a run where it stopped."""
        from porism.tasks import find
        from porism.train.run import Run
        from porism.train.session import reopen
        from porism.train.watch import ConsoleWatcher

        run = Run.open(folder)
        return self._complete(reopen(find(run.facts.task), run, ConsoleWatcher(console)), console, report)

    def _complete(self, training: Any, console: "Console", report: bool) -> dict[str, Any]:
        from porism.report import write_report
        from porism.train.session import complete
        from porism.train.watch import Audience, ConsoleWatcher, TensorBoardWatcher, Watcher

        path, facts = training.run.path, training.run.facts
        watchers: list[Watcher] = [ConsoleWatcher(console)]
        if self.tensorboard:
            watchers.append(TensorBoardWatcher(path / "tensorboard"))
        where = f"on {facts.device} in {facts.precision}"
        console.print(f"{facts.task} {facts.recipe} {where}: {path}", highlight=False, soft_wrap=True)
        result = complete(training, Audience(*watchers), self.checkpoint_every)
        if report:
            write_report([path], path / "report.html")
        return result

    def _source(self, task: str) -> str | None:
        """A path is made whole, so that the run can be resumed from another folder."""
        from porism.tasks import catalogue

        if self.data is None or self.data in catalogue(task) or not Path(self.data).exists():
            return self.data
        return str(Path(self.data).resolve())

    def _checked_threads(self) -> int | None:
        if self.threads is not None and self.threads < 1:
            raise RecipeError(f"--threads takes a whole number from 1 on, got {self.threads}.")
        return self.threads


def new_folder(name: str) -> Path:
    """The first free of runs/NAME, runs/NAME-2, runs/NAME-3 ..."""
    folder, number = Path("runs") / name, 1
    while folder.exists():
        number += 1
        folder = Path("runs") / f"{name}-{number}"
    return folder
