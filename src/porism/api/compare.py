"""porism.compare: several models on the same data, from the same seeds, in one table and one report."""

import dataclasses
import io
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table
from torch import nn

from porism.api.comparing import Plan, experiment_named
from porism.api.engine import REPORT
from porism.api.listeners import Callback, listener, listener_beside
from porism.api.messages import python_words
from porism.api.notebook import rows_html
from porism.api.recipes import Settings, slug
from porism.api.run import FilePath, Run, path_of
from porism.api.train import Request, batch_size_of
from porism.api.trainings import Listeners
from porism.api.workers import check_workers, thread_share
from porism.errors import Advice, RecipeError, RunError, shown
from porism.report.comparison import RunGroup, entries_of, group_runs
from porism.report.contest import Contest, contest
from porism.report.page import write_report
from porism.report.seeds import has_seeds, models_of, seeds_table
from porism.report.summary import summarise
from porism.report.table import table
from porism.runs.comparison import ComparisonRecord
from porism.runs.recipe import Recipe
from porism.runs.record import RunRecord, read_run
from porism.runs.run import new_folder
from porism.tasks import find
from porism.training.budget import Budget
from porism.training.device import choose_device
from porism.training.experiment import Experiment, ExperimentRun
from porism.training.limits import check_seed, check_seeds
from porism.training.own_model import DataInfo, OwnModel
from porism.training.task import Function

Factory = Callable[[DataInfo], nn.Module]
Model = str | Recipe | nn.Module | Factory
TAKEN = Advice("Add resume=True, or choose another out.", "Add resume=True, or choose another out.")
NAMED = 100
"""Columns of a table as text, where nobody says how wide the place for it is."""


class Difference(NamedTuple):
    """Two models over the same seeds, the first ahead on valid: by how much it is ahead on test, and if that counts."""

    first: str
    second: str
    lead: float
    """The mean over seeds, above 0 where the first is better."""
    low: float | None
    """From where to where the lead lies by its 95 % interval; None from one seed."""
    high: float | None
    p_value: float
    """Corrected for the number of comparisons."""
    decided: bool
    """Whether the first is better: never from fewer than five seeds."""


class Comparison:
    """Runs of several models, side by side.

    >>> found = porism.compare("supervised", ["mlp", "linear"], epochs=2, progress=False, out=folder / "both")
    >>> found
    Comparison of linear and mlp by test accuracy: 2 runs
    >>> [row["model"] for row in found.to_records()], found.best
    (['mlp', 'linear'], None)
    """

    def __init__(self, runs: Sequence[Run], folder: Path, experiment: Experiment | None = None) -> None:
        self.runs = list(runs)
        self.path = folder
        self._experiment = experiment

    @property
    def best(self) -> Run | None:
        """A run of the model that is better than every other, the best on valid; None where that is not decided."""
        found = self._contest
        if found is None or not found.leader_is_best:
            return None
        scores = {
            entry.record.path: entry.record.score("valid", found.group.metric) for entry in found.models[0].entries
        }
        best = (min if found.group.lower_is_better else max)(scores, key=lambda path: scores[path] or 0.0)
        return next(run for run in self.runs if run.path == best)

    @property
    def differences(self) -> list[Difference]:
        """Every two models."""
        return [
            Difference(
                first=pair.first.name,
                second=pair.second.name,
                lead=pair.lead.mean,
                low=None if pair.lead.margin is None else pair.lead.low,
                high=None if pair.lead.margin is None else pair.lead.high,
                p_value=pair.corrected,
                decided=pair.decided,
            )
            for pair in (() if self._contest is None else self._contest.pairs)
            if pair.leads
        ]

    def table(self, width: int | None = None) -> Table:
        """One row a run, or one a model where each has several seeds; rich prints it."""
        return seeds_table(self._group) if has_seeds([self._group]) else table(self._records, width or NAMED)

    def to_records(self) -> list[dict[str, Any]]:
        """A dict a run, such as pandas.DataFrame takes: model, seed, parameters, seconds, and each split's metrics."""
        return [
            {
                "model": entry.model,
                "seed": entry.record.facts.seed,
                "status": "finished" if metrics is not None else "stopped",
                "parameters": metrics.parameters if metrics else None,
                "flops": metrics.flops if metrics else None,
                "epochs": metrics.epochs if metrics else entry.record.epoch,
                "seconds": metrics.seconds if metrics else None,
                **{
                    f"{split}_{name}": value
                    for split, scores in (metrics.metrics if metrics else {}).items()
                    for name, value in scores.items()
                },
                "run": str(entry.record.path),
            }
            for entry in self._group.entries
            for metrics in (entry.record.metrics,)
        ]

    def report(self, path: FilePath | None = None) -> Path:
        """Write one HTML page of all of them, and say where."""
        with python_words():
            target = self.path / REPORT if path is None else Path(path)
            return write_report([run.path for run in self.runs], target, experiment=self._experiment)

    @cached_property
    def _records(self) -> list[RunRecord]:
        return [read_run(run.path) for run in self.runs]

    @cached_property
    def _group(self) -> RunGroup:
        groups = group_runs(entries_of(self._records))
        if len(groups) > 1:
            raise RunError(f"these runs are not comparable: {' and '.join(group.place for group in groups)}.")
        return groups[0]

    @cached_property
    def _contest(self) -> Contest | None:
        models = models_of(self._group)
        return contest(self._group, models) if len(models) > 1 else None

    def __str__(self) -> str:
        console = Console(width=NAMED, file=io.StringIO(), record=True)
        console.print(self.table())
        return f"{console.export_text().rstrip()}\n{summarise(self._group)}"

    def __repr__(self) -> str:
        models = dict.fromkeys(entry.model for entry in self._group.entries)
        judged = f"{self._group.split} {self._group.metric_name}"
        return f"Comparison of {' and '.join(sorted(models))} by {judged}: {len(self.runs)} runs"

    def _repr_html_(self) -> str:
        records = self.to_records()
        columns = [name for name in dict.fromkeys(name for row in records for name in row) if name != "run"]
        rows = [[_shown(row.get(name)) for name in columns] for row in records]
        return rows_html(repr(self), columns, rows, [summarise(self._group)])


def compare(
    task: str | Mapping[str, nn.Module | Factory],
    models: Sequence[str | Recipe | Run] | Mapping[str, Model] | str = (),
    *,
    seeds: int | Sequence[int] = 1,
    budget: Budget = "equal",
    data: Any = None,
    loss: str | Function | None = None,
    metrics: Mapping[str, Function] | None = None,
    out: FilePath | None = None,
    resume: bool = False,
    seed: int = 1,
    device: str = "auto",
    threads: int | None = None,
    baselines: bool = True,
    workers: int = 1,
    progress: bool | None = None,
    callbacks: Sequence[Callback] = (),
    **fields: Any,
) -> Comparison:
    """Train several models on the same data and put them side by side: `porism compare` in Python.

    >>> X, y = torch.randn(90, 4), torch.arange(90) % 3
    >>> wide = lambda info: nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, info.num_classes))
    >>> models = {"small": lambda info: nn.Linear(4, info.num_classes), "large": wide}
    >>> both = porism.compare(models, data=(X, y), loss="cross_entropy", epochs=1, seeds=2, out=folder / "both")
    >>> sorted({(row["model"], row["parameters"]) for row in both.to_records()})
    [('large', 67), ('small', 15)]
    >>> porism.compare("language", ["elman", "lstm"], seeds=3, epochs=4).report("both.html")        # doctest: +SKIP

    task: a task's name; or modules of your own by name, which are then of task "supervised".
    models: names of recipes, recipes and runs that are done; by name they may be modules of your own too, or functions
        that make them. The name of an experiment stands for its recipes, settings and seeds.
    seeds: how many each is trained from, counted from `seed`, or which. A module's parameters are drawn already: for
        several seeds give a function that makes it.
    budget: how much training each may have. "equal": as many epochs as the recipe with the most; {"epochs": n},
        {"seconds": n} or {"examples": n}; None: what each recipe says. Each stops earlier only when it no longer
        improves on valid.
    out: the folder of the comparison, a run in it for each model and seed; None for a new one under runs/.
    resume: keep what is done in `out`, go on with what is not.
    workers: how many trainings at a time, each in a process of its own with `threads` threads; left out, an equal part
        of the cores. The same bits as one after the other with as many threads; times are longer, and marked. Models,
        losses and data must be importable or plain: no lambda, nothing of the script itself. No budget of seconds.

    All else as in `porism.train`; fields are set in every recipe. A run that diverges has no result, and the others go
    on.
    """
    with python_words():
        if not isinstance(task, str):
            if models:
                raise RecipeError("models are given twice: by name as the first argument, and as models=. Give one.")
            task, models = "supervised", task
        contenders = Contenders.of(task, models, {**batch_size_of(data), **fields}, loss, metrics)
        seed, seeds = check_seed(seed), check_seeds(seeds)
        contenders.refuse_drawn(seeds)
        workers = check_workers(workers)
        if workers > 1 and threads is None and choose_device(device).type == "cpu":
            threads = thread_share(workers)

        def request_of(trial: ExperimentRun) -> Request:
            settings = contenders.settings(trial)
            return Request.with_settings(settings, data, trial.seed, device, threads, baselines)

        experiment = contenders.experiment
        plan = Plan.of(
            contenders.models,
            request_of,
            # 1 is the default: an experiment has a number of its own.
            seeds=None if experiment is not None and seeds == 1 else seeds,
            first_seed=seed,
            budget=budget,
            experiment=experiment,
        )
        folder = new_folder(f"{task}-{plan.name}") if out is None else path_of("out", out)
        reporter = listener(progress, callbacks)
        plan.check_folder(folder, resume, TAKEN)
        listeners = Listeners(reporter, lambda training: reporter, listener_beside(progress, callbacks))
        outcomes = plan.train(folder, listeners, workers=workers)
        runs = [Run(outcome.path, user_objects=outcome.request.user_objects) for outcome in outcomes]
        if experiment is None:
            # Model by model, as they were given; they were trained seed by seed.
            count = len(contenders.models)
            runs = [run for model in range(count) for run in runs[model::count]]
        found = Comparison([*runs, *contenders.done], folder, experiment)
        paths = [run.path for run in found.runs]
        folder.mkdir(parents=True, exist_ok=True)  # where all of them are done already
        ComparisonRecord.of(folder, task, paths, experiment.name if experiment else None).write(folder)
        found.report()
        return found


class Contenders(NamedTuple):
    """The models of a comparison by name, and the runs that it takes as they are."""

    task: str
    models: Mapping[str, Any]
    done: list[Run]
    experiment: Experiment | None
    fields: Mapping[str, Any]
    loss: str | Function | None
    metrics: Mapping[str, Function] | None

    @classmethod
    def of(
        cls,
        task: str,
        models: Sequence[str | Recipe | Run] | Mapping[str, Model] | str,
        fields: Mapping[str, Any],
        loss: str | Function | None,
        metrics: Mapping[str, Function] | None,
    ) -> "Contenders":
        kind = find(task)
        given = [models] if isinstance(models, str) else models
        if not isinstance(given, Iterable):
            raise RecipeError(
                f"models is a {type(given).__name__}, expected names, recipes, or a dict of models by name."
            )
        if not given:
            raise RecipeError(f"which models? Choose from {', '.join([*kind.recipes, *kind.experiments])}.")
        if not isinstance(given, Mapping):
            experiment = experiment_named(kind, given, fields)
            if experiment is not None:
                return cls(task, {name: name for name in experiment.recipes}, [], experiment, fields, loss, metrics)
        named = dict(given) if isinstance(given, Mapping) else {_name(one): one for one in given}
        for name in named:
            _check_name(name)
        if len({slug(name) for name in named}) < len(given):
            raise RecipeError("models: two have the same name. Give them by name: {'mine': ..., 'other': ...}.")
        done = [model for model in named.values() if isinstance(model, Run)]
        if others := [run for run in done if run.task != task]:
            raise RecipeError(f"models: {others[0].path} is a run of {others[0].task}, and {task} is compared.")
        trained = {name: model for name, model in named.items() if not isinstance(model, Run)}
        return cls(task, trained, done, None, fields, loss, metrics)

    def settings(self, trial: ExperimentRun) -> Settings:
        """The recipe of a model with the fields that an experiment and the user set."""
        name, model = trial.recipe, self.models[trial.recipe]
        fields = {**dict(text.split("=", 1) for text in trial.assignments), **self.fields}
        if isinstance(model, str | Recipe | os.PathLike):
            # A recipe of ours has a loss of its own where the task has; supervised takes it for all.
            chosen = Settings.of(self.task, model, None, self.loss, self.metrics, fields)
            if chosen.recipe.name == name:
                return chosen
            return dataclasses.replace(chosen, recipe=dataclasses.replace(chosen.recipe, name=slug(name)))
        return Settings.of(self.task, None, OwnModel.of(model), self.loss, self.metrics, fields, name)

    def refuse_drawn(self, seeds: int | Sequence[int]) -> None:
        """Refuse several seeds for a module that is made already."""
        several = seeds != 1 if isinstance(seeds, int) else len(seeds) > 1
        drawn = [name for name, model in self.models.items() if several and isinstance(model, nn.Module)]
        if drawn:
            raise RecipeError(
                f"models: {drawn[0]} is a module, whose parameters are drawn already: every seed would begin with the "
                "same. Give a function that makes it, such as lambda info: Net()."
            )


def _name(model: str | Recipe | Run) -> str:
    if isinstance(model, Run):
        return f"{model.recipe.name} {model.path.name}"
    if isinstance(model, str | Recipe):
        return model if isinstance(model, str) else model.name
    raise RecipeError(
        f"models: a {type(model).__name__} without a name. Give modules by name: {{'mine': module, 'elman': 'elman'}}."
    )


def _check_name(name: object) -> None:
    """Refuse what does not name a model: a report calls it so, and its folder, where spaces and brackets are dashes."""
    if not isinstance(name, str) or not re.search(r"\w", name) or "/" in name or "\\" in name:
        raise RecipeError(
            f"models: {shown(name)} is no name of a model, expected letters or digits and no slash. Choose another, "
            "such as 'mine'."
        )


def _shown(value: Any) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
