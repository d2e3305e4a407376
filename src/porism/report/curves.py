"""The plots: how the runs learned, over epochs and over seconds, and what their quality costs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from porism.report.comparison import Entry, RunGroup
from porism.report.drawing import INK, PAPER, Painter, adopt, draw, gid, plain_ticks, role
from porism.runs.record import Epoch, finite

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CROWD = 3
"""More runs than this do not fit in one plot with both train and valid."""


@dataclass(frozen=True)
class Plot:
    title: str
    svg: str


def plots(group: RunGroup, prefix: str) -> list[Plot]:
    """All plots of a group. Every id in them starts with the prefix, so that several groups can share a page."""
    names = {entry.number: entry.name for entry in group.entries}
    titled = [*_learning(group), *_quality_against_cost(group)]
    return [
        Plot(title, adopt(draw(paint), title, names, f"{prefix}-{number}"))
        for number, (title, paint) in enumerate(titled, 1)
    ]


def _learning(group: RunGroup) -> list[tuple[str, Painter]]:
    """The curves. Where training reports no metric, only its loss, that gets plots of its own."""
    if share_plots(group):
        kinds = [(group.metric, ["valid", "train"])]
    else:
        kinds = [(group.metric, ["valid"]), (group.metric if _measured(group) else "loss", ["train"])]
    return [
        (
            f"{' and '.join(splits).capitalize()} {metric.replace('_', ' ')} over {over}",
            _curves(group.entries, splits, metric, over),
        )
        for metric, splits in kinds
        if any(_points(entry, split, metric) for entry in group.entries for split in splits)
        for over in ("epochs", "seconds")
    ]


def share_plots(group: RunGroup) -> bool:
    """Whether train and valid stand in one plot, train dashed: the same metric, and few enough runs."""
    return _measured(group) and len(group.entries) <= CROWD


def _measured(group: RunGroup) -> bool:
    return any(group.metric in epoch.train for entry in group.entries for epoch in entry.record.epochs)


def _points(entry: Entry, split: str, metric: str) -> list[tuple[Epoch, float]]:
    """Each epoch with its number, where that is one."""
    scored = ((epoch, finite(getattr(epoch, split).get(metric))) for epoch in entry.record.epochs)
    return [(epoch, score) for epoch, score in scored if score is not None]


def _curves(entries: Sequence[Entry], splits: Sequence[str], metric: str, over: str) -> Painter:
    def place(entry: Entry, epoch: Epoch) -> float:
        return epoch.epoch if over == "epochs" else entry.record.seconds_until(epoch)

    def paint(axes: "Axes") -> None:
        from matplotlib.ticker import MaxNLocator

        for entry in entries:
            colour, best = role(entry.number), entry.record.best
            for split in splits:
                points = _points(entry, split, metric)
                beside = split == "train" and len(splits) > 1
                axes.plot(
                    [place(entry, epoch) for epoch, _ in points],
                    [score for _, score in points],
                    color=colour,
                    linewidth=1.2 if beside else 1.8,
                    linestyle="--" if beside else "-",
                    # One epoch is a point, which a line does not show.
                    marker="o" if len(points) == 1 else "",
                    gid=gid(entry.number, split),
                )
                for epoch, score in points:
                    if split == "valid" and epoch is best:
                        axes.plot(place(entry, epoch), score, "o", markerfacecolor=PAPER, markeredgecolor=colour)
        axes.set_xlabel("epoch" if over == "epochs" else "seconds of training")
        axes.set_ylabel(metric.replace("_", " "))
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=over == "epochs"))
        if metric == "perplexity":
            axes.set_yscale("log")
            plain_ticks(axes.yaxis)

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
    points = {n: (costs[n], score) for n, score in scores.items() if n in costs and score is not None}

    def paint(axes: "Axes") -> None:
        for entry in group.ranked:
            if entry.number not in points:
                continue
            (x, score), published, colour = points[entry.number], group.published(entry), role(entry.number)
            if published is not None:
                axes.plot([x, x], [score, published], color=colour, linewidth=0.8, alpha=0.6)
                axes.plot(x, published, "o", markerfacecolor=PAPER, markeredgecolor=colour)
            axes.plot(x, score, "o", markersize=7, color=colour, gid=gid(entry.number, group.split))
        for limit in sorted({limit for entry in group.entries if (limit := group.limit(entry)) is not None}):
            axes.axhline(limit, color=INK, linewidth=0.8, linestyle=":")
            axes.text(0.01, limit, "limit", transform=axes.get_yaxis_transform(), fontsize=9, va="bottom")
        axes.margins(0.12)
        axes.set_xlabel(what)
        axes.set_ylabel(f"{group.split} {group.metric_name}")
        axes.set_xscale("log")
        plain_ticks(axes.xaxis)
        if group.metric == "perplexity":
            axes.set_yscale("log")
            plain_ticks(axes.yaxis)
        _widen_limits(axes, [score for _, score in points.values()])
        _number(axes, points)

    return paint


def _widen_limits(axes: "Axes", scores: Sequence[float]) -> None:
    """Keeps at least a tenth of the middle in view on either side, lest chance differences fill the plot."""
    middle = (min(scores) + max(scores)) / 2
    low, high = axes.get_ylim()
    axes.set_ylim(min(low, middle - abs(middle) / 10), max(high, middle + abs(middle) / 10))


def _number(axes: "Axes", points: Mapping[int, tuple[float, float]]) -> None:
    """The number of each run beside its point, moved up where it would cover another."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    # The layout is settled by drawing, and only then is it known where a point lies.
    figure.draw_without_rendering()
    dot = 72 / figure.dpi
    taken: list[tuple[float, float]] = []
    for number, point in sorted(points.items(), key=lambda item: axes.transData.transform(item[1])[1]):
        x, y = axes.transData.transform(point) * dot
        height = max([y, *(up + 9.5 for beside, up in taken if abs(beside - x) < 15)])
        taken.append((x, height))
        axes.annotate(f"{number}", point, (7, height - y - 3.5), textcoords="offset points", fontsize=9)
