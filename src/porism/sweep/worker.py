"""A worker of a sweep: it takes one trial after the other and trains it from every seed, until none is left.

Any number of workers, in one process or many, on one machine or many, work at a sweep. Test is never evaluated here.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import Trial, TrialState

from porism.errors import DiskError, DivergedError, Interrupted, PorismError, RunError, out_of_memory
from porism.files import cannot_write
from porism.runs.lock import Lock
from porism.runs.recipe import Recipe, assignments, settings
from porism.runs.record import read_run
from porism.runs.run import RECIPE, RunFolder
from porism.sweep.journal import GO_ON
from porism.sweep.plan import SweepPlan
from porism.sweep.queue import OUTCOME, REASON, TrialQueue
from porism.sweep.samplers import PLACE
from porism.sweep.storage import is_database
from porism.training.loop import Training
from porism.training.progress import NoProgress
from porism.training.request import TrainingRequest
from porism.training.session import begin, recipe_from, reopen

SCORES, RUNS, SECONDS = "scores", "runs", "seconds"
"""Attributes of a trial."""
EVALUATION = "evaluation"
"""The attribute of a study that says what its trials are scored on."""
BY_TOKENS = {"perplexity"}
"""Metrics that depend on how a text is cut into tokens, which the sha256 of the data tells."""
POLL_EVERY = 0.5
"""Seconds between two polls of trials that others train."""
MOST_FOLDERS = 100
Seen = Callable[[], None]


class _Pruned(Exception):
    """A trial that is not worth going on with."""


class _OtherExamples(PorismError):
    """A trial that is scored on other examples than the rest."""


@dataclass
class SweepWorker:
    """One worker."""

    plan: SweepPlan
    queue: TrialQueue
    checkpoint_every: float = 60.0
    seen: Seen = lambda: None
    """Called whenever there is something new to show."""
    trainings: int = 1
    """How many trainings share the machine."""
    stopped: Callable[[], bool] = lambda: False

    def run(self) -> None:
        """Work until every trial has an outcome, whoever trains it."""
        while not self.stopped():
            trial = self.queue.take()
            if trial is not None:
                self._train(trial)
            elif self.queue.done:
                return
            else:
                time.sleep(POLL_EVERY)
            self.seen()

    def _train(self, trial: Trial) -> None:
        """Train a trial and say what came of it. One that is interrupted, or that the disk stops, is given back."""
        try:
            with self.queue.alive(trial):
                setting = self.queue.suggest(trial)
                folder, lock = self._claim(trial, setting)
                try:
                    if self.queue.is_ours(trial):
                        self._finish(trial, setting, folder)
                finally:
                    lock.release()
        except (Interrupted, KeyboardInterrupt):
            self.queue.give_back(trial)
            raise
        except DiskError as error:
            # On the same disk the journal cannot be written either. Then the lock that is let go gives the trial back.
            with suppress(DiskError):
                self.queue.give_back(trial)
            raise DiskError(error.problem, GO_ON) from error
        except UpdateFinishedTrialError:
            # Given to another worker before it began: nothing is lost by leaving it to that one.
            return
        except PorismError as error:
            # Such as a width that is drawn and that the heads do not divide.
            self.queue.finish(trial, None, TrialState.FAIL, **_failed("failed", error))

    def _finish(self, trial: Trial, setting: Mapping[str, Any], folder: Path) -> None:
        since = time.monotonic()
        runs = [folder / f"seed-{seed}" for seed in self.plan.seeds]
        # Relative, so that the sweep's folder may be moved.
        known: dict[str, Any] = {RUNS: [f"{folder.name}/{run.name}" for run in runs]}

        def spent() -> dict[str, Any]:
            return {SECONDS: round(time.monotonic() - since, 3), **known}

        try:
            recipe = self.plan.recipe_of(setting)
            scores = [
                self._train_run(trial, recipe, seed, run) for seed, run in zip(self.plan.seeds, runs, strict=True)
            ]
        except _Pruned:
            self.queue.finish(trial, None, TrialState.PRUNED, **spent())
        except DivergedError as error:
            self.queue.finish(trial, None, TrialState.FAIL, **spent(), **_failed("diverged", error))
        except (Interrupted, DiskError):
            raise
        except (PorismError, MemoryError, RuntimeError) as error:
            if not isinstance(error, PorismError) and out_of_memory(error) is None:
                raise
            self.queue.finish(trial, None, TrialState.FAIL, **spent(), **_failed("failed", error))
        else:
            self.queue.finish(trial, fmean(scores), TrialState.COMPLETE, **spent(), **{SCORES: scores})

    def _train_run(self, trial: Trial, recipe: Recipe, seed: int, path: Path) -> float:
        """Train one seed, from where its run stopped; the metric on valid."""
        plan, threads = self.plan, torch.get_num_threads()
        try:
            training = self._started(recipe, seed, path)
            first = seed == plan.seeds[0]
            try:
                self._check_examples(training)
                if self.trainings > 1:
                    training.run.append("side_by_side", trainings=self.trainings)
            except BaseException:
                training.run.unlock()
                raise
            listener = _TrialProgress(trial, training, self.seen, first, plan.prune and first)
            training.fit(listener, self.checkpoint_every)
        finally:
            torch.set_num_threads(threads)
        assert training.position.best is not None  # a training that ends has validated
        return training.position.best

    def _started(self, recipe: Recipe, seed: int, path: Path) -> Training:
        plan = self.plan
        if (path / RECIPE).is_file():
            if (diverged := read_run(path).diverged) is not None:
                raise DivergedError(diverged)
            return reopen(plan.kind, RunFolder.open(path), NoProgress())
        request = TrainingRequest(
            plan.kind,
            recipe,
            assignments(plan.kind.recipes[recipe.name], recipe),
            plan.source,
            seed=seed,
            device=plan.device,
            threads=plan.threads,
            baselines=plan.baselines,
        )
        return begin(request, path)

    def _check_examples(self, training: Training) -> None:
        """Refuse a trial whose valid is another one than that of the rest: their metrics do not compare."""
        study, task = self.queue.study, training.task
        tokens = task.fingerprint() if task.metric in BY_TOKENS else ""
        mine = " ".join([task.metric, task.evaluation_id(), tokens])
        held = study.user_attrs.get(EVALUATION)
        if held is None:
            study.set_user_attr(EVALUATION, mine)
        elif held != mine:
            raise _OtherExamples(
                "it is scored on other examples than the other trials, or on data that is another one here, so their "
                "metrics do not compare. Sweep over fields that leave the data as it is"
            )

    def _claim(self, trial: Trial, setting: Mapping[str, Any]) -> tuple[Path, Lock]:
        """The folder of a trial's runs, and the lock that tells that somebody is at work there.

        Where many machines share a database, a worker that only paused may still be there: then it is another folder.
        """
        base = self.queue.folder_of(trial.user_attrs[PLACE])
        shared = is_database(self.queue.where.storage)
        for number in range(1, MOST_FOLDERS):
            folder = base if number == 1 else base.with_name(f"{base.name}-{number}")
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise cannot_write(folder, error, 0) from error
            lock = _lock(folder, wait=not shared)
            if lock is None:
                continue
            if self._fits(folder, setting):
                return folder, lock
            lock.release()
            if not shared:
                raise RunError(f"{folder} holds runs of another setting. Move it, or choose another --out.")
        raise RunError(f"{base} and {MOST_FOLDERS - 1} folders beside it are taken. Choose another --out.")

    def _fits(self, folder: Path, setting: Mapping[str, Any]) -> bool:
        """Whether the runs in a folder, if any, are of this setting."""
        requested = settings(self.plan.recipe_of(setting))
        there = [folder / f"seed-{seed}" for seed in self.plan.seeds]
        return all(
            settings(recipe_from(self.plan.kind, RunFolder.open(run).fields)) == requested
            for run in there
            if (run / RECIPE).is_file()
        )


class _TrialProgress(NoProgress):
    """Reports the metric on valid after each epoch of the first seed, and stops what is to be pruned."""

    def __init__(self, trial: Trial, training: Training, seen: Seen, reports: bool, prunes: bool) -> None:
        self.trial, self.training, self.seen = trial, training, seen
        self.reports, self.prunes = reports, prunes
        self.metric = training.task.metric
        if reports:
            # What an earlier attempt has done before it lost its worker.
            for epoch in read_run(training.run.path).epochs:
                if (value := epoch.valid.get(self.metric)) is not None:
                    self._report(epoch.epoch, value)

    def epoch(self, event: Mapping[str, Any]) -> None:
        if self.reports:
            self._report(event["epoch"], event["valid"][self.metric])
        self.seen()
        # One that has ended has its result already.
        if self.prunes and not self.training.position.finished and self.trial.should_prune():
            raise _Pruned

    def _report(self, epoch: int, value: float) -> None:
        # Where the trial was given away meanwhile, its result may still come first.
        with suppress(UpdateFinishedTrialError):
            self.trial.report(value, epoch)


def _lock(folder: Path, wait: bool) -> Lock | None:
    """The lock of a folder; None where another process holds it.

    wait: on one machine only for a moment, as another worker holds it only to see whether its owner is gone.
    """
    while True:
        try:
            return Lock(folder)
        except DiskError:
            raise
        except RunError:
            if not wait:
                return None
            time.sleep(0.01)


def _failed(outcome: str, error: BaseException) -> dict[str, str]:
    why = str(error) or type(error).__name__
    return {
        OUTCOME: outcome,
        REASON: "out of memory" if out_of_memory(error) is not None else why,
    }
