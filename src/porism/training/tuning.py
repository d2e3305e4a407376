"""Tuning before a training: a small search over a recipe's fields on valid, within a time.

The recipe as it comes is the first trial, then its learning rate is multiplied by 1/3, 3, 1/10 and 10, then fields are
drawn at random around the best trial so far. Each trial is a training of its own for a few epochs, over which its
learning rate takes its whole course. Test is never evaluated. Given the same number of trials a search is the same for
the same seed, data, device and number of threads.

A short training favours what learns quickly: high rates, narrow models, little dropout. So does this search.
"""

import dataclasses
import math
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import torch

from porism.errors import DivergedError, Interrupted, RecipeError, advise, option, shown
from porism.runs.recipe import Recipe, settings, with_fields
from porism.runs.tuning import Factors, Space, Tuning, TuningTrial
from porism.training.progress import NoProgress
from porism.training.request import TrainingRequest
from porism.training.session import begin
from porism.training.task import Task

NEAR = Factors((0.5, 0.7, 1.0, 1.4, 2.0))
"""Learning rates around the best one, from the sixth trial on."""
FEWEST_EPOCHS, SHARE = 3, 0.2
"""A trial has this share of the recipe's epochs, and at least so many."""
MOST_TRIALS = 200
MOST_DRAWS = 50
"""Draws until one is a recipe that can be, and that was not tried."""
SECONDS = 60
"""Of a minute."""


class _TimeOver(Exception):
    """A trial did not end in time."""


class _Deadline(NoProgress):
    """Stops a trial between two steps."""

    def __init__(self, at: float) -> None:
        self.at = at

    def step(self, units: int) -> None:
        if time.monotonic() > self.at:
            raise _TimeOver


@dataclass(frozen=True)
class TuningSearch:
    """A search for the recipe of a training. Fields that the user has set stay."""

    request: TrainingRequest
    minutes: float
    most_trials: int = MOST_TRIALS

    def run(self, tell: Callable[[str], None] = lambda text: None) -> tuple[Recipe, Tuning]:
        """The recipe that is best on valid, for as many epochs as the one it began with, and all that was tried.

        tell: is given a line a trial.
        """
        check_minutes(self.minutes)
        request, recipe = self.request, self.request.recipe
        fixed = [text.partition("=")[0] for text in request.overrides]
        space = tunable(request.kind, recipe, fixed, own_model=request.user_objects.model is not None)
        end, trials = time.monotonic() + SECONDS * self.minutes, list[TuningTrial]()
        tuning = Tuning(
            minutes=self.minutes,
            seed=request.seed,
            metric="",
            lower_is_better=False,
            epochs=trial_epochs(recipe),
        )
        while len(trials) < self.most_trials:
            # What will not be done in time is not begun.
            if trials and time.monotonic() + max(trial.seconds for trial in trials[1:] or trials) > end:
                break
            fields = next_fields(recipe, space, tuning, request.seed)
            if fields is None:
                break
            trial, metric, lower = self._tried(len(trials) + 1, fields, end)
            if trial.outcome == "time over":
                if not trials:
                    epochs = f"{tuning.epochs} epoch{'s' * (tuning.epochs != 1)} of {recipe.name}"
                    raise RecipeError(
                        f"{self.minutes:g} minutes of tuning are shorter than one trial: {epochs} are not done in "
                        f"{SECONDS * self.minutes:g} seconds.",
                        advise("Give more to {}, or fewer {}.", option("tune"), option("epochs")),
                    )
                trials.append(trial)
                tuning = dataclasses.replace(tuning, trials=tuple(trials))
                tell(described(trial, tuning))
                break
            trials.append(trial)
            tuning = dataclasses.replace(
                tuning, trials=tuple(trials), metric=metric or tuning.metric, lower_is_better=lower
            )
            best = best_trial(tuning)
            tuning = dataclasses.replace(
                tuning, chosen=best.number if best else 1, fields=dict(best.fields) if best else {}
            )
            tell(described(trial, tuning))
        if best_trial(tuning) is None:
            raise DivergedError(
                f"none of {len(trials)} trials has a result: all diverged.",
                advise("Give a lower {}.", option("learning_rate")),
            )
        tell(conclusion(tuning))
        return with_fields(recipe, tuning.fields), tuning

    def _tried(self, number: int, fields: Mapping[str, Any], end: float) -> tuple[TuningTrial, str, bool]:
        """One trial, and the metric it is judged by."""
        since = time.monotonic()
        threads = torch.get_num_threads()
        value, outcome, metric, lower = None, "done", "", False
        with tempfile.TemporaryDirectory(prefix="porism-tune-") as folder:
            try:
                recipe = shortened(with_fields(self.request.recipe, fields))
                training = begin(
                    replace(self.request, recipe=recipe, overrides=(), baselines=False), Path(folder) / "run"
                )
                metric, lower = training.task.metric, training.task.lower_is_better
                training.fit(_Deadline(end), checkpoint_every=math.inf)
                value = training.position.best
            except _TimeOver:
                outcome = "time over"
            except DivergedError:
                outcome = "diverged"
            except Interrupted as stopped:
                raise Interrupted(
                    f"stopped while tuning, after {number - 1} trials, of which nothing is kept. Begin again with the "
                    "same command."
                ) from stopped
            finally:
                torch.set_num_threads(threads)
        seconds = round(time.monotonic() - since, 2)
        return TuningTrial(number, dict(fields), value, seconds, outcome), metric, lower  # type: ignore[arg-type]


def check_minutes(minutes: float) -> None:
    """Refuse a time in which nothing can be tried."""
    number = isinstance(minutes, Real) and not isinstance(minutes, bool)
    if not number or not math.isfinite(minutes) or minutes <= 0:
        got = f"{minutes:g}" if number else shown(minutes)
        raise RecipeError(f"tuning takes minutes above 0, got {got}.", advise("Use {}.", option("tune", "5")))


def trial_epochs(recipe: Recipe) -> int:
    """
    >>> trial_epochs(recipe)        # of 40 epochs
    8
    """
    return min(recipe.epochs, max(FEWEST_EPOCHS, round(SHARE * recipe.epochs)))


def shortened(recipe: Recipe) -> Recipe:
    """The recipe as it is tried: for fewer epochs, with as large a share of them to warm up."""
    epochs = trial_epochs(recipe)
    share = epochs / recipe.epochs
    seconds = None if recipe.max_seconds is None else recipe.max_seconds * share
    return dataclasses.replace(
        recipe, epochs=epochs, warmup_steps=round(recipe.warmup_steps * share), max_seconds=seconds
    )


def tunable(kind: type[Task], recipe: Recipe, fixed: Sequence[str] = (), own_model: bool = False) -> Space:
    """The fields that a search may set: the task's, without those that the user has set or that describe other models.

    >>> sorted(tunable(find("graphs"), recipe, fixed=["dropout"]))
    ['hidden_size', 'learning_rate', 'weight_decay']
    """
    names = {field.name for field in dataclasses.fields(Recipe)} | set(kind.fields_beside_model)
    found = {
        name: values for name, values in kind.tunable.items() if name not in fixed and (name in names or not own_model)
    }
    if not found:
        raise RecipeError(
            f"nothing is left to tune of {kind.name}: {', '.join(kind.tunable)} are set. Leave one of them out."
        )
    return found


def next_fields(recipe: Recipe, space: Space, tuning: Tuning, seed: int) -> dict[str, Any] | None:
    """What the next trial sets; None where nothing new is found."""
    trials = tuning.trials
    if not trials:
        return {}
    tried = [settings(with_fields(recipe, trial.fields)) for trial in trials]
    rates = space["learning_rate"].of(recipe.learning_rate) if "learning_rate" in space else []
    if len(trials) <= len(rates):
        return {"learning_rate": rates[len(trials) - 1]}
    best = best_trial(tuning)
    start = with_fields(recipe, best.fields if best else {})
    generator = np.random.default_rng([seed, len(trials)])
    for _ in range(MOST_DRAWS):
        drawn = {
            name: (NEAR.of(start.learning_rate) if name == "learning_rate" else values.of(getattr(recipe, name)))
            for name, values in space.items()
        }
        changed = {
            name: values[int(generator.integers(len(values)))]
            for name, values in drawn.items()
            if generator.random() < 0.5
        }
        try:
            candidate = with_fields(start, changed)
        except RecipeError:
            # Such as a width that its heads do not divide.
            continue
        if settings(candidate) not in tried:
            before = settings(recipe)
            return {name: value for name, value in settings(candidate).items() if value != before[name]}
    return None


def best_trial(tuning: Tuning) -> TuningTrial | None:
    """The first of those with the best number on valid; None where all diverged."""
    done = [trial for trial in tuning.trials if trial.value is not None]
    sign = 1 if tuning.lower_is_better else -1
    return min(done, key=lambda trial: sign * (trial.value or 0.0)) if done else None


def described(trial: TuningTrial, tuning: Tuning) -> str:
    """A line for people.

    >>> described(trial, tuning)
    'trial 2: learning_rate=0.01: valid accuracy 0.9331, 12.1 s, best so far'
    """
    fields = ", ".join(f"{name}={value}" for name, value in trial.fields.items()) or "the recipe as it is"
    value = trial.outcome if trial.value is None else f"valid {tuning.metric.replace('_', ' ')} {trial.value:.4g}"
    best = ", best so far" if tuning.chosen == trial.number and trial.value is not None else ""
    return f"trial {trial.number}: {fields}: {value}, {trial.seconds:.1f} s{best}"


def conclusion(tuning: Tuning) -> str:
    """What is trained in full, in a line."""
    if tuning.chosen == 1:
        return f"tuned: none of {len(tuning.trials)} trials is better on valid than the recipe as it is"
    fields = ", ".join(f"{name}={value}" for name, value in tuning.fields.items())
    return f"tuned: trial {tuning.chosen} of {len(tuning.trials)} is best on valid: {fields}"
