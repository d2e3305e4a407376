"""Runs and comparisons as a notebook shows them: a table, a curve, the command."""

import html
from collections.abc import Mapping, Sequence

from porism.runs.record import RunRecord, finite

WIDTH, HEIGHT, MARGIN = 320, 120, 6


def run_html(title: str, metrics: Mapping[str, Mapping[str, float]], record: RunRecord, command: str) -> str:
    """Metrics by split, the curve of the first metric on valid, and what repeats the run."""
    names = list(dict.fromkeys(name for of_split in metrics.values() for name in of_split))
    head = "".join(f"<th>{html.escape(name.replace('_', ' '))}</th>" for name in names)
    rows = "".join(
        f"<tr><th>{html.escape(split)}</th>"
        + "".join(f"<td>{of_split[name]:.4g}</td>" if name in of_split else "<td></td>" for name in names)
        + "</tr>"
        for split, of_split in metrics.items()
    )
    table = f"<table><tr><th></th>{head}</tr>{rows}</table>" if metrics else ""
    return f"<div><strong>{title}</strong>{table}{_curves(record)}<pre>{html.escape(command)}</pre></div>"


def rows_html(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], below: Sequence[str] = ()) -> str:
    """A table with a title, and sentences below it."""
    head = "".join(f"<th>{html.escape(column)}</th>" for column in columns)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    sentences = "".join(f"<p>{html.escape(sentence)}</p>" for sentence in below)
    return f"<div><strong>{html.escape(title)}</strong><table><tr>{head}</tr>{body}</table>{sentences}</div>"


def _curves(record: RunRecord) -> str:
    """The first metric of valid over epochs, as SVG; nothing for less than two points."""
    name = next((metric for epoch in record.epochs for metric in epoch.valid), None)
    if name is None:
        return ""
    points = [(epoch.epoch, value) for epoch in record.epochs if (value := finite(epoch.valid.get(name))) is not None]
    if len(points) < 2:
        return ""
    (first, _), (last, _) = points[0], points[-1]
    low, high = min(value for _, value in points), max(value for _, value in points)

    def place(epoch: int, value: float) -> str:
        x = MARGIN + (epoch - first) / (last - first) * (WIDTH - 2 * MARGIN)
        y = HEIGHT - MARGIN - (value - low) / ((high - low) or 1) * (HEIGHT - 2 * MARGIN)
        return f"{x:.1f},{y:.1f}"

    line = " ".join(place(epoch, value) for epoch, value in points)
    label = f"{name.replace('_', ' ')} on valid, epochs {first} to {last}: {points[0][1]:.4g} to {points[-1][1]:.4g}"
    return (
        f'<svg width="{WIDTH}" height="{HEIGHT}" role="img" aria-label="{html.escape(label)}">'
        f'<polyline points="{line}" fill="none" stroke="currentColor" stroke-width="1.5"/></svg>'
        f"<p>{html.escape(label)}</p>"
    )
