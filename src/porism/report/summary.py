"""A group in words: who is best at what, by how much, at what cost, and how far that can be trusted."""

from collections.abc import Sequence
from math import isclose

from porism.report import numbers
from porism.report.baselines import against_baselines
from porism.report.caveats import caveats, diverged
from porism.report.comparison import RunGroup
from porism.report.contest import LEAST_SEEDS, SAME, Contest, PairedComparison, contest, describe, is_level_on_valid
from porism.report.examples import ExampleInterval, of_examples, too_few
from porism.report.fairness import fairness, improving, side_by_side
from porism.report.seeds import SeedGroup, models_of, trusted
from porism.runs.record import Metrics
from porism.runs.statistics import SIGNIFICANCE


def summarise(group: RunGroup, baselines: bool = True) -> str:
    """What the runs show, in a few sentences, and no more: see `summary_sentences`."""
    return " ".join(summary_sentences(group, baselines))


def summary_sentences(group: RunGroup, baselines: bool = True) -> list[str]:
    """What came out, and then all that a reader has to know beside it.

    baselines: whether to set them beside; a table in the terminal has done so already.
    """
    models = models_of(group)
    finished = [model for model in models if model.entries]
    if not finished:
        sentences = ["No run has come to a final number yet; below is what there is so far."]
        return sentences + diverged(models)
    if len(finished) == 1:
        sentences = [_alone(group, finished[0]), *improving(finished)]
    else:
        found = contest(group, finished)
        sentences = [_compared(group, found), *fairness(found.models), *_costs(group, found.models)]
        sentences += _trust(group, found)
    sentences += _against_published(group, finished)
    sentences += against_baselines(group) if baselines else []
    sentences += _against_limit(group, finished)
    if len(finished) == 1:
        sentences += _trust_alone(finished[0])
    sentences += caveats(group, models)
    sentences += side_by_side([entry.record for entry in group.entries])
    return sentences


def _alone(group: RunGroup, model: SeedGroup) -> str:
    record = model.entries[0].record
    text = f"{model.name} reaches a {group.split} {group.metric_name} of {_over_seeds(group, model)}"
    if len(model.entries) == 1 and record.metrics:
        text += _of_examples(group, model)
        text += f" after {numbers.counted(record.metrics.epochs, 'epoch')}{_of_which(record.metrics)}"
        text += f" and {numbers.duration(record.metrics.seconds)} of training" if record.metrics.seconds else ""
        text += f" on {record.facts.device}" if record.facts.device else ""
    if model.parameters is not None:
        text += f", with {numbers.count(model.parameters)} parameters"
        text += f" and {numbers.amount(model.flops, 'FLOP')} forward per {group.unit}" if model.flops else ""
    return f"{text}."


def _of_which(metrics: Metrics) -> str:
    """The epoch whose parameters are measured, where it is not the last."""
    counts = metrics.best_epoch
    return f", of which number {counts} counts," if counts is not None and counts != metrics.epochs else ""


def _over_seeds(group: RunGroup, model: SeedGroup) -> str:
    """A mean with its interval over seeds, or the number of the only one."""
    return trusted(model.over_seeds(group, group.split))


def one_seed(group: RunGroup) -> str:
    """A single run's number, with its interval over test examples, in one short sentence; empty where it has none.

    For a terminal, whose table has no room for either.
    """
    model = next((model for model in models_of(group) if model.entries), None)
    if model is None:
        return ""
    text = f"{group.split} {group.metric_name} of one seed: {_over_seeds(group, model)}"
    if too_few(group, model.entries[0]):
        text += " (too few test examples for an interval)"
    elif (found := of_examples(group, model.entries[0])) is not None:
        text += f" (95 % interval over {numbers.counted(found.examples, found.unit)}: {_ends(found, model)})"
    return numbers.sentence(f"{text}.")


def _of_examples(group: RunGroup, model: SeedGroup) -> str:
    """How far the metric of a single run is known, by its test examples alone."""
    found = of_examples(group, model.entries[0])
    if found is None:
        return " (too few test examples for an interval)" if too_few(group, model.entries[0]) else ""
    examples = numbers.counted(found.examples, found.unit)
    counted = examples if found.right is None else f"{numbers.count(found.right)} of {examples}"
    ends = _ends(found, model)
    return f" ({counted}; 95 % confidence interval by the choice of test examples alone: {ends})"


def _ends(found: ExampleInterval, model: SeedGroup) -> str:
    # Examples that are all alike leave an interval without a width, which has the digits of the number.
    is_wide = not isclose(found.low, found.high, rel_tol=SAME)
    digits = numbers.figures((found.high - found.low) / 2) if is_wide else numbers.decimals(model.mean)
    return f"{numbers.fixed(found.low, digits)} to {numbers.fixed(found.high, digits)}"


def _compared(group: RunGroup, found: Contest) -> str:
    best, second = found.models[:2]
    if best.by_seed.keys() != second.by_seed.keys():
        return _of_other_seeds(group, found)
    pair = found.comparisons[0]
    digits = _digits(group, found)
    apart = abs(best.mean - second.mean)
    gap = numbers.fixed(apart, digits)
    if apart and not gap.strip("0."):
        gap = numbers.score(apart)  # beside a number that is 0 to these digits
    # A share has two figures, which a difference that may as well be none does not have.
    if second.mean and (len(pair.leads) < 2 or pair.lead.excludes_zero):
        gap += f" ({numbers.percent(abs(best.mean - second.mean) / abs(second.mean))})"
    level = isclose(best.mean, second.mean, rel_tol=SAME)
    ahead = level or (best.mean < second.mean) == bool(group.lower_is_better)
    direction = "below" if best.mean < second.mean else "above"
    reached = numbers.fixed(best.mean, digits)
    beside = "that of" if level else f"{gap} {direction} that of"
    too = ", too" if level else ""
    if is_level_on_valid(group, best, second) and not found.leader_is_best:
        text = f"the {group.split} {group.metric_name} of {best.name}, {reached}, is {beside} {second.name}{too}"
        return f"{_place(group, found)}: {text}."
    return (
        f"{_place(group, found)}{':' if ahead else ', but not on ' + group.split + ':'} its {group.split} "
        f"{group.metric_name} of {reached} is {beside} the next, {second.name}{too}."
    )


def _place(group: RunGroup, found: Contest) -> str:
    """Who is best, where that is decided, else who is first on `valid`. Of models that are level there none is."""
    best, count = found.models[0], len(found.models)
    level = [model.name for model in found.models if is_level_on_valid(group, best, model)]
    if found.leader_is_best:
        others = f", level on valid with {' and '.join(level[1:])}" if len(level) > 1 else ""
        return f"{best.name} is best of {count} models{others}"
    if len(level) == 1:
        return f"{best.name} comes first of {count} models on valid"
    named = f"{', '.join(level[:-1])} and {level[-1]} are level on valid"
    return named if len(level) == count else f"{named}, ahead of {numbers.counted(count - len(level), 'other model')}"


def _of_other_seeds(group: RunGroup, found: Contest) -> str:
    """Means over other seeds, as where some of them diverged, differ by the seeds too."""
    means = [
        f"{numbers.fixed(model.mean, _digits(group, found))} over {numbers.counted(len(model.entries), 'seed')}"
        for model in found.models[:2]
    ]
    return (
        f"{_place(group, found)}: the {group.split} {group.metric_name} of {found.models[0].name} is "
        f"{means[0]}, that of {found.models[1].name} {means[1]}, which are not the same seeds."
    )


def _digits(group: RunGroup, found: Contest) -> int:
    """The decimals that the leader's spread over seeds allows; four figures where there is one seed."""
    best = found.models[0]
    over = best.over_seeds(group, group.split)
    usual = numbers.decimals(best.mean)
    return min(usual, numbers.figures(over.margin)) if over and over.margin and len(best.entries) > 1 else usual


def _costs(group: RunGroup, models: Sequence[SeedGroup]) -> list[str]:
    best, second = models[:2]
    sentences = []
    ratios = (
        _ratio(best.parameters, second.parameters, "parameters"),
        _ratio(best.flops, second.flops, f"forward FLOPs per {group.unit}"),
    )
    if costs := [ratio for ratio in ratios if ratio]:
        sentences.append(f"Against {second.name}, {best.name} has {' and '.join(costs)}.")
    sized = [(model.parameters, model) for model in models if model.parameters is not None]
    smallest = min(sized, key=lambda pair: pair[0])[1] if sized else best
    # The second has just been set beside the best, and sizes that tie make none of them the smallest.
    if smallest not in (best, second) and [size for size, _ in sized].count(smallest.parameters or 0) == 1:
        sentences.append(
            f"The smallest, {smallest.name}, comes to {_over_seeds(group, smallest)} "
            f"with {numbers.count(smallest.parameters)} parameters."
        )
    return sentences


def _ratio(ours: float | None, theirs: float | None, what: str) -> str | None:
    if not ours or not theirs:
        return None
    if ours == theirs:
        return f"as many {what}"
    times = f"{ours / theirs:.2g}" if ours / theirs < 99.5 else numbers.count(ours / theirs)
    return f"about as many {what}" if times == "1" else f"{times} times the {what}"


def _against_published(group: RunGroup, models: Sequence[SeedGroup]) -> list[str]:
    pairs = [
        (model.mean, published) for model in models if (published := group.published(model.entries[0])) is not None
    ]
    if not pairs:
        return []
    if len(pairs) == 1 and len(models) == 1:
        score, published = pairs[0]
        if score == published:
            return [f"That is the published {numbers.score(published)}."]
        side = "below" if score < published else "above"
        return [f"That is {numbers.gap(score, published)} {side} the published {numbers.score(published)}."]
    better = sum(score < published if group.lower_is_better else score > published for score, published in pairs)
    by_mean = ", by the mean over seeds" if any(len(model.entries) > 1 for model in models) else ""
    return [f"Published numbers bettered: {better} of {len(pairs)}{by_mean}."]


def _against_limit(group: RunGroup, models: Sequence[SeedGroup]) -> list[str]:
    limits = {limit for model in models for entry in model.entries if (limit := group.limit(entry)) is not None}
    return [f"The best that any model can expect on this data is {numbers.score(limit)}." for limit in sorted(limits)]


def _trust_alone(model: SeedGroup) -> list[str]:
    if len(model.entries) == 1:
        return ["One seed: how far seeds differ cannot be concluded from it."]
    low, high = (numbers.score(end(model.scores)) for end in (min, max))
    return [f"A mean over {len(model.entries)} seeds, which run from {low} to {high}."]


def _trust(group: RunGroup, found: Contest) -> list[str]:
    """What a reader must know before relying on a difference."""
    counts = [len(model.entries) for model in found.models]
    if max(counts) == 1 and any(pair.leads for pair in found.comparisons):
        chance = f"One seed each: whether this is chance is not decided; that takes {LEAST_SEEDS}."
        return [chance, *(_on_examples(pair) for pair in found.comparisons[:1] if pair.examples)]
    seeds = f"{min(counts)}" if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
    best, pairs = found.models[0], found.comparisons
    low, high = (numbers.score(end(best.scores)) for end in (min, max))
    sentences = [f"Means over {seeds} seeds; those of {best.name} run from {low} to {high}."] if max(counts) > 1 else []
    sentences.append(describe(group, pairs[0]))
    if decided := [pair.second.name for pair in pairs[1:] if pair.decided]:
        sentences.append(f"{best.name} is better than {', '.join(decided)} too.")
    if open_ := [pair.second.name for pair in pairs[1:] if not pair.decided]:
        sentences.append(f"Whether it is better than {', '.join(open_)} is not decided.")
    return sentences


def _on_examples(pair: PairedComparison) -> str:
    """Whether the test set is large enough to tell two runs apart. Of other seeds that says nothing."""
    test = pair.examples[0]
    shows = "shows" if test.p_value < SIGNIFICANCE else "does not show"
    examples = numbers.counted(test.examples, test.unit)
    return f"Of these two runs {test.name} on the same {examples} {shows} {pair.first.name} ahead."
