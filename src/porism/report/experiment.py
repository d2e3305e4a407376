"""What the runs of an experiment allow to conclude: settings that suit each recipe or value, and which is better."""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from statistics import fmean

from porism.report import numbers
from porism.report.caveats import caveats
from porism.report.comparison import RunGroup, entries_of, group_runs
from porism.report.contest import Contest, contest, correct, describe, is_level_on_valid, reached
from porism.report.fairness import fairness, side_by_side
from porism.report.seeds import SeedGroup, models_of, seeds_text, trusted
from porism.runs.record import RunRecord
from porism.training.experiment import Experiment


@dataclass(frozen=True)
class Answer:
    """An experiment and its contests: of the recipes, or of the values of each field, recipe by recipe."""

    experiment: Experiment
    contests: tuple[Contest, ...]
    notes: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()
    """What a reader must know beside the answer."""

    @property
    def sentences(self) -> list[str]:
        answers = (sentence for one in self.contests for sentence in sentences(one))
        return [*self.notes, *answers, *self.caveats]

    @property
    def models(self) -> list[SeedGroup]:
        """All that is compared, each contest's best on `valid` first."""
        return [model for one in self.contests for model in one.models]


def sentences(found: Contest) -> list[str]:
    """The answer of one contest: what is decided and how fair it was, then the leader beside each other, and the
    reference of the question.
    """
    if len(found.models) == 1:
        return [reached(found.group, found.models[0])]
    finished = [model for model in found.models if model.entries]
    headline = " ".join([_headline(found), *(fairness(finished) if len(finished) > 1 else [])])
    return [headline, *(describe(found.group, pair) for pair in found.told)]


def _headline(found: Contest) -> str:
    leader, others = found.models[0], len(found.models) - 1
    title = f"{found.title}: " if found.title else ""
    if not leader.entries:
        return f"{title}every one of the {len(found.models)} diverged."
    first = f"{title}{leader.name} is best of {len(found.models)} on valid"
    if level := [other.name for other in found.models[1:] if is_level_on_valid(found.group, leader, other)]:
        first += f", level with {' and '.join(level)}"
    better = [pair.second.name for pair in found.comparisons if pair.decided]
    undecided = [pair.second.name for pair in found.comparisons if not pair.decided]
    if not better:
        among = "any of the others" if others > 1 else "the other"
        verdict = f", but that it is better than {among} is not decided"
    else:
        verdict = f", and better than {', '.join(better)}"
        verdict += f"; between it and {', '.join(undecided)} these runs do not decide" if undecided else ""
    return f"{first}{verdict}. {reached(found.group, leader)}"


@dataclass(frozen=True)
class AnswerTable:
    """The models of one contest, a row each, for the page."""

    title: str
    columns: list[str]
    rows: list[tuple[SeedGroup, list[str]]]


def answer_table(found: Contest) -> AnswerTable:
    """Seeds, metrics and costs of each model, and the facts in which they differ."""
    group, models = found.group, found.models
    metrics = list(dict.fromkeys(name for model in models for name in _other_metrics(group, model)))
    # What is the same for all stands at the top of the page.
    facts = dict.fromkeys(name for model in models for name in _facts(model))
    differing = [name for name in facts if len({_facts(model).get(name) for model in models}) > 1]

    def cells(model: SeedGroup) -> list[str]:
        measured: list[tuple[str, str | None]] = [(split, None) for split in ("valid", group.split)]
        measured += [(group.split, name) for name in metrics]
        seconds = [entry.record.metrics.seconds or 0.0 for entry in model.entries if entry.record.metrics]
        return [
            seeds_text(model),
            *(trusted(model.over_seeds(group, split, name)) for split, name in measured),
            numbers.count(model.parameters),
            numbers.amount(model.flops, "FLOP"),
            numbers.duration(fmean(seconds) if seconds else None),
            *(_text(_facts(model).get(name)) for name in differing),
        ]

    counted = ("parameters", f"forward per {group.unit}", "training time")
    titles = ["seeds", "valid", group.split, *(name.replace("_", " ") for name in metrics), *counted, *differing]
    return AnswerTable(found.title, titles, [(model, cells(model)) for model in models])


def answer(experiment: Experiment, records: Sequence[RunRecord]) -> Answer:
    """From all runs of an experiment that have finished or diverged."""
    groups = [group for group in group_runs(entries_of(records)) if models_of(group)]
    contests = [one for group in groups for one in _contests(experiment, group)]
    notes = []
    if len(groups) > 1:
        notes.append(
            "The runs were not all scored on the same examples, so they are answered apart: "
            f"{'; '.join(group.place for group in groups)}."
        )
    beside = _missing(experiment, [model for group in groups for model in models_of(group)])
    beside += [sentence for group in groups for sentence in caveats(group, models_of(group))]
    beside += side_by_side(records)
    return Answer(experiment, tuple(correct(contests)), tuple(notes), tuple(dict.fromkeys(beside)))


def _missing(experiment: Experiment, models: Sequence[SeedGroup]) -> list[str]:
    """What the experiment asks for and has no result, or from fewer seeds: a choice among fewer is no equal one."""
    tried = [*experiment.over, *experiment.values]
    seeds: dict[tuple[str, ...], set[int]] = {}
    for entry in (entry for model in models for entry in (*model.entries, *model.diverged)):
        record = entry.record
        setting = [_assigned(name, record.fields.get(name)) for name in tried]
        seeds.setdefault((record.facts.recipe, *setting), set()).add(record.facts.seed)
    asked = {
        (trial.recipe, *(_assigned(*text.split("=", 1)) for text in trial.assignments)): trial
        for trial in experiment.trials(1, 1)
    }
    most = max(map(len, seeds.values()), default=0)
    names = {setting: " · ".join((trial.recipe, *trial.assignments)) for setting, trial in asked.items()}
    lost = [name for setting, name in names.items() if setting not in seeds]
    fewer = [f"{name} ({len(seeds[one])})" for one, name in names.items() if 0 < len(seeds.get(one, ())) < most]
    sentences = [f"No result, so not compared: {', '.join(lost)}."] if lost else []
    if len(set(Counter(recipe for recipe, *_ in seeds).values())) > 1:
        # Of two equal models with four settings and with one, 7 % are then called better where luck is shared.
        sentences.append("Recipes that chose among more settings had a better chance to lead.")
    return sentences + ([f"From fewer seeds than {most}: {', '.join(fewer)}."] if fewer else [])


def _assigned(name: str, value: object) -> str:
    """A field and its value: 1 and 1.0 are the same."""
    with suppress(ValueError):
        return f"{name}={float(str(value))}"
    return f"{name}={value}"


def _contests(experiment: Experiment, group: RunGroup) -> list[Contest]:
    """One of the recipes; or where values of fields are compared, one a recipe and field."""
    by_recipe: dict[str, list[SeedGroup]] = {}
    for model in models_of(group):
        by_recipe.setdefault(_run(model).facts.recipe, []).append(model)
    if not experiment.values:
        best = {recipe: _best_on_valid(group, models) for recipe, models in by_recipe.items()}
        return [contest(group, list(best.values()), group.variant, best.get(experiment.reference))]
    found = []
    order = dict.fromkeys([*experiment.recipes, *by_recipe])
    for recipe in (recipe for recipe in order if recipe in by_recipe):
        models = by_recipe[recipe]
        among = [f"recipe {recipe}"] if len(by_recipe) > 1 else []
        for name in experiment.values:
            by_value: dict[str, list[SeedGroup]] = {}
            for model in models:
                by_value.setdefault(str(_run(model).fields.get(name)), []).append(model)
            chosen = [_without(_best_on_valid(group, settings), f"{recipe} · ") for settings in by_value.values()]
            title = [name] if len(experiment.values) > 1 else []
            found.append(contest(group, chosen, ", ".join(filter(None, [*title, *among, group.variant]))))
    return found


def _best_on_valid(group: RunGroup, models: Sequence[SeedGroup]) -> SeedGroup:
    return min(models, key=lambda model: model.rank_on_valid(group))


def _without(model: SeedGroup, beginning: str) -> SeedGroup:
    """The model under a name that does not repeat what the contest's title says."""
    return replace(model, name=model.name.removeprefix(beginning))


def _run(model: SeedGroup) -> RunRecord:
    """Any of its runs: they differ by their seed alone."""
    return (*model.entries, *model.diverged)[0].record


def _other_metrics(group: RunGroup, model: SeedGroup) -> list[str]:
    """What else was measured on the split that counts."""
    metrics = _run(model).metrics
    return [name for name in metrics.metrics.get(group.split, {}) if name != group.metric] if metrics else []


def _facts(model: SeedGroup) -> dict[str, int | float | str]:
    metrics = _run(model).metrics
    return metrics.facts if metrics else {}


def _text(fact: int | float | str | None) -> str:
    if fact is None:
        return numbers.MISSING
    return fact if isinstance(fact, str) else numbers.count(fact) if isinstance(fact, int) else numbers.score(fact)
