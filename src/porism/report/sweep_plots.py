"""The plots of a sweep: its trials in parallel coordinates, and how much each field matters."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from porism.report.curves import Plot
from porism.report.drawing import INK, NORMAL, Axes, draw, role
from porism.runs.sweep import SweepRecord

DECADE = 10
"""Numbers that span at least this factor are drawn on a log scale."""
MOST_TICKS = 6
APART = 0.08
"""Of the height of an axis: two labels that are nearer overlap."""
COLUMN = 108.0
"""The width that an axis takes with its labels."""
CHOSEN = 1
"""The colour of the chosen trial, by its place in the palette."""


class ParallelAxis(NamedTuple):
    """One vertical axis: where each trial's line crosses it, from 0 to 1, and what is written beside it."""

    name: str
    heights: list[float]
    ticks: list[tuple[float, str]]


def plots(record: SweepRecord) -> list[Plot]:
    """Those that can be drawn of what is done."""
    found = []
    if len(record.ranked) > 1:
        title = f"Trials in parallel coordinates, by {record.metric_name} on valid"
        size = max(NORMAL[0], COLUMN * (len(record.choices) + 1)), NORMAL[1]
        found.append(Plot(title, draw(lambda axes: _parallel(axes, record), title, "parallel", size=size)))
    if record.importances:
        title = f"Importance of each field for {record.metric_name} on valid"
        found.append(Plot(title, draw(lambda axes: _importances(axes, record), title, "importance")))
    return found


def columns(record: SweepRecord) -> list[ParallelAxis]:
    """The axes of the parallel coordinates: one a field, then the metric."""
    done = record.ranked
    values = [_column(name, [trial.setting.get(name) for trial in done]) for name in record.choices]
    return [*values, _column(f"valid {record.metric_name}", [trial.value for trial in done])]


def _column(name: str, values: Sequence[Any]) -> ParallelAxis:
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return _numbers(name, values)
    kinds = sorted({_label(value) for value in values})
    levels = {kind: number / max(1, len(kinds) - 1) for number, kind in enumerate(kinds)}
    shown = [(height, kind) for kind, height in levels.items()] if len(kinds) <= 2 * MOST_TICKS else []
    return ParallelAxis(name, [levels[_label(value)] for value in values], shown)


def _numbers(name: str, values: Sequence[float]) -> ParallelAxis:
    low, high = min(values), max(values)
    scaled = math.log if low > 0 and high >= DECADE * low else float
    span = scaled(high) - scaled(low)
    heights = [(scaled(value) - scaled(low)) / span if span else 0.5 for value in values]
    distinct = sorted(dict(zip(heights, values, strict=True)).items())
    return ParallelAxis(name, heights, [(height, _label(value)) for height, value in _apart(distinct)])


def _apart(distinct: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Of heights with their values the lowest, the highest, and between them those whose labels do not overlap."""
    first, *between, last = distinct if len(distinct) > 1 else distinct * 2
    shown = [first]
    for one in between if len(distinct) <= MOST_TICKS else []:
        if min(one[0] - shown[-1][0], last[0] - one[0]) >= APART:
            shown.append(one)
    return [*shown, last] if last != first else shown


def _label(value: Any) -> str:
    return "none" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def _parallel(axes: Axes, record: SweepRecord) -> None:
    shown, done = columns(record), record.ranked
    axes.has_grid = axes.y.is_shown = False
    axes.x.named_ticks = [(position, column.name) for position, column in enumerate(shown)]
    axes.x.limits, axes.y.limits = (-0.4, len(shown) - 1 + 0.4), (-0.06, 1.06)
    for number in reversed(range(len(done))):
        # The better, the darker; the chosen one has a colour.
        opacity = 1.0 if number == 0 else 0.7 - 0.55 * number / len(done)
        colour, width = (role(CHOSEN), 2.2) if number == 0 else (INK, 1.0)
        points = [(position, column.heights[number]) for position, column in enumerate(shown)]
        axes.line(points, colour, width, opacity=opacity)
    for position, column in enumerate(shown):
        axes.upright(position)
        for height, text in column.ticks:
            axes.text(text, (position, height), (4, 3), size=8)


def _importances(axes: Axes, record: SweepRecord) -> None:
    ranked = sorted((record.importances or {}).items(), key=lambda pair: pair[1])
    axes.x.label = "share of the variance over trials"
    axes.x.limits, axes.y.limits = (0, 1), (-0.6, len(ranked) - 0.4)
    axes.y.named_ticks = [(position, name) for position, (name, _) in enumerate(ranked)]
    axes.bars([((0, at - 0.4), (value, at + 0.4)) for at, (_, value) in enumerate(ranked)], role(CHOSEN))
