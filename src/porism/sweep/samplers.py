"""How a trial's setting is drawn: by Optuna's samplers, seeded by the trial's place in the sweep.

Whoever takes a trial draws the same: random settings do not depend on the number of workers, and those of TPE only on
the trials that are done by then.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.samplers import BaseSampler, RandomSampler, TPESampler
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from porism.sweep.plan import RECIPE, SweepPlan
from porism.sweep.space import Range, Values

PLACE = "place"
"""The attribute of a trial that says which one of the plan it is, from 1."""


class PlaceSampler(BaseSampler):
    """A sampler made anew for each trial, from the sweep's seed and the trial's place."""

    def __init__(self, make: Callable[[int], BaseSampler], seed: int) -> None:
        self.make, self.seed = make, seed
        self.sampler = make(seed)

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        words = [self.seed, trial.user_attrs.get(PLACE, 0)]
        self.sampler = self.make(int(np.random.SeedSequence(words).generate_state(1)[0]))
        self.sampler.before_trial(study, trial)

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return self.sampler.infer_relative_search_space(study, trial)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        return self.sampler.sample_relative(study, trial, search_space)

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        return self.sampler.sample_independent(study, trial, param_name, param_distribution)

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> None:
        self.sampler.after_trial(study, trial, state, values)


def sampler_of(plan: SweepPlan) -> BaseSampler:
    """The sampler of a plan. That of a grid draws nothing: its trials bring their settings."""
    if plan.sampler == "tpe":
        # The trials of other workers count as bad until they are done, so that no two try the same place.
        return PlaceSampler(lambda seed: TPESampler(seed=seed, constant_liar=True), plan.seeds[0])
    return PlaceSampler(lambda seed: RandomSampler(seed=seed), plan.seeds[0])


def distributions(plan: SweepPlan) -> dict[str, BaseDistribution]:
    """What each choice of a setting is drawn from."""
    found: dict[str, BaseDistribution] = {}
    if len(plan.recipes) > 1:
        found[RECIPE] = CategoricalDistribution([recipe.name for recipe in plan.recipes])
    return found | {name: _distribution(values) for name, values in plan.space.items()}


def _distribution(values: Values | Range) -> BaseDistribution:
    if isinstance(values, Values):
        return CategoricalDistribution(values.values)
    if isinstance(values.low, int) and isinstance(values.high, int):
        return IntDistribution(values.low, values.high, log=values.log)
    return FloatDistribution(values.low, values.high, log=values.log)
