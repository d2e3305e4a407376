"""A run in Python: `porism.load`, and what `porism.train` returns."""

import dataclasses
import html
import os
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import nn

from porism.api.engine import REPORT, finish, going_on, whole_path
from porism.api.listeners import Callback, listener
from porism.api.messages import python_words
from porism.errors import RecipeError
from porism.runs.lock import is_locked
from porism.runs.recipe import Recipe, with_fields
from porism.runs.record import RunRecord, read_run
from porism.runs.run import RunFolder
from porism.runs.tuning import Tuning
from porism.tasks import find
from porism.training.device import choose_device
from porism.training.lengthen import LENGTHS
from porism.training.loop import answering, evaluate
from porism.training.own_cost import own_cost
from porism.training.own_model import DataInfo, OwnModel
from porism.training.progress import NoProgress, Progress
from porism.training.recipe_cost import recipe_cost
from porism.training.request import NO_OBJECTS
from porism.training.session import (
    best_checkpoint,
    load_task,
    recipe_from,
    restore_task,
    trained_model,
)
from porism.training.task import Prediction, Task, UserObjects

if TYPE_CHECKING:
    from porism.costing.cost import Cost
    from porism.tasks.words.data.keyed_vectors import KeyedVectors

FilePath = str | os.PathLike[str]


def path_of(argument: str, given: object) -> Path:
    """The path that an argument names."""
    if not isinstance(given, str | os.PathLike):
        raise RecipeError(f"{argument} is a {type(given).__name__}, expected the path of a folder, such as 'runs/one'.")
    return Path(given)


def load(
    path: FilePath, *, device: str = "cpu", model: nn.Module | Callable[[DataInfo], nn.Module] | None = None
) -> "Run":
    """A run that is on the disk, finished or not, by its folder.

    >>> folder = porism.train("supervised", "linear", epochs=1, progress=False, out=folder / "run").path
    >>> run = porism.load(folder)
    >>> run.status, len(run.predict(["0.5,1", "0,0"]))
    ('finished', 2)

    device: where its model computes.
    model: the module of your own that it was trained with, or the function that made it, where no name leads to it.
    """
    with python_words():
        own = None if model is None else OwnModel.of(model)
        return Run(path_of("path", path), device=device, user_objects=UserObjects(model=own))


class Run:
    """One training: what was requested, what came of it, and the trained model.

    >>> run = porism.train("supervised", "linear", epochs=2, progress=False, out=folder / "run")
    >>> run
    Run('supervised', 'linear', seed=1, finished, test accuracy ...)
    >>> run.status, sorted(run.metrics), len(run.history)
    ('finished', ['test', 'train', 'valid'], 2)

    path: the folder. task, seed: as requested. All else is read on first use.
    """

    def __init__(self, path: FilePath, *, device: str = "cpu", user_objects: UserObjects = NO_OBJECTS) -> None:
        self._folder = RunFolder.open(Path(path))
        self._device, self._user_objects = device, user_objects

    @property
    def path(self) -> Path:
        """Its folder."""
        return self._folder.path

    @property
    def task(self) -> str:
        return self._folder.facts.task

    @property
    def seed(self) -> int:
        return self._folder.facts.seed

    @property
    def recipe(self) -> Recipe:
        """Every setting it was trained with."""
        return recipe_from(self._kind, self._folder.fields)

    @property
    def status(self) -> Literal["finished", "stopped", "running"]:
        """Whether it has its results; if not, whether a process trains it now."""
        if self._folder.metrics() is not None:
            return "finished"
        return "running" if is_locked(self.path) else "stopped"

    @property
    def tuning(self) -> Tuning | None:
        """The search before its training, with every trial; None where there was none, or it has not finished."""
        return read_run(self.path).tuning

    @property
    def metrics(self) -> dict[str, dict[str, float]]:
        """By split and name, of the model that counts; empty before it has finished. One of yours may be None."""
        done = self._folder.metrics()
        return {} if done is None else done["metrics"]

    @property
    def history(self) -> list[dict[str, Any]]:
        """A dict an epoch: `epoch`, `learning_rate`, `seconds`, `train` and `valid` with their metrics, `best`."""
        return [dataclasses.asdict(epoch) for epoch in self._record.epochs]

    @property
    def command(self) -> str:
        """What repeats it."""
        return self._folder.facts.repeat()

    @cached_property
    def model(self) -> nn.Module:
        """The trained model of the best epoch, ready to answer; your own module where you brought one."""
        return self._answering_task.own_module(self._trained)

    @cached_property
    def cost(self) -> "Cost":
        """What the model costs, as formulas: see `porism.cost`. Of a recipe with its loss, of your own module alone."""
        with python_words():
            if self._folder.facts.model is not None:
                return own_cost(self._answering_task, self.model)
            return recipe_cost(self.recipe, self._answering_task.cost_subject())

    @cached_property
    def vectors(self) -> "KeyedVectors":
        """The vectors of a run of words, called as gensim's KeyedVectors are."""
        with python_words():
            if self.task != "words":
                raise RecipeError(f"{self.path} is a run of {self.task}: only words have vectors.")
        from porism.tasks.words.data.keyed_vectors import KeyedVectors
        from porism.tasks.words.task import Words

        assert isinstance(self._answering_task, Words)
        weight = self._trained.weight
        assert isinstance(weight, torch.Tensor)
        return KeyedVectors(self._answering_task.vocabulary.words, weight.detach().cpu().numpy())

    def predict(self, inputs: Any, **options: Any) -> list[Prediction]:
        """An answer to each input: each has `.input`, `.output`, `.probabilities` and `.notes`.

        inputs: texts, words, files, nodes as `porism predict` takes them; of a supervised run an array or tensor with
        one example a row, or what its model takes.
        """
        with python_words(), answering(self._trained):
            given: Any = [inputs] if isinstance(inputs, str | os.PathLike) else inputs
            if isinstance(given, Sequence):
                given = [os.fspath(one) if isinstance(one, os.PathLike) else one for one in given]
            return self._answering_task.predict(self._trained, given, options)

    def evaluate(self, data: Any = None, *, split: str = "test") -> dict[str, float]:
        """The metrics on a split, or on other data. Nothing is updated: twice gives the same numbers."""
        with python_words():
            if data is None:
                return evaluate(self._loaded_task, self._trained, split)
            return evaluate(self._on_other_data(data), self._trained, split)

    def report(self, path: FilePath | None = None) -> Path:
        """Write one HTML page of it, and say where."""
        from porism.report.page import write_report

        with python_words():
            return write_report([self.path], self.path / REPORT if path is None else Path(path))

    def resume(
        self,
        epochs: int | None = None,
        patience: int | None = None,
        *,
        progress: bool | None = None,
        callbacks: Sequence[Callback] = (),
    ) -> "Run":
        """Go on where it stopped, for more epochs or with more patience where they are given."""
        with python_words():
            lengths = dict(zip(LENGTHS, (epochs, patience), strict=True))
            given = {name: value for name, value in lengths.items() if value is not None}
            return self.go_on(with_fields(self.recipe, given), listener(progress, callbacks))

    def go_on(self, recipe: Recipe, reporter: Progress, *, report: bool = True) -> "Run":
        """Train on by its recipe, or by the same with other lengths, telling a listener."""
        threads = torch.get_num_threads()
        try:
            with going_on(self._folder, reporter, recipe, self._user_objects) as training:
                finish(training, reporter, report=report)
        finally:
            torch.set_num_threads(threads)
        for name in ("model", "cost", "vectors", "_trained", "_answering_task", "_loaded_task"):
            self.__dict__.pop(name, None)
        return self

    @property
    def _kind(self) -> type[Task]:
        return find(self.task)

    @property
    def _record(self) -> RunRecord:
        return read_run(self.path)

    @cached_property
    def _answering_task(self) -> Task:
        saved = best_checkpoint(self._folder, NoProgress())
        return restore_task(self._kind, self._folder, saved, dataclasses.replace(self._user_objects, data=None))

    @cached_property
    def _loaded_task(self) -> Task:
        return load_task(self._kind, self._folder, self._user_objects)

    @cached_property
    def _trained(self) -> nn.Module:
        with python_words():
            saved = best_checkpoint(self._folder, NoProgress())
            return trained_model(self._answering_task, saved, choose_device(self._device))

    def _on_other_data(self, data: Any) -> Task:
        """The run's task on other data, which must be of the same kind: the same classes and sizes."""
        in_file = isinstance(data, str | os.PathLike)
        source = whole_path(self.task, os.fspath(data)) if in_file else None
        other = self._answering_task.on_other_data(source, None if in_file else data)
        other.user_objects = self._answering_task.user_objects
        return other

    def __repr__(self) -> str:
        facts, done = self._folder.facts, self._folder.metrics()
        shown = ""
        if done is not None:
            split = list(done["metrics"])[-1]
            shown = f", {split} {done['metric']} {done['metrics'][split][done['metric']]:.4g}"
        return f"Run({facts.task!r}, {facts.recipe!r}, seed={facts.seed}, {self.status}{shown})"

    def _repr_html_(self) -> str:
        from porism.api.notebook import run_html

        return run_html(html.escape(repr(self)), self.metrics, self._record, self.command)
