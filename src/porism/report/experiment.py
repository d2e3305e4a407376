"""What the runs of an experiment allow to conclude: the settings that suit each recipe, and whether one is better."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from porism.report import numbers
from porism.report.comparison import Entry, RunGroup, entries_of, group_runs
from porism.report.seeds import SeedGroup, models_of, trusted
from porism.report.statistics import CONFIDENCE, Interval, interval, mcnemar
from porism.runs.record import RunRecord
from porism.training.experiment import Experiment


@dataclass(frozen=True)
class PairedComparison:
    """Two models over the same seeds: by how much the first is ahead, and a p-value a seed on the same examples."""

    first: SeedGroup
    second: SeedGroup
    lead: Interval
    p_values: tuple[float, ...]

    @property
    def is_clear(self) -> bool:
        """Both over seeds and, where examples can be paired, in most of them."""
        agreed = not self.p_values or sum(p < 1 - CONFIDENCE for p in self.p_values) > len(self.p_values) / 2
        return self.lead.excludes_zero and agreed


@dataclass(frozen=True)
class Answer:
    """An experiment, what its recipes came to at the settings chosen on `valid`, and the best against every other."""

    experiment: Experiment
    group: RunGroup
    models: tuple[SeedGroup, ...]
    comparisons: tuple[PairedComparison, ...]

    @property
    def sentences(self) -> list[str]:
        reached = [_reached(self.group, model) for model in self.models]
        return [*reached, *(_compared(self.group, comparison) for comparison in self.comparisons)]

    @property
    def titles(self) -> list[str]:
        """The columns of the table that the page shows, after the model's name."""
        counted = ("parameters", f"forward per {self.group.unit}", "training time")
        metrics = (name.replace("_", " ") for name in self._other_metrics)
        return ["seeds", "valid", self.group.split, *metrics, *counted, *self._differing_facts]

    @property
    def rows(self) -> list[tuple[SeedGroup, list[str]]]:
        """The same table's rows."""
        return [(model, self._cells(model)) for model in self.models]

    def _cells(self, model: SeedGroup) -> list[str]:
        group = self.group
        measured: list[tuple[str, str | None]] = [(split, None) for split in ("valid", group.split)]
        measured += [(group.split, name) for name in self._other_metrics]
        seconds = fmean(entry.record.metrics.seconds or 0.0 for entry in model.entries if entry.record.metrics)
        return [
            str(len(model.entries)),
            *(trusted(model.over_seeds(group, split, name)) for split, name in measured),
            numbers.count(model.parameters),
            numbers.amount(model.flops, "FLOP"),
            numbers.duration(seconds),
            *(_text(_facts(model).get(name)) for name in self._differing_facts),
        ]

    @property
    def _other_metrics(self) -> list[str]:
        return list(dict.fromkeys(name for model in self.models for name in _other_metrics(self.group, model)))

    @property
    def _differing_facts(self) -> list[str]:
        """What is the same for all stands at the top of the page."""
        names = dict.fromkeys(name for model in self.models for name in _facts(model))
        return [name for name in names if len({_facts(model).get(name) for model in self.models}) > 1]


def answer(experiment: Experiment, records: Sequence[RunRecord]) -> Answer:
    """From all runs of an experiment that have finished."""
    group = group_runs(entries_of(records))[0]
    by_recipe: dict[str, list[SeedGroup]] = {}
    for model in models_of(group):
        by_recipe.setdefault(model.entries[0].record.facts.recipe, []).append(model)
    chosen = [_best_on_valid(group, models) for models in by_recipe.values()]
    chosen.sort(key=lambda model: model.mean, reverse=not group.lower_is_better)
    comparisons = [_compare(group, chosen[0], other) for other in chosen[1:]]
    return Answer(experiment, group, tuple(chosen), tuple(comparisons))


def _best_on_valid(group: RunGroup, models: Sequence[SeedGroup]) -> SeedGroup:
    def on_valid(model: SeedGroup) -> float:
        found = model.over_seeds(group, "valid")
        return found.mean if found else float("inf") * (1 if group.lower_is_better else -1)

    return min(models, key=on_valid) if group.lower_is_better else max(models, key=on_valid)


def _compare(group: RunGroup, first: SeedGroup, second: SeedGroup) -> PairedComparison:
    theirs = {entry.record.facts.seed: entry for entry in second.entries}
    pairs = [(entry, theirs[seed]) for entry in first.entries if (seed := entry.record.facts.seed) in theirs]
    leads = [_lead(group, ours, others) for ours, others in pairs]
    outcomes = [(ours.record.outcomes.get("test"), others.record.outcomes.get("test")) for ours, others in pairs]
    p_values = [mcnemar(ours, others) for ours, others in outcomes if ours and others]
    return PairedComparison(first, second, interval(leads), tuple(p_values))


def _lead(group: RunGroup, ours: Entry, theirs: Entry) -> float:
    """How much better, as a positive number."""
    gap = (group.score(ours) or 0.0) - (group.score(theirs) or 0.0)
    return -gap if group.lower_is_better else gap


def _reached(group: RunGroup, model: SeedGroup) -> str:
    over = len(model.entries)
    among = "one seed" if over == 1 else f"{over} seeds, with its {100 * CONFIDENCE:.0f} % interval"
    reached = trusted(model.over_seeds(group, group.split))
    return f"{model.name}: {group.split} {group.metric_name} {reached} over {among}."


def _compared(group: RunGroup, found: PairedComparison) -> str:
    first, second = found.first.name, found.second.name
    if found.lead.margin is None:
        return f"One seed cannot tell {first} from {second}: add seeds."
    low, high = (
        numbers.difference(found.first.mean + end, found.first.mean) for end in (found.lead.low, found.lead.high)
    )
    ahead = f"{first} is ahead of {second} by {numbers.gap(found.lead.mean, 0.0)} ({low} to {high})"
    if found.p_values:
        clear = sum(p < 1 - CONFIDENCE for p in found.p_values)
        ahead += (
            f"; McNemar's test on the same {group.unit}s gives p from {min(found.p_values):.2g} to "
            f"{max(found.p_values):.2g}, below {1 - CONFIDENCE:.2f} in {clear} of {len(found.p_values)} seeds"
        )
    if found.is_clear:
        return f"{ahead}. So {first} is the better of the two on this data."
    if found.lead.excludes_zero:
        return (
            f"{ahead}. So {first} comes out ahead over seeds, but single runs do not show it on a test set this small."
        )
    return f"{ahead}. The interval holds 0, so from these runs it cannot be concluded which is better."


def _other_metrics(group: RunGroup, model: SeedGroup) -> list[str]:
    """What else was measured on the split that counts."""
    metrics = model.entries[0].record.metrics
    return [name for name in metrics.metrics.get(group.split, {}) if name != group.metric] if metrics else []


def _facts(model: SeedGroup) -> dict[str, int | float | str]:
    metrics = model.entries[0].record.metrics
    return metrics.facts if metrics else {}


def _text(fact: int | float | str | None) -> str:
    if fact is None:
        return numbers.MISSING
    return fact if isinstance(fact, str) else numbers.count(fact) if isinstance(fact, int) else numbers.score(fact)
