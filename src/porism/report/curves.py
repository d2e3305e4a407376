"""The plots: how the runs learned, over epochs and over seconds, and what their quality costs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from porism.report import numbers
from porism.report.comparison import Entry, RunGroup
from porism.report.drawing import NORMAL, SMALL, Axes, Painter, Place, RunPart, draw, role, text_at
from porism.runs.record import Epoch, finite

CROWD = 3
"""More runs than this do not fit in one plot with both train and valid."""
SPLITS = ("valid", "train")
"""What is measured after every epoch."""


@dataclass(frozen=True)
class Plot:
    title: str
    svg: str


def plots(group: RunGroup, prefix: str) -> list[Plot]:
    """The main plots of a group. Every id in them starts with the prefix, so that several groups can share a page."""
    return _drawn(group, [*_learning(group), *_quality_against_cost(group)], prefix)


def other_plots(group: RunGroup, prefix: str) -> list[Plot]:
    """Small plots over epochs of every further metric that changes."""
    main = {group.metric, training_metric(group)}
    names = dict.fromkeys(
        name
        for split in SPLITS
        for entry in group.entries
        for epoch in entry.record.epochs
        for name in getattr(epoch, split)
    )
    changing = [name for name in names if name not in main and _changes(group, name)]
    return _drawn(group, [plot for name in changing for plot in _over(group, name, ["epochs"])], prefix, SMALL)


def _drawn(
    group: RunGroup, titled: Sequence[tuple[str, Painter]], prefix: str, size: tuple[float, float] = NORMAL
) -> list[Plot]:
    names = {entry.number: entry.name for entry in group.entries}
    return [
        Plot(title, draw(paint, title, f"{prefix}-{number}", names, size))
        for number, (title, paint) in enumerate(titled, 1)
    ]


def _learning(group: RunGroup) -> list[tuple[str, Painter]]:
    """The curves of the metric that counts, and of what training reports where that is another."""
    names = dict.fromkeys(name for name in (group.metric, training_metric(group)) if name)
    return [plot for name in names for plot in _over(group, name, ["epochs", "seconds"])]


def training_metric(group: RunGroup) -> str | None:
    """The metric that is known of training: the one that counts, or else its loss, whatever a task calls it."""
    names = dict.fromkeys(name for entry in group.entries for epoch in entry.record.epochs for name in epoch.train)
    return group.metric if group.metric in names else next(iter(names), None)


def _over(group: RunGroup, metric: str, axes: Sequence[str]) -> list[tuple[str, Painter]]:
    """One metric's curves, valid and train in one plot or apart."""
    splits = [split for split in SPLITS if any(_points(entry, split, metric) for entry in group.entries)]
    together = [splits] if len(group.entries) <= CROWD else [[split] for split in splits]
    return [
        (
            f"{' and '.join(shown).capitalize()} {numbers.metric_name(metric)} over {over}",
            _curves(group, shown, metric, over),
        )
        for shown in together
        if shown
        for over in axes
    ]


def share_plots(group: RunGroup) -> bool:
    """Whether train and valid stand in one plot, train dashed: the same metric, and few enough runs."""
    shared = any(set(epoch.train) & set(epoch.valid) for entry in group.entries for epoch in entry.record.epochs)
    return shared and len(group.entries) <= CROWD


def _changes(group: RunGroup, metric: str) -> bool:
    """Whether it differs from run to run, or from epoch to epoch: a line that is flat for all tells nothing."""
    values = [score for entry in group.entries for split in SPLITS for _, score in _points(entry, split, metric)]
    return len(values) > 0 and (len(values) == 1 or min(values) < max(values))


def _limits(group: RunGroup, split: str, metric: str) -> list[float]:
    """The best that is possible for the runs, where it is known."""
    found = (entry.record.metrics.limit.get(split, {}).get(metric) for entry in group.entries if entry.record.metrics)
    return sorted({limit for limit in map(finite, found) if limit is not None})


def _points(entry: Entry, split: str, metric: str) -> list[tuple[Epoch, float]]:
    """Each epoch with its number, where that is one."""
    scored = ((epoch, finite(getattr(epoch, split).get(metric))) for epoch in entry.record.epochs)
    return [(epoch, score) for epoch, score in scored if score is not None]


def _curves(group: RunGroup, splits: Sequence[str], metric: str, over: str) -> Painter:
    def place(entry: Entry, epoch: Epoch) -> float:
        return epoch.epoch if over == "epochs" else entry.record.seconds_until(epoch)

    def paint(axes: Axes) -> None:
        axes.x.label = "epoch" if over == "epochs" else "seconds of training"
        axes.x.is_whole = over == "epochs"
        axes.y.is_log = metric == "perplexity"
        for entry in group.entries:
            colour, best = role(entry.number), entry.record.best
            for split in splits:
                points = _points(entry, split, metric)
                beside, run = split == "train" and len(splits) > 1, RunPart(entry.number, split)
                at = [(place(entry, epoch), score) for epoch, score in points]
                if len(at) == 1:
                    # One epoch is a point, which a line does not show.
                    axes.dots(at, colour, run=run)
                else:
                    axes.line(at, colour, 1.2 if beside else 1.8, is_dashed=beside, run=run)
                for epoch, score in points:
                    if split == "valid" and epoch is best:
                        axes.circle(place(entry, epoch), score, colour)
        for limit in _limits(group, splits[0], metric):
            axes.across(limit, "limit")

    return paint


def _quality_against_cost(group: RunGroup) -> list[tuple[str, Painter]]:
    """A point a run against each cost, where there are two to compare."""
    found = {entry.number: entry.record.metrics for entry in group.ranked}
    costs: dict[str, dict[int, float]] = {
        "parameters": {n: metrics.parameters for n, metrics in found.items() if metrics and metrics.parameters},
        f"forward FLOPs per {group.unit}": {
            n: metrics.flops for n, metrics in found.items() if metrics and metrics.flops
        },
    }
    return [
        (f"{group.split.capitalize()} {group.metric_name} against {what}", _scatter(group, known, what))
        for what, known in costs.items()
        if len(known) > 1
    ]


def _scatter(group: RunGroup, costs: Mapping[int, float], what: str) -> Painter:
    scores = {entry.number: group.score(entry) for entry in group.ranked}

    def paint(axes: Axes) -> None:
        axes.x.label, axes.y.label = what, f"{group.split} {group.metric_name}"
        axes.x.margin = axes.y.margin = 0.12
        axes.x.is_log, axes.y.is_log = True, group.metric == "perplexity"
        points = {
            n: (costs[n], score)
            for n, score in scores.items()
            if n in costs and score is not None and axes.x.has(costs[n]) and axes.y.has(score)
        }
        for entry in group.ranked:
            if entry.number not in points:
                continue
            (x, score), published, colour = points[entry.number], group.published(entry), role(entry.number)
            if published is not None:
                axes.line([(x, score), (x, published)], colour, 0.8, opacity=0.6)
                axes.circle(x, published, colour)
            axes.dots([(x, score)], colour, 3.5, run=RunPart(entry.number, group.split))
        for limit in _limits(group, group.split, group.metric):
            axes.across(limit, "limit")
        if points:
            _widen_limits(axes, [score for _, score in points.values()], is_share=group.lower_is_better is False)
        axes.parts.append(lambda place: _numbers(place, points))

    return paint


def _widen_limits(axes: Axes, scores: Sequence[float], is_share: bool) -> None:
    """Keeps at least a tenth of the middle in view on either side, lest chance differences fill the plot."""
    middle = (min(scores) + max(scores)) / 2
    low, high = axes.y.range()
    low, high = min(low, middle - abs(middle) / 10), max(high, middle + abs(middle) / 10)
    if is_share and min(scores) >= 0 and max(scores) <= 1:
        # Room for the point itself, and no more: there is no accuracy above 1.
        high = min(high, 1 + (1 - low) / 20)
    axes.y.limits = low, high


def _numbers(place: Place, points: Mapping[int, tuple[float, float]]) -> str:
    """The number of each run beside its point, moved up where it would cover another."""
    taken: list[tuple[float, float]] = []
    texts = ""
    for number, (x, y) in sorted(((number, place(*point)) for number, point in points.items()), key=_lowest):
        height = min([y + 3.5, *(up - 9.5 for beside, up in taken if abs(beside - x) < 15)])
        taken.append((x, height))
        texts += text_at(f"{number}", (x + 7, height), size=9)
    return texts


def _lowest(placed: tuple[int, tuple[float, float]]) -> float:
    """From the bottom up, where a drawing counts down from the top."""
    return -placed[1][1]
