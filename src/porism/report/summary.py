"""A group in words: who is best at what, by how much, at what cost, and how far that can be trusted."""

from collections.abc import Sequence

from porism.report import numbers
from porism.report.baselines import against_baselines
from porism.report.comparison import Entry, RunGroup
from porism.report.seeds import SeedGroup, models_of


def summarise(group: RunGroup) -> str:
    """What the runs show, in a few sentences, and no more."""
    ranked = group.ranked
    models = models_of(group)
    if not models:
        return "No run has come to a final number yet; below is what there is so far."
    sentences = [_alone(group, models[0])] if len(models) == 1 else _compared(group, models)
    sentences += _against_published(group, ranked)
    sentences += against_baselines(group)
    sentences += _against_limit(group, ranked)
    sentences += _trust(group, models)
    if unranked := [entry.name for entry in group.entries if entry not in ranked]:
        sentences.append(f"Not ranked for want of a final number: {', '.join(unranked)}.")
    return " ".join(sentences)


def _alone(group: RunGroup, model: SeedGroup) -> str:
    record = model.entries[0].record
    text = f"{model.name} reaches a {group.split} {group.metric_name} of {numbers.score(model.mean)}"
    if len(model.entries) == 1 and record.metrics:
        text += f" after {numbers.count(record.metrics.epochs)} epochs"
        text += f" and {numbers.duration(record.metrics.seconds)} of training" if record.metrics.seconds else ""
        text += f" on {record.facts.device}" if record.facts.device else ""
    if model.parameters is not None:
        text += f", with {numbers.count(model.parameters)} parameters"
        text += f" and {numbers.amount(model.flops, 'FLOP')} forward per {group.unit}" if model.flops else ""
    return f"{text}."


def _compared(group: RunGroup, models: Sequence[SeedGroup]) -> list[str]:
    best, second = models[:2]
    lead = f"{numbers.gap(best.mean, second.mean)}"
    if second.mean:
        lead += f" ({numbers.percent(abs(best.mean - second.mean) / abs(second.mean))})"
    direction = "below" if group.lower_is_better else "above"
    sentences = [
        f"{best.name} is best of {len(models)} models: its {group.split} {group.metric_name} of "
        f"{numbers.score(best.mean)} is {lead} {direction} that of the next best, {second.name}."
    ]
    costs = [
        ratio
        for ratio in (
            _ratio(best.parameters, second.parameters, "parameters"),
            _ratio(best.flops, second.flops, f"forward FLOPs per {group.unit}"),
        )
        if ratio
    ]
    if costs:
        sentences.append(f"It has {' and '.join(costs)}.")
    ours, theirs = _epochs(best), _epochs(second)
    if ours and theirs and ours != theirs:
        sentences.append(
            f"Their training differs: {ours} epochs for {best.name}, {theirs} for {second.name}, so this is no "
            "comparison of the models alone."
        )
    sized = [(model.parameters, model) for model in models if model.parameters is not None]
    smallest = min(sized, key=lambda pair: pair[0])[1] if sized else best
    # The second has just been set beside the best, and sizes that tie make none of them the smallest.
    if smallest not in (best, second) and [size for size, _ in sized].count(smallest.parameters or 0) == 1:
        sentences.append(
            f"The smallest, {smallest.name}, comes to {numbers.score(smallest.mean)} "
            f"with {numbers.count(smallest.parameters)} parameters."
        )
    return sentences


def _epochs(model: SeedGroup) -> str | None:
    """How long its runs trained: "12", or "8 to 12"."""
    found = [entry.record.metrics.epochs for entry in model.entries if entry.record.metrics]
    epochs = [number for number in found if number is not None]
    if not epochs:
        return None
    least, most = numbers.count(min(epochs)), numbers.count(max(epochs))
    return least if least == most else f"{least} to {most}"


def _ratio(ours: float | None, theirs: float | None, what: str) -> str | None:
    if not ours or not theirs:
        return None
    if ours == theirs:
        return f"as many {what}"
    times = f"{ours / theirs:.2g}" if ours / theirs < 99.5 else numbers.count(ours / theirs)
    return f"about as many {what}" if times == "1" else f"{times} times the {what}"


def _against_published(group: RunGroup, ranked: Sequence[Entry]) -> list[str]:
    pairs = [
        (score, published)
        for entry in ranked
        if (score := group.score(entry)) is not None and (published := group.published(entry)) is not None
    ]
    if not pairs:
        return []
    if len(pairs) == 1 and len(ranked) == 1:
        score, published = pairs[0]
        side = "below" if score < published else "above"
        return [f"That is {numbers.gap(score, published)} {side} the published {numbers.score(published)}."]
    better = sum(score < published if group.lower_is_better else score > published for score, published in pairs)
    return [f"Published numbers bettered: {better} of {len(pairs)}."]


def _against_limit(group: RunGroup, ranked: Sequence[Entry]) -> list[str]:
    limits = {limit for entry in ranked if (limit := group.limit(entry)) is not None}
    return [f"The best that any model can expect on this data is {numbers.score(limit)}." for limit in sorted(limits)]


def _trust(group: RunGroup, models: Sequence[SeedGroup]) -> list[str]:
    """What a reader must know before relying on a difference."""
    sentences = []
    counts = [len(model.entries) for model in models]
    if max(counts) == 1:
        each = " each" if len(models) > 1 else ""
        sentences.append(f"One seed{each}: how much of this is chance cannot be concluded from it.")
    else:
        best = models[0]
        seeds = f"{min(counts)}" if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
        sentences.append(
            f"Means over {seeds} seeds; those of {best.name} run from "
            f"{numbers.score(min(best.scores))} to {numbers.score(max(best.scores))}."
        )
        if len(models) > 1:
            second = models[1]
            overlap = min(best.scores) <= max(second.scores) and min(second.scores) <= max(best.scores)
            verdict = "overlap with" if overlap else "do not overlap with"
            sentences.append(f"They {verdict} those of {second.name}.")
    if len({entry.record.facts.fingerprint for entry in group.entries}) > 1:
        sentences.append("The runs did not all see the data in the same form (fingerprints differ): compare with care.")
    return sentences
