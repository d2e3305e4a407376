"""Trained models of runs, as the predict worker keeps them: the two that were used last."""

from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from porism.runs.checkpoint import Checkpoint, read
from porism.runs.checkpoint_state import STATE
from porism.runs.run import BEST, RunFolder
from porism.tasks import find
from porism.training.position import check_best
from porism.training.progress import NoProgress
from porism.training.session import best_checkpoint, restore_task, trained_model
from porism.training.task import Task

MOST_KEPT = 2


@dataclass(frozen=True)
class LoadedRun:
    """A run's task and its best model. notes: what there is to know of its checkpoint."""

    folder: RunFolder
    task: Task
    model: nn.Module
    epoch: int
    notes: tuple[str, ...]


class _Notes(NoProgress):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


_kept: "OrderedDict[tuple[str, str | None, int], LoadedRun]" = OrderedDict()


def loaded(path: str, checkpoint: str | None = None) -> LoadedRun:
    """The model of a run's checkpoint, by default of the best so far; read again where another has been saved."""
    state = Path(path) / (checkpoint or BEST) / STATE
    key = path, checkpoint, state.stat().st_mtime_ns if state.is_file() else 0
    if key not in _kept:
        for other in [other for other in _kept if other[:2] == key[:2]]:
            del _kept[other]
        folder, listener = RunFolder.open(Path(path)), _Notes()
        saved = best_checkpoint(folder, listener) if checkpoint is None else _exactly(folder.path / checkpoint)
        task = restore_task(find(folder.facts.task), folder, saved)
        model = trained_model(task, saved, torch.device("cpu"))
        epoch = task.recipe.epochs_at(int(saved.state["epoch"]))
        _kept[key] = LoadedRun(folder, task, model, epoch, tuple(listener.notes))
        while len(_kept) > MOST_KEPT:
            _kept.popitem(last=False)
    _kept.move_to_end(key)
    return _kept[key]


def _exactly(folder: Path) -> Checkpoint:
    """This checkpoint and no other in its place."""
    saved = read(folder)
    check_best(saved)
    return saved
