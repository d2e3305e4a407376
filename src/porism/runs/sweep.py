"""What came of a sweep: its trials, each a setting trained from every seed, and which of them is chosen."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Outcome = Literal["waiting", "running", "done", "pruned", "diverged", "failed", "lost"]


@dataclass(frozen=True)
class SweepTrial:
    """One setting, and its metric on valid."""

    number: int
    """Its place in the plan, from 1."""
    setting: Mapping[str, Any]
    """The recipe, where there are several, and the fields that are tried."""
    outcome: Outcome
    value: float | None = None
    """The mean over seeds; of one that was pruned what it had reached, which is never chosen."""
    scores: tuple[float, ...] = ()
    """One a seed."""
    runs: tuple[Path, ...] = ()
    """One a seed, where they are on this machine."""
    epoch: int = 0
    """The last epoch that is known of, of the first seed."""
    seconds: float | None = None
    """From the start to the end of the attempt that ended it."""
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "trial": self.number,
            "setting": dict(self.setting),
            "outcome": self.outcome,
            "valid": self.value,
            "valid_by_seed": list(self.scores),
            "runs": [str(run) for run in self.runs],
            **({"reason": self.reason} if self.reason else {}),
        }


@dataclass(frozen=True)
class SweepRecord:
    """A sweep as it stands."""

    task: str
    source: str | None
    metric: str
    lower_is_better: bool
    seeds: tuple[int, ...]
    choices: tuple[str, ...]
    """The names of what a setting chooses."""
    trials: tuple[SweepTrial, ...]
    importances: Mapping[str, float] | None = None
    """Of each choice for the metric, in all 1; None where they are not known."""
    why_no_importances: str = ""

    @property
    def ranked(self) -> list[SweepTrial]:
        """The trials that are done, best on valid first."""
        sign = 1 if self.lower_is_better else -1
        done = [trial for trial in self.trials if trial.outcome == "done" and trial.value is not None]
        return sorted(done, key=lambda trial: (sign * (trial.value or 0.0), trial.number))

    @property
    def chosen(self) -> SweepTrial | None:
        """The best on valid by the mean over seeds; the first of equals."""
        return self.ranked[0] if self.ranked else None

    @property
    def metric_name(self) -> str:
        return self.metric.replace("_", " ")
