"""The options that every verb which trains has, and what they do."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import UseAppendAction, arg

from porism.cli.limits import check_interval, check_path
from porism.errors import Interrupted

if TYPE_CHECKING:
    from rich.console import Console

    from porism.runs.recipe import Recipe
    from porism.runs.run import RunFacts, RunFolder
    from porism.training.loop import Training
    from porism.training.progress import Progress
    from porism.training.request import TrainingRequest


def optional(metavar: str | None = None, kind: type | None = None) -> Any:
    """How the help shows an option that may be left out: its text says what happens then.

    kind: what is made of the text. By its own rules tyro reads `--data None` as if it had not been given.
    """
    return arg(metavar=metavar, help_behavior_hint="", constructor=kind)


Assignments = Annotated[UseAppendAction[list[str]], arg(metavar="FIELD=VALUE")]
Json = Annotated[bool, optional()]
DEVICE, SEED = "auto", 1
"""Where they are left out. The options themselves are None then, so that a resumed run keeps its own."""


@dataclass(kw_only=True)
class TrainingOptions:
    """How to train, whatever is trained."""

    set: Assignments = field(default_factory=list)
    """Change a field of the recipe."""
    data: Annotated[str | None, optional("PATH|NAME", str)] = None
    """A file, a folder or a known name (see porism data). Left out: the embedded data."""
    device: Annotated[str | None, optional("auto|cpu|cuda", str)] = None
    """Where to train. Left out: auto, which takes the GPU where there is one."""
    seed: Annotated[int | None, optional("N", int)] = None
    """Two runs of one seed on one CPU with as many threads give the same bits, but for words on several threads without
    --deterministic. Left out: 1."""
    threads: Annotated[int | None, optional("N", int)] = None
    """Threads on a CPU, also of numba. Left out: all cores."""
    checkpoint_every: Annotated[float, arg(metavar="SECONDS")] = 60.0
    """Seconds between checkpoints within an epoch."""
    baselines: Annotated[bool, optional()] = True
    """Without the simple models that are measured on the same data, such as logistic regression or n-grams."""
    tensorboard: Annotated[bool, optional()] = False
    """Write curves for TensorBoard into the run's folder too."""
    quiet: Annotated[bool, optional()] = False
    """Print the result alone, no line an epoch."""
    json: Json = False
    """Print the result as one JSON line on standard output, all else on standard error."""

    def check(self) -> None:
        """Refuse what can be seen to be wrong before anything is read or made."""
        from porism.training.progress import summary_writer

        check_interval(self.checkpoint_every)
        if self.data is not None:
            check_path(self.data)
        if self.tensorboard:
            summary_writer()

    def check_new(self, seeds: int | None = None) -> None:
        """The same for what only a new run takes from the command line."""
        from porism.training.limits import check_seed, check_threads

        check_seed(self.seed_or_default, seeds)
        check_threads(self.threads)

    @property
    def seed_or_default(self) -> int:
        return SEED if self.seed is None else self.seed

    @property
    def device_or_default(self) -> str:
        return DEVICE if self.device is None else self.device

    def train_new(
        self, request: "TrainingRequest", out: Path, console: "Console", report: bool = True
    ) -> dict[str, Any]:
        """Train into a new folder, write a report and return what metrics.json says."""
        from porism.training.session import begin

        return self._complete(begin(request, out), console, report)

    def train_on(
        self, run: "RunFolder", console: "Console", report: bool = True, recipe: "Recipe | None" = None
    ) -> dict[str, Any]:
        """Go on with a run where it stopped.

        recipe: the run's own for more epochs or with more patience.
        """
        from porism.api.engine import going_on
        from porism.training.progress import ConsoleProgress

        with going_on(run, ConsoleProgress(console), recipe) as training:
            return self._complete(training, console, report)

    def _complete(self, training: "Training", console: "Console", report: bool) -> dict[str, Any]:
        from porism.api.engine import finish

        with self.output_lost(console):
            return finish(training, self.listening(console)(training), self.checkpoint_every, report=report)

    def listening(self, console: "Console") -> "Callable[[Training], Progress]":
        """Says where a training is and how it runs, and gives who listens to it from then on."""
        from porism.cli.output import tell
        from porism.training.progress import ConsoleProgress, Progress, ProgressGroup, TensorBoardProgress

        def started(training: "Training") -> "Progress":
            path, facts = training.run.path, training.run.facts
            if training.position.finished:
                tell(console, f"finished: {training.position.finished}")
            tell(console, f"{facts.task} {facts.recipe} on {where_and_how(facts)}: {path}")
            if caution := training.task.caution(facts.device, facts.threads):
                tell(console, f"note: {caution}")
            listeners: list[Progress] = [] if self.quiet else [ConsoleProgress(console)]
            if self.tensorboard:
                listeners.append(TensorBoardProgress(path / "tensorboard"))
            return ProgressGroup(*listeners)

        return started

    @staticmethod
    @contextmanager
    def output_lost(console: "Console") -> "Iterator[None]":
        """Let a training that is stopped say why, where that is for want of a reader."""
        from porism.cli.output import lost

        try:
            yield
        except Interrupted as stopped:
            if why := lost(console):
                raise Interrupted(f"{why}: {stopped.problem}", stopped.advice) from stopped
            raise

    def source(self, task: str) -> str | None:
        """Where the data is."""
        from porism.api.engine import whole_path

        return whole_path(task, self.data)


def where_and_how(facts: "RunFacts") -> str:
    """
    >>> where_and_how(run.facts)
    'cpu in fp32 with 2 threads'
    """
    threads = f" with {facts.threads} thread{'s' * (facts.threads > 1)}" if facts.device == "cpu" else ""
    return f"{facts.device} in {facts.precision}{threads}"


def cores() -> int:
    """The threads of a CPU that are taken where none are given."""
    import torch

    return torch.get_num_threads()
