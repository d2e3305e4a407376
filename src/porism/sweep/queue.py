"""The trials of a sweep in Optuna's storage, shared by all workers: each place of the plan is filled and counted once.

All trials are enqueued at the start, each with its place in the plan, and workers take what waits. A trial that lost
its worker is failed and enqueued again with the same setting and place, and goes on in its run folders. Because any
worker may be killed at any moment, between failing a trial and enqueuing it again as well, each one first fills the
places that nobody is at. Two that do so at once make two trials of one place: the first of them counts, and the other
is dropped. So is the result of a worker that was paused for so long that its trial was done by another.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna
from optuna.exceptions import UpdateFinishedTrialError
from optuna.pruners import BasePruner, MedianPruner, NopPruner
from optuna.storages import RDBStorage, fail_stale_trials
from optuna.study import Study
from optuna.trial import FrozenTrial, Trial, TrialState, create_trial

from porism.errors import DiskError, RunError
from porism.files import cannot_write
from porism.runs.lock import Lock, is_locked
from porism.sweep.plan import SweepPlan
from porism.sweep.samplers import PLACE, distributions, sampler_of
from porism.sweep.storage import HEARTBEAT, open_storage, quiet

OUTCOME = "outcome"
"""What came of a trial that failed: diverged, failed or lost; without it, its worker was lost and it is tried again."""
REASON = "reason"
DROPPED = "dropped"
"""The outcome of a trial that is not counted: another one of its place is."""
PLAN = "plan"
MOST_LOST = 20
"""Workers that one trial may lose. After that it is probably the trial that kills them."""


@dataclass(frozen=True)
class Where:
    """Where a sweep is kept: what another process has to know to work at it too."""

    folder: Path
    """Of the runs."""
    storage: str | None = None
    study: str = "sweep"
    heartbeat: float = HEARTBEAT


class TrialQueue:
    """The trials of a sweep, for one worker."""

    def __init__(self, plan: SweepPlan, where: Where, lower_is_better: bool) -> None:
        self.plan, self.where = plan, where
        self.storage = open_storage(where.storage, where.folder, where.heartbeat, self._given_away)
        self.study = _open_study(plan, where, self.storage, lower_is_better)
        self._recorded = set[int]()

    def trials(self) -> list[FrozenTrial]:
        """All that have a place in the plan, in the order of their numbers."""
        return [trial for trial in self.study.get_trials(deepcopy=False) if PLACE in trial.user_attrs]

    def counted(self) -> dict[int, FrozenTrial]:
        """The one trial of each place that counts: that which is done, else that which is on its way, else none."""
        found: dict[int, FrozenTrial] = {}
        for trial in self.trials():
            place = trial.user_attrs[PLACE]
            if _rank(trial) is not None and (place not in found or _rank(trial) < _rank(found[place])):  # type: ignore[operator]
                found[place] = trial
        return dict(sorted(found.items()))

    @property
    def done(self) -> bool:
        """Whether every place has an outcome."""
        counted = self.counted()
        return len(counted) == self.plan.trials and all(trial.state.is_finished() for trial in counted.values())

    def take(self) -> Trial | None:
        """A trial to train, ours from now on; None where none waits."""
        self.fill()
        while any(trial.state == TrialState.WAITING for trial in self.trials()):
            with quiet():
                trial = self.study.ask()
            if PLACE not in trial.user_attrs:  # another worker took the last one that waited
                self.drop(trial)
                continue
            self.record_heartbeat(trial._trial_id)
            counted = self.counted().get(trial.user_attrs[PLACE])
            if counted is not None and counted.number != trial.number:
                self.drop(trial)
            elif self.is_ours(trial):
                return trial
        return None

    def fill(self) -> None:
        """Let every place have a trial: the first time all, later those whose worker was lost."""
        self._fail_lost()
        counted = self.counted()
        if len(counted) < self.plan.trials:
            lost: dict[int, list[FrozenTrial]] = {}
            for trial in self.trials():
                lost.setdefault(trial.user_attrs[PLACE], []).append(trial)
            for place in range(1, self.plan.trials + 1):
                if place not in counted:
                    self._enqueue(place, lost.get(place, []))
        self._record_first_heartbeats()

    def _enqueue(self, place: int, lost: Sequence[FrozenTrial]) -> None:
        """Let a place have a trial, after those of it that were lost."""
        if len(lost) > MOST_LOST:
            why = f"{len(lost)} workers were lost while they trained it"
            attributes = {PLACE: place, OUTCOME: "lost", REASON: why}
            self.study.add_trial(create_trial(state=TrialState.FAIL, user_attrs=attributes))
            return
        with quiet():
            self.study.enqueue_trial(self._setting(place, lost), user_attrs={PLACE: place})

    def _setting(self, place: int, lost: Sequence[FrozenTrial]) -> dict[str, Any]:
        """That of a grid, or what was drawn before; nothing where it is still to be drawn.

        A trial has the whole of it only once all was suggested, and its worker may be lost before.
        """
        if self.plan.sampler == "grid":
            return dict(self.plan.grid()[place - 1])
        names = distributions(self.plan).keys()
        return next((dict(trial.params) for trial in reversed(lost) if trial.params.keys() == names), {})

    def suggest(self, trial: Trial) -> dict[str, Any]:
        """The trial's setting: what it was enqueued with, or what is drawn now."""
        for name, values in distributions(self.plan).items():
            match values:
                case optuna.distributions.CategoricalDistribution(choices=choices):
                    trial.suggest_categorical(name, choices)
                case optuna.distributions.IntDistribution(low=low, high=high, log=log):
                    trial.suggest_int(name, low, high, log=log)
                case optuna.distributions.FloatDistribution(low=low, high=high, log=log):
                    trial.suggest_float(name, low, high, log=log)
        return dict(trial.params)

    def is_ours(self, trial: Trial) -> bool:
        """Whether a trial that was taken has not been given to another worker since."""
        return self.storage.get_trial(trial._trial_id).state == TrialState.RUNNING

    def finish(self, trial: Trial, value: float | None, state: TrialState, **attributes: Any) -> bool:
        """Say what came of a trial; whether it counts.

        Where it has been given away meanwhile, its value counts if it comes first.
        """
        place = trial.user_attrs[PLACE]
        earlier = self.counted().get(place)
        if earlier is not None and earlier.number != trial.number and earlier.state.is_finished():
            self.drop(trial)
            return False
        try:
            for name, content in attributes.items():
                trial.set_user_attr(name, content)
            self.study.tell(trial, value, state=state)
        except (UpdateFinishedTrialError, ValueError):
            if self.is_ours(trial):
                raise
            if value is None:
                return False
            late = create_trial(
                value=value,
                params=trial.params,
                distributions=trial.distributions,
                user_attrs={PLACE: place, **attributes},
            )
            self.study.add_trial(late)
        return True

    def give_back(self, trial: Trial) -> None:
        """Let another worker go on with a trial, or us when we are back."""
        with suppress(UpdateFinishedTrialError, ValueError):
            self.study.tell(trial, state=TrialState.FAIL)
        self.fill()

    def drop(self, trial: Trial) -> None:
        """Let a trial not count."""
        with suppress(UpdateFinishedTrialError, ValueError):
            trial.set_user_attr(OUTCOME, DROPPED)
            self.study.tell(trial, state=TrialState.FAIL)

    def folder_of(self, place: int) -> Path:
        """Where the runs of a place are, unless another process is at work there."""
        return self.where.folder / f"trial-{place:0{max(3, len(str(self.plan.trials)))}d}"

    @contextmanager
    def alive(self, trial: Trial) -> Iterator[None]:
        """Record heartbeats while this lasts, where the storage is a database."""
        if not isinstance(self.storage, RDBStorage):
            yield
            return
        ended = threading.Event()

        def beat() -> None:
            while not ended.wait(self.where.heartbeat):
                # A server that cannot be reached for a while is no reason to stop.
                with suppress(Exception):
                    self.record_heartbeat(trial._trial_id)

        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def record_heartbeat(self, trial_id: int) -> None:
        """One heartbeat of a trial."""
        if isinstance(self.storage, RDBStorage):
            self.storage.record_heartbeat(trial_id)

    def _record_first_heartbeats(self) -> None:
        """Give each trial that waits a first heartbeat.

        Without any, Optuna would never see that a trial has lost a worker that dies as it takes it.
        """
        for trial in self.trials():
            if trial.state == TrialState.WAITING and trial._trial_id not in self._recorded:
                self._recorded.add(trial._trial_id)
                self.record_heartbeat(trial._trial_id)

    def _fail_lost(self) -> None:
        """Fail the trials whose workers are gone: by their heartbeats in a database, else by their locks."""
        if isinstance(self.storage, RDBStorage):
            with quiet():
                fail_stale_trials(self.study)
            return
        for trial in self.trials():
            if trial.state == TrialState.RUNNING:
                self._fail_unlocked(trial)

    def _fail_unlocked(self, trial: FrozenTrial) -> None:
        folder = self.folder_of(trial.user_attrs[PLACE])
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = Lock(folder)
        except OSError as error:
            raise cannot_write(folder, error, 0) from error
        except DiskError:
            raise
        except RunError:
            return  # its worker lives
        try:
            # Runs of a worker that ends just now are let go a moment later.
            if any(is_locked(run) for run in folder.iterdir() if run.is_dir()):
                return
            with suppress(UpdateFinishedTrialError, ValueError):
                self.study.tell(trial.number, state=TrialState.FAIL)
        finally:
            lock.release()

    def _given_away(self, study: Study, trial: FrozenTrial) -> None:
        """Enqueue again a trial without a heartbeat for too long."""
        place = trial.user_attrs.get(PLACE)
        if place is not None and place not in self.counted():
            self._enqueue(place, [other for other in self.trials() if other.user_attrs[PLACE] == place])


def _rank(trial: FrozenTrial) -> tuple[int, int] | None:
    """Which of several trials of a place counts: the least; None for one that never does."""
    match trial.state:
        case TrialState.COMPLETE | TrialState.PRUNED:
            return 0, trial.number
        case TrialState.RUNNING:
            return 2, trial.number
        case TrialState.WAITING:
            return 3, trial.number
    decided = trial.user_attrs.get(OUTCOME, DROPPED) != DROPPED
    return (1, trial.number) if decided else None


def _open_study(plan: SweepPlan, where: Where, storage: Any, lower_is_better: bool) -> Study:
    pruner: BasePruner = MedianPruner(n_warmup_steps=2) if plan.prune else NopPruner()
    with quiet():
        study = optuna.create_study(
            storage=storage,
            study_name=where.study,
            sampler=sampler_of(plan),
            pruner=pruner,
            direction="minimize" if lower_is_better else "maximize",
            load_if_exists=True,
        )
    held = study.user_attrs.get(PLAN)
    if held is None:
        study.set_user_attr(PLAN, plan.identity())
    elif held != plan.identity():
        different = [name for name, value in plan.identity().items() if held.get(name) != value]
        kept, other = (where.folder, "--out") if where.storage is None else ("the storage", "--name")
        raise RunError(
            f"the sweep {where.study} in {kept} is another one: it differs in {', '.join(different)}. Give it as it "
            f"was begun, or choose another {other}."
        )
    return study
