"""One training as it is requested: what is trained, on which data, and where."""

from collections.abc import Sequence
from dataclasses import dataclass

from porism.runs.recipe import Recipe
from porism.runs.run import IN_MEMORY
from porism.runs.tuning import Tuning
from porism.training.task import Task, UserObjects

NO_OBJECTS = UserObjects()


@dataclass(frozen=True)
class TrainingRequest:
    """A recipe of a task with its data, seed and device. `porism.training.session.begin` makes a run of it."""

    kind: type[Task]
    recipe: Recipe
    overrides: Sequence[str] = ()
    """The assignments that make the recipe of the one of its name."""
    source: str | None = None
    user_objects: UserObjects = NO_OBJECTS
    """What the user gives in Python; its data stands in for that of `source`."""
    seed: int = 1
    device: str = "auto"
    threads: int | None = None
    baselines: bool = True
    """Whether simple models are measured beside it."""
    tuning: Tuning | None = None
    """The search that has chosen the recipe, to be kept with the run."""

    @property
    def recorded_source(self) -> str | None:
        """The data as the run's folder names it."""
        return self.source if self.user_objects.data is None else IN_MEMORY
