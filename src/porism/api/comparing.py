"""The trainings of a comparison: which there are, what each may spend, which are done already, what came of each.

`porism compare` and `porism.compare` both plan and train by this: they turn what they are given into requests, and
show the outcomes.
"""

import tempfile
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from porism.api.recipes import slug
from porism.api.train import Request
from porism.api.trainings import Listeners, Outcome, kept, train_one
from porism.api.worker import Job
from porism.api.workers import check_jobs, train_side_by_side
from porism.errors import Advice, DivergedError, RecipeError, RunError, advise, option
from porism.runs.run import IN_MEMORY, RECIPE, RunFolder
from porism.training.budget import Budget, apply_budget
from porism.training.device import choose_device, common_precision
from porism.training.experiment import Experiment, ExperimentRun
from porism.training.limits import check_seed
from porism.training.reuse import Circumstances, Found, check_found
from porism.training.task import Task

RequestOf = Callable[[ExperimentRun], Request]
"""The training of a model, by its name, with the fields that an experiment sets, from a seed."""


class Planned(NamedTuple):
    """One training of a comparison."""

    folder: str
    """The name of its folder in that of the comparison."""
    request: Request


@dataclass(frozen=True)
class Plan:
    """All trainings of a comparison.

    >>> plan = Plan.of(["elman", "lstm"], request_of, seeds=2)
    >>> [planned.folder for planned in plan.trainings]
    ['elman-seed-1', 'lstm-seed-1', 'elman-seed-2', 'lstm-seed-2']
    """

    trainings: Sequence[Planned]
    experiment: Experiment | None = None
    own_pages: bool = False
    """Whether each training gets a page of its own. Of many, that would take longer than some trainings do."""

    @classmethod
    def of(
        cls,
        models: Iterable[str],
        request_of: RequestOf,
        *,
        seeds: int | Sequence[int] | None = None,
        first_seed: int = 1,
        budget: Budget = "equal",
        experiment: Experiment | None = None,
    ) -> "Plan":
        """Every model, or every recipe and setting of an experiment, from every seed, each within the budget.

        seeds: how many, counted from `first_seed`, or which; None for one, or as many as the experiment has.
        """
        compared = experiment or Experiment("compare", "", tuple(models), seeds=1)
        trials = _trials(compared, seeds, first_seed)
        once = experiment is None and len({trial.seed for trial in trials}) == 1
        names = [trial._replace(recipe=slug(trial.recipe)) for trial in trials]
        requests = _within(budget, compared, _in_one_precision([request_of(trial) for trial in trials]))
        folders = [name.recipe if once else name.folder for name in names]
        return cls([Planned(*pair) for pair in zip(folders, requests, strict=True)], experiment, own_pages=once)

    @property
    def name(self) -> str:
        """What a new folder for it is called, after the task."""
        return self.experiment.name if self.experiment else "compare"

    def check_folder(self, folder: Path, resume: bool, advice: Advice) -> None:
        """Refuse runs in the folder that are others than requested, before anything is trained.

        advice: how to resume the comparison; only given where the runs that are there are those that are requested.
        """
        there = [planned for planned in self.trainings if (folder / planned.folder / RECIPE).is_file()]
        if not there:
            return
        first = there[0].request
        in_memory = first.user_objects.data is not None
        now = Circumstances(
            first.kind, IN_MEMORY if in_memory else first.source, choose_device(first.device), first.threads
        )
        check_found([_found(folder / name, request) for name, request in there], now)
        if not resume:
            raise RunError(f"{folder / there[0].folder} already holds a run.", advice)

    def train(
        self,
        folder: Path,
        listeners: Listeners,
        *,
        workers: int = 1,
        checkpoint_every: float = 60.0,
        tensorboard: bool = False,
    ) -> list[Outcome]:
        """Train what is not done yet, one after the other or so many at a time.

        A training that diverges is an outcome, and the others go on; that all do is an error. tensorboard: whether
        those that run beside others write curves for it.
        """
        if workers > 1:
            outcomes = self._train_side_by_side(folder, listeners, workers, checkpoint_every, tensorboard)
        else:
            outcomes = []
            for name, request in self.trainings:
                outcomes.append(train_one(request, folder / name, listeners, self.own_pages, checkpoint_every))
                _note_diverged(outcomes[-1], listeners)
        refuse_all_diverged(outcomes)
        return outcomes

    def _train_side_by_side(
        self, folder: Path, listeners: Listeners, workers: int, checkpoint_every: float, tensorboard: bool
    ) -> list[Outcome]:
        outcomes = {name: kept(request, folder / name) for name, request in self.trainings}
        for outcome in filter(None, outcomes.values()):
            _note_diverged(outcome, listeners)
        with tempfile.TemporaryDirectory(prefix="porism-") as shared:
            jobs = [
                Job(name, request, folder / name, self.own_pages, checkpoint_every, tensorboard, workers, Path(shared))
                for name, request in self.trainings
                if outcomes[name] is None
            ]
            check_jobs(jobs)
            if not jobs:
                return [outcome for outcome in outcomes.values() if outcome is not None]
            threads = jobs[0].request.threads
            each = "" if threads is None else f", each with {threads} thread{'s' * (threads > 1)}"
            listeners.notes.note(f"{len(jobs)} trainings, {workers} at a time{each}")
            trained = {outcome.path.name: outcome for outcome in train_side_by_side(jobs, workers, listeners.beside)}
        return [outcomes[name] or trained[name] for name, _ in self.trainings]


def _in_one_precision(requests: Sequence[Request]) -> list[Request]:
    """With the precision written into the recipes that leave it to the machine: it may be another for each."""
    if not requests:
        return []
    precision = common_precision([request.recipe for request in requests], choose_device(requests[0].device))
    if precision is None:
        return list(requests)
    return [
        request.with_recipe(replace(request.recipe, precision=precision))
        if request.recipe.precision == "auto"
        else request
        for request in requests
    ]


def _note_diverged(outcome: Outcome, listeners: Listeners) -> None:
    if outcome.diverged is not None:
        listeners.notes.note(f"{outcome.path.name} diverged: {outcome.diverged}")


def refuse_all_diverged(outcomes: Sequence[Outcome]) -> None:
    """Refuse to compare where no training has a result."""
    lost = [outcome.diverged for outcome in outcomes if outcome.diverged is not None]
    if lost and len(lost) == len(outcomes):
        raise DivergedError(f"none of {len(lost)} runs has a result: all diverged. {lost[0].problem}", lost[0].advice)


def experiment_named(kind: type[Task], names: Collection[Any], fields: Collection[str]) -> Experiment | None:
    """The experiment among the names of what is compared, which must stand alone; None where there is none.

    fields: what is set for all runs. One that the experiment tries is refused: folders would not say what runs are.
    """
    # A model may be an object that is no name, and that cannot be hashed.
    chosen = [name for name in names if isinstance(name, str) and name in kind.experiments]
    if not chosen:
        return None
    if len(names) > 1:
        raise RecipeError(f"{chosen[0]} is an experiment, which names its own recipes. Give it alone.")
    experiment = kind.experiments[chosen[0]]
    tried = {**experiment.over, **experiment.values}
    if both := [name for name in fields if name in tried]:
        values = ", ".join(map(str, tried[both[0]]))
        problem = f"{experiment.name} tries {both[0]} itself ({values})."
        raise RecipeError(problem, advise("Leave {} out.", option(both[0])))
    return experiment


def _trials(compared: Experiment, seeds: int | Sequence[int] | None, first_seed: int) -> list[ExperimentRun]:
    if seeds is None or isinstance(seeds, int):
        check_seed(first_seed, seeds)
        return list(compared.trials(first_seed, seeds))
    for seed in seeds:
        check_seed(seed)
    if not seeds or len(set(seeds)) < len(seeds):
        raise RecipeError(f"seeds are {list(seeds)}, expected a number, or some that differ.")
    return [trial for seed in seeds for trial in compared.trials(seed, 1)]


def _within(budget: Budget, compared: Experiment, requests: Sequence[Request]) -> list[Request]:
    """The requests with as much training as the budget allows; an experiment on epochs keeps those it sets."""
    if "epochs" in {**compared.over, **compared.values}:
        return list(requests)
    by_recipe = {id(request.recipe): request for request in requests}
    allowed = apply_budget(
        [request.recipe for request in requests], budget, lambda recipe: by_recipe[id(recipe)].examples_in_epoch()
    )
    return [request.with_recipe(recipe) for request, recipe in zip(requests, allowed, strict=True)]


def _found(path: Path, request: Request) -> Found:
    return Found(RunFolder.open(path), request.recipe, request.seed, request.load)
