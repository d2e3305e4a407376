"""What a sweep has come to: its trials as a record, and how much each field matters."""

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from optuna.trial import FrozenTrial, TrialState

from porism.errors import RunError
from porism.runs.run import RECIPE
from porism.runs.sweep import Outcome, SweepRecord, SweepTrial
from porism.sweep.plan import SweepPlan, ordered
from porism.sweep.queue import OUTCOME, REASON, TrialQueue
from porism.sweep.samplers import PLACE
from porism.sweep.storage import quiet
from porism.sweep.worker import RUNS, SCORES, SECONDS

FEWEST = 4
"""Trials from which on it is computed how much a field matters."""
STATES: dict[TrialState, Outcome] = {
    TrialState.WAITING: "waiting",
    TrialState.RUNNING: "running",
    TrialState.COMPLETE: "done",
    TrialState.PRUNED: "pruned",
}


def trials_of(queue: TrialQueue) -> tuple[SweepTrial, ...]:
    """The trials as they stand, in the order of the plan."""
    grid = queue.plan.grid() if queue.plan.sampler == "grid" else []
    return tuple(
        _trial(
            queue, place, trial, _of_grid(grid[place - 1], trial) if grid else ordered(trial.params, queue.plan.choices)
        )
        for place, trial in queue.counted().items()
    )


def _of_grid(setting: Mapping[str, Any], trial: FrozenTrial) -> Mapping[str, Any]:
    """The setting of a grid that a trial is of; refused where it was trained with another."""
    trained = ordered(trial.params, list(setting))
    if trained.keys() == setting.keys() and trained != setting:
        raise RunError(
            f"trial {trial.user_attrs[PLACE]} of this sweep is to be of {_shown(setting)} and was trained with "
            f"{_shown(trained)}: an earlier version drew anew where a worker was killed. Start it under another name."
        )
    return setting


def _shown(setting: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in setting.items())


def record_of(queue: TrialQueue, metric: str, lower_is_better: bool) -> SweepRecord:
    """The whole sweep."""
    importances, why = _importances(queue)
    plan: SweepPlan = queue.plan
    return SweepRecord(
        task=plan.kind.name,
        source=plan.source,
        metric=metric,
        lower_is_better=lower_is_better,
        seeds=plan.seeds,
        choices=tuple(plan.choices),
        trials=trials_of(queue),
        importances=importances,
        why_no_importances=why,
    )


def _trial(queue: TrialQueue, place: int, trial: FrozenTrial, setting: Mapping[str, Any]) -> SweepTrial:
    known = trial.user_attrs
    runs = [queue.where.folder / run for run in known.get(RUNS, ())]
    return SweepTrial(
        number=place,
        setting=setting,
        outcome=STATES.get(trial.state) or known.get(OUTCOME, "lost"),
        value=trial.value if trial.state in (TrialState.COMPLETE, TrialState.PRUNED) else None,
        scores=tuple(known.get(SCORES, ())),
        runs=tuple(run for run in runs if (run / RECIPE).is_file()),
        epoch=trial.last_step or 0,
        seconds=known.get(SECONDS),
        reason=known.get(REASON, ""),
    )


def _importances(queue: TrialQueue) -> tuple[Mapping[str, float] | None, str]:
    """The share of the metric's variance that each field explains, by functional ANOVA over random forests; else why
    it is not known."""
    done = [trial for trial in queue.counted().values() if trial.state == TrialState.COMPLETE]
    varied = {name for name in queue.plan.choices if len({repr(trial.params.get(name)) for trial in done}) > 1}
    if len(queue.plan.choices) < 2:
        return None, "one field alone is tried"
    if len(done) < FEWEST or len({trial.value for trial in done}) < 2 or not varied:
        return None, f"that takes {FEWEST} trials with results that differ"
    if find_spec("sklearn") is None:
        return None, 'that needs scikit-learn: pip install "porism[baselines]"'
    import optuna

    # Of each place the one trial that counts: a result that came twice would weigh twice.
    alone = optuna.create_study(direction=queue.study.direction)
    for trial in done:
        alone.add_trial(trial)
    with quiet():
        found = optuna.importance.get_param_importances(
            alone, evaluator=optuna.importance.FanovaImportanceEvaluator(seed=queue.plan.seeds[0])
        )
    return {name: float(found.get(name, 0.0)) for name in queue.plan.choices}, ""
