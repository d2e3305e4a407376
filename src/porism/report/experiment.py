"""What the runs of an experiment allow to conclude: the settings that suit each recipe, and whether one is better."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from statistics import fmean

from porism.report import numbers
from porism.report.comparison import Entry, RunGroup, contests, entries_of
from porism.report.markup import number_cell, scrolled, section
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
    contest: RunGroup
    models: tuple[SeedGroup, ...]
    comparisons: tuple[PairedComparison, ...]

    @property
    def sentences(self) -> list[str]:
        reached = [_reached(self.contest, model) for model in self.models]
        return [*reached, *(_compared(self.contest, comparison) for comparison in self.comparisons)]


def answer(experiment: Experiment, records: Sequence[RunRecord]) -> Answer:
    """From all runs of an experiment that have finished."""
    contest = contests(entries_of(records))[0]
    by_recipe: dict[str, list[SeedGroup]] = {}
    for model in models_of(contest):
        by_recipe.setdefault(model.entries[0].record.facts.recipe, []).append(model)
    chosen = [_best_on_valid(contest, models) for models in by_recipe.values()]
    chosen.sort(key=lambda model: model.mean, reverse=not contest.lower_is_better)
    comparisons = [_compare(contest, chosen[0], other) for other in chosen[1:]]
    return Answer(experiment, contest, tuple(chosen), tuple(comparisons))


def answered(found: Answer) -> str:
    """The answer as a part of the page."""
    contest = found.contest
    # What is the same for all stands at the top of the page.
    facts = dict.fromkeys(name for model in found.models for name in _facts(model))
    names = [name for name in facts if len({_facts(model).get(name) for model in found.models}) > 1]
    others = list(dict.fromkeys(name for model in found.models for name in _other_metrics(contest, model)))
    head = "<th>model</th><th class=number>seeds</th><th class=number>valid</th>"
    head += f"<th class=number>{contest.split}</th>"
    head += "".join(f"<th class=number>{escape(name.replace('_', ' '))}</th>" for name in others)
    head += "<th class=number>parameters</th>"
    head += f"<th class=number>forward per {escape(contest.unit)}</th><th class=number>training time</th>"
    head += "".join(f"<th class=number>{escape(name)}</th>" for name in names)
    rows = []
    for model in found.models:
        cells = [number_cell(trusted(model.over_seeds(contest, split))) for split in ("valid", contest.split)]
        cells += [number_cell(trusted(model.over_seeds(contest, contest.split, name))) for name in others]
        seconds = fmean(entry.record.metrics.seconds or 0.0 for entry in model.entries if entry.record.metrics)
        cells += [number_cell(numbers.count(model.parameters)), number_cell(numbers.amount(model.flops, "FLOP"))]
        cells += [number_cell(numbers.duration(seconds))]
        cells += [number_cell(_text(_facts(model).get(name))) for name in names]
        rows.append(f'<th scope="row">{escape(model.name)}</th>{number_cell(str(len(model.entries)))}{"".join(cells)}')
    text = "".join(f"<p>{escape(sentence)}</p>" for sentence in found.sentences)
    return section(found.experiment.about, text + scrolled(head, rows, "the answer"))


def _best_on_valid(contest: RunGroup, models: Sequence[SeedGroup]) -> SeedGroup:
    def on_valid(model: SeedGroup) -> float:
        found = model.over_seeds(contest, "valid")
        return found.mean if found else float("inf") * (1 if contest.lower_is_better else -1)

    return min(models, key=on_valid) if contest.lower_is_better else max(models, key=on_valid)


def _compare(contest: RunGroup, first: SeedGroup, second: SeedGroup) -> PairedComparison:
    theirs = {entry.record.facts.seed: entry for entry in second.entries}
    pairs = [(entry, theirs[seed]) for entry in first.entries if (seed := entry.record.facts.seed) in theirs]
    leads = [_lead(contest, ours, others) for ours, others in pairs]
    outcomes = [(ours.record.outcomes.get("test"), others.record.outcomes.get("test")) for ours, others in pairs]
    p_values = [mcnemar(ours, others) for ours, others in outcomes if ours and others]
    return PairedComparison(first, second, interval(leads), tuple(p_values))


def _lead(contest: RunGroup, ours: Entry, theirs: Entry) -> float:
    """How much better, as a positive number."""
    gap = (contest.score(ours) or 0.0) - (contest.score(theirs) or 0.0)
    return -gap if contest.lower_is_better else gap


def _reached(contest: RunGroup, model: SeedGroup) -> str:
    over = len(model.entries)
    among = "one seed" if over == 1 else f"{over} seeds, with its {100 * CONFIDENCE:.0f} % interval"
    reached = trusted(model.over_seeds(contest, contest.split))
    return f"{model.name}: {contest.split} {contest.metric_name} {reached} over {among}."


def _compared(contest: RunGroup, found: PairedComparison) -> str:
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
            f"; McNemar's test on the same {contest.unit}s gives p from {min(found.p_values):.2g} to "
            f"{max(found.p_values):.2g}, below {1 - CONFIDENCE:.2f} in {clear} of {len(found.p_values)} seeds"
        )
    if found.is_clear:
        return f"{ahead}. So {first} is the better of the two on this data."
    if found.lead.excludes_zero:
        return (
            f"{ahead}. So {first} comes out ahead over seeds, but single runs do not show it on a test set this small."
        )
    return f"{ahead}. The interval holds 0, so from these runs it cannot be concluded which is better."


def _other_metrics(contest: RunGroup, model: SeedGroup) -> list[str]:
    """What else was measured on the split that counts."""
    metrics = model.entries[0].record.metrics
    return [name for name in metrics.metrics.get(contest.split, {}) if name != contest.metric] if metrics else []


def _facts(model: SeedGroup) -> dict[str, int | float | str]:
    metrics = model.entries[0].record.metrics
    return metrics.facts if metrics else {}


def _text(fact: int | float | str | None) -> str:
    if fact is None:
        return numbers.MISSING
    return fact if isinstance(fact, str) else numbers.count(fact) if isinstance(fact, int) else numbers.score(fact)
