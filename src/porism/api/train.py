"""porism.train: a task, a recipe and data to a trained run."""

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader

from porism.api.engine import finish, whole_path
from porism.api.listeners import Callback, listener
from porism.api.messages import python_words
from porism.api.recipes import Settings
from porism.api.run import FilePath, Run, path_of
from porism.errors import RecipeError, RunError
from porism.runs.difference import differences
from porism.runs.recipe import Recipe, assignments, settings
from porism.runs.run import RECIPE, RunFolder, new_folder, refuse_taken
from porism.training.budget import examples_in_epoch
from porism.training.device import choose_device
from porism.training.lengthen import LENGTHS
from porism.training.limits import check_seed, check_threads
from porism.training.loop import Training
from porism.training.own_model import DataInfo
from porism.training.progress import Progress
from porism.training.request import TrainingRequest
from porism.training.session import begin, load_task, prepare, recipe_from
from porism.training.task import Function, Task
from porism.training.tuning import TuningSearch, check_minutes


def train(
    task: str | nn.Module,
    recipe: str | Recipe | FilePath | None = None,
    *,
    data: Any = None,
    model: nn.Module | Callable[[DataInfo], nn.Module] | str | None = None,
    loss: str | Function | None = None,
    metrics: Mapping[str, Function] | None = None,
    out: FilePath | None = None,
    resume: bool = False,
    seed: int = 1,
    device: str = "auto",
    threads: int | None = None,
    baselines: bool = True,
    tune: float | None = None,
    fast_dev_run: bool = False,
    progress: bool | None = None,
    callbacks: Sequence[Callback] = (),
    **fields: Any,
) -> Run:
    """Train a recipe of a task, or a module of your own, evaluate it and write a report: `porism train` in Python.

    >>> X, y = torch.randn(90, 4), torch.arange(90) % 3
    >>> run = porism.train(nn.Linear(4, 3), data=(X, y), loss="cross_entropy", epochs=2, out=folder / "own")
    >>> run.status, run.model, run.predict(X[:1])[0].output in ("0", "1", "2")
    ('finished', Linear(in_features=4, out_features=3, bias=True), True)
    >>> porism.train("language", "elman", data="book.txt", epochs=3)                        # doctest: +SKIP

    task: a task's name, or a module of your own, which is then task "supervised". A module itself stays as it is: the
        trained copy is `run.model`.
    recipe: its name, a recipe.toml, or a Recipe; None for the task's default. `fields` change it: epochs=3.
    data: a path or a known name; None for the embedded data. Or what is in memory: (X, y) as arrays or tensors, a
        Dataset, a DataLoader, a datasets.Dataset, or a dict of these by split (train, valid, test); texts for language,
        a Data of PyTorch Geometric for graphs.
    model: a module of your own in a task, or a function of a DataInfo that makes one, so that its parameters come from
        the seed. language: tokens (T, B) -> logits (T, B, V); images: (B, C, Y, X) -> (B, classes); graphs:
        (x, edge_index) -> (N, classes). A text names it, as "net.py:Net", or is the recipe's field: "lstm".
    loss: of task supervised: "cross_entropy", "mse", "bce" (of logits), or a function of output and target. None where
        the output has a `.loss`, as those of transformers have.
    metrics: of task supervised: functions of all outputs and targets of a split, by name.
    out: the folder of the run, which must be new or empty; None for a new one under runs/.
    resume: go on with the run in `out`, which must be the same but for epochs and patience; a new one where none is.
    seed: two runs of one seed on one CPU, with as many threads, give the same bits.
    baselines: whether simple models are measured on the same data too, such as logistic regression or n-grams.
    tune: minutes to search before the training, on valid: the learning rate first, then what the task names in its
        tuning.py; fields that you give stay. `run.tuning` has every trial.
    fast_dev_run: one step, and everything after it, to see that it works; the run's folder is temporary.
    progress: a bar and a line an epoch on standard error. None: on a terminal and in a notebook.
    callbacks: functions that are called after each epoch with its line of `run.history`.

    Ctrl-C stops after the step, with a checkpoint: `porism.errors.Interrupted` says how to go on.
    """
    with python_words():
        chosen = settings_of(task, recipe, data, model, loss, metrics, fields)
        out = None if out is None else path_of("out", out)
        request = Request.with_settings(chosen, data, seed, device, threads, baselines)
        reporter = listener(progress, callbacks)
        if tune is not None:
            check_minutes(tune)
            if fast_dev_run or resume:
                raise RecipeError("tune= is for a new run: leave fast_dev_run= and resume= out.")
            folder = new_folder(f"{request.kind.name}-{request.recipe.name}") if out is None else out
            refuse_taken(folder)
            return request.tuned(tune, reporter).train(folder, reporter)
        if fast_dev_run:
            if out is not None or resume:
                raise RecipeError("fast_dev_run keeps nothing: leave out= and resume= out.")
            return request.try_out(reporter)
        if resume and out is None:
            raise RecipeError("resume=True needs out=, the folder of the run to go on with.")
        if out is None:
            return request.train(new_folder(f"{request.kind.name}-{request.recipe.name}"), reporter)
        return request.run(out, reporter) if resume else request.train(out, reporter)


class Request(TrainingRequest):
    """One training that Python or a comparison requests: checked, and trained where it is told to."""

    @classmethod
    def with_settings(
        cls, chosen: Settings, data: Any, seed: int, device: str, threads: int | None, baselines: bool = True
    ) -> "Request":
        """The training of settings that are chosen, on data of any form."""
        seed, threads = check_seed(seed), check_threads(threads)
        in_file = data is None or isinstance(data, str | os.PathLike)
        source = whole_path(chosen.kind.name, None if data is None else os.fspath(data)) if in_file else None
        user_objects = chosen.bring(None if in_file else data)
        return cls(chosen.kind, chosen.recipe, chosen.overrides, source, user_objects, seed, device, threads, baselines)

    def with_recipe(self, recipe: Recipe) -> "Request":
        """The same by a recipe that differs in what it may spend."""
        return replace(self, recipe=recipe, overrides=[*self.overrides, *assignments(self.recipe, recipe)])

    def tuned(self, minutes: float, reporter: Progress) -> "Request":
        """The same by the recipe that a search on valid chooses. Fields that are set stay."""
        chosen, tuning = TuningSearch(self, minutes).run(reporter.note)
        return replace(self.with_recipe(chosen), tuning=tuning)

    def examples_in_epoch(self) -> int:
        """How many examples it sees in an epoch, in the task's unit: read from the data."""
        return examples_in_epoch(self.load())

    def load(self) -> Task:
        """Its task with the data."""
        return prepare(self.kind, self.recipe, self.source, self.user_objects)

    def begin(self, folder: Path) -> Training:
        """A new run, on its way."""
        return begin(self, folder)

    def run(self, folder: Path, reporter: Progress, *, report: bool = True) -> Run:
        """The run in a folder where it stopped, or a new one where none is."""
        there = (folder / RECIPE).is_file()
        return self.go_on(folder, reporter, report=report) if there else self.train(folder, reporter, report=report)

    def train(self, folder: Path, reporter: Progress, *, report: bool = True) -> Run:
        """A new run."""
        before = torch.get_num_threads()
        try:
            finish(self.begin(folder), reporter, report=report)
        finally:
            torch.set_num_threads(before)
        return Run(folder, user_objects=self.user_objects)

    def go_on(self, folder: Path, reporter: Progress, *, report: bool = True) -> Run:
        """The run in a folder, which must be what is requested, but for how long it is trained."""
        run = RunFolder.open(folder)
        held = {"task": run.facts.task, "seed": run.facts.seed, "data": run.facts.source}
        requested: dict[str, Any] = {"task": self.kind.name, "seed": self.seed, "data": self.recorded_source}
        if self.device != "auto":
            held["device"], requested["device"] = run.facts.device, str(choose_device(self.device))
        if held["task"] == requested["task"]:
            held |= settings(recipe_from(self.kind, run.fields))
            requested |= settings(self.recipe)
        found = differences(held, {name: value for name, value in requested.items() if name not in LENGTHS})
        if found:
            raise RunError(
                f"{folder} cannot go on as another run: {'; '.join(found)}. Leave these as they were, or choose "
                "another out."
            )
        there = Run(folder, user_objects=self.user_objects)
        if run.metrics() is not None and recipe_from(self.kind, run.fields) == self.recipe:
            load_task(self.kind, run, self.user_objects)  # refuses other data than the run's
            return there
        return there.go_on(self.recipe, reporter, report=report)

    def try_out(self, reporter: Progress) -> Run:
        """One step and everything after it, in a folder that is deleted with the run."""
        folder = tempfile.mkdtemp(prefix="porism-")
        try:
            one_step = replace(self, kind=of_one_step(self.kind), recipe=for_one_epoch(self.recipe))
            run = one_step.train(Path(folder) / "run", reporter)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        weakref.finalize(run, shutil.rmtree, folder, ignore_errors=True)
        return run


def settings_of(
    task: str | nn.Module,
    recipe: str | Recipe | FilePath | None,
    data: Any,
    model: nn.Module | Callable[[DataInfo], nn.Module] | str | None,
    loss: str | Function | None,
    metrics: Mapping[str, Function] | None,
    fields: Mapping[str, Any],
) -> Settings:
    """What is trained, in whichever of the forms of `porism.train` it is given."""
    if isinstance(task, nn.Module):
        if model is not None:
            raise RecipeError("two models: the first argument is a module, and model= is another. Give one.")
        task, model = "supervised", task
    if not isinstance(task, str):
        raise RecipeError(f"task is a {type(task).__name__}, expected a task's name or a torch.nn.Module.")
    if isinstance(model, str) and ":" not in model:
        # The field of that name, which says which of the recipes' models it is.
        fields, model = {**fields, "model": model}, None
    return Settings.of(task, recipe, model, loss, metrics, {**batch_size_of(data), **fields})


def batch_size_of(data: Any) -> dict[str, int]:
    """That of a DataLoader, where the data is one."""
    train = data.get("train") if isinstance(data, Mapping) else data
    return {"batch_size": train.batch_size} if isinstance(train, DataLoader) and train.batch_size else {}


def of_one_step(kind: type[Task]) -> type[Task]:
    """The same task with the first batches of a pass, one an epoch."""

    def batches(self: Task, epoch: int, seed: int) -> Any:
        whole = kind.batches(self, epoch, seed)
        return [whole[index] for index in range(min(len(whole), self.recipe.epochs_between_validations))]

    return type(kind.__name__, (kind,), {"batches": batches})


def for_one_epoch(recipe: Recipe) -> Recipe:
    """The same recipe for one epoch."""
    return replace(recipe, epochs=1)
