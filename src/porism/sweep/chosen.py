"""The setting that a sweep chooses is the only one that is evaluated on test."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from porism.errors import RunError
from porism.runs.lock import is_locked
from porism.runs.run import RunFolder
from porism.training.progress import Progress
from porism.training.session import complete, reopen
from porism.training.task import Task

POLL_EVERY = 0.2


def evaluate_runs(kind: type[Task], runs: Sequence[Path], progress: Progress) -> list[dict[str, Any]]:
    """Evaluate trained runs on every split and write their results; what metrics.json of each says.

    Where another worker of the sweep is at one of them, its results are waited for.
    """
    return [_evaluated(kind, path, progress) for path in runs]


def _evaluated(kind: type[Task], path: Path, progress: Progress) -> dict[str, Any]:
    while True:
        run = RunFolder.open(path)
        if (done := run.metrics()) is not None:
            return {**done, "run": str(path)}
        try:
            training = reopen(kind, run, progress)
        except RunError:
            if not is_locked(path):
                raise
            time.sleep(POLL_EVERY)
            continue
        with run.writing():
            return complete(training, progress)
