"""One training, whoever asks for it: what `porism train`, `porism compare` and their functions in Python all run."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from porism.files import refuse_stream
from porism.report.page import write_report
from porism.runs.recipe import Recipe
from porism.runs.run import RunFolder
from porism.tasks import catalogue, find
from porism.training.lengthen import lengthen
from porism.training.loop import Training
from porism.training.progress import Progress
from porism.training.request import NO_OBJECTS
from porism.training.session import complete, reopen
from porism.training.task import UserObjects

REPORT = "report.html"


@contextmanager
def going_on(
    run: RunFolder, progress: Progress, recipe: Recipe | None = None, user_objects: UserObjects = NO_OBJECTS
) -> Iterator[Training]:
    """A run where it stopped, to be trained on while this lasts.

    recipe: the run's own for more epochs or with more patience; what changes is noted.
    """
    training = reopen(find(run.facts.task), run, progress, user_objects)
    with run.writing():
        for change in lengthen(training, recipe or training.task.recipe):
            progress.note(change)
        yield training


def finish(
    training: Training, progress: Progress, checkpoint_every: float = 60.0, *, report: bool = True
) -> dict[str, Any]:
    """Train to the end, write the results and the page of the run; what metrics.json says."""
    result = complete(training, progress, checkpoint_every)
    if report:
        write_report([training.run.path], training.run.path / REPORT)
    return result


def whole_path(task: str, data: str | None) -> str | None:
    """Where the data is. A path is made whole, so that the run can be resumed from another folder."""
    if data is None or data in catalogue(task) or not Path(data).exists():
        return data
    refuse_stream(Path(data))
    return str(Path(data).resolve())
