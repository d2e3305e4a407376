"""The table of runs: one set of columns for the terminal and for the page."""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from porism.report import numbers
from porism.report.baselines import baselines_line
from porism.report.comparison import Entry, RunGroup, entries_of, group_runs, notes_of, splits_of
from porism.runs.record import Metrics, RunRecord


@dataclass(frozen=True)
class TableCell:
    """The text, the number it shows, and whether it is the best of its column."""

    text: str
    value: float | None = None
    best: bool = False


CellOf = Callable[[Entry, RunGroup], TableCell]


@dataclass(frozen=True)
class Column:
    """`rank` says how soon a column gives way in a narrow terminal, the highest first; those of rank 0 stay."""

    title: str
    cells: tuple[TableCell, ...]
    numeric: bool = True
    rank: int = 0


def columns(entries: Sequence[Entry]) -> list[Column]:
    """The columns that hold anything for these runs; one cell an entry, in their order."""
    group_of = {entry.number: group for group in group_runs(entries) for entry in group.entries}
    home = [group_of[entry.number] for entry in entries]
    tasks, sources = {group.task for group in home}, {group.source for group in home}
    metrics, units = {group.metric_name for group in home}, {group.unit for group in home}
    unit = min(units) if len(units) == 1 else "example"

    def column(title: str, cell: CellOf, numeric: bool = True, rank: int = 0) -> Column:
        cells = tuple(cell(entry, group) for entry, group in zip(entries, home, strict=True))
        return Column(title, cells, numeric, rank)

    made = [column("model", lambda entry, _: TableCell(entry.name), numeric=False)]
    if len(tasks) > 1:
        made.append(column("task", lambda _, group: TableCell(group.task), numeric=False))
    if len(sources) > 1:
        made.append(column("data", lambda _, group: TableCell(group.source or "embedded data"), numeric=False))
    made += [
        column("parameters", _measured(lambda found: found.parameters, numbers.count), rank=2),
        column(f"forward\nper {unit}", _measured(lambda found: found.flops, _flop_text), rank=4),
        column("epochs", _epochs, rank=5),
        column("training\ntime", _seconds, rank=3),
        column(f"{unit}s/s", _measured(lambda found: found.rate, numbers.count), rank=7),
    ]
    if len(metrics) > 1:
        made.append(column("metric", lambda _, group: TableCell(group.metric_name), numeric=False))
    made += [column(split, _score_on(split)) for split in splits_of(entry.record for entry in entries)]
    made += [
        column("bits\nper byte", _bits_per_byte, rank=10),
        column("published", lambda entry, group: _score(group.published(entry)), rank=1),
        column("difference", _apart(RunGroup.published), rank=6),
        column("limit", lambda entry, group: _score(group.limit(entry)), rank=8),
        column("from the\nlimit", _apart(RunGroup.limit), rank=9),
    ]
    return [kept for kept in made if any(cell.text != numbers.MISSING for cell in kept.cells)]


def judged_by(entries: Sequence[Entry]) -> str:
    """What the numbers under the splits are, and which way is up."""
    titles = [
        group.metric_name + {True: ", lower is better", False: ", higher is better", None: ""}[group.lower_is_better]
        for group in group_runs(entries)
    ]
    return numbers.sentence("; ".join(dict.fromkeys(titles)))


def table(records: Sequence[RunRecord], width: int | None = None) -> Table:
    """The table for a terminal, with as many columns as fit into its width.

    >>> rich.print(table([read_run(Path("runs/table-02")), read_run(Path("runs/table-12"))]))
    """
    entries = entries_of(records)
    room = width or shutil.get_terminal_size().columns
    shown, left_out = columns(entries), list[str]()
    paper = Console(width=10_000)
    while paper.measure(made := _lay_out(shown, entries)).maximum > room:
        last = max(shown, key=lambda column: column.rank)
        if not last.rank:
            break
        shown.remove(last)
        left_out.append(last.title.replace("\n", " "))
    notes = [f"No room for: {', '.join(left_out)}. The report has them."] if left_out else []
    notes += [line for group in group_runs(entries) if (line := baselines_line(group))]
    made.caption = escape("\n".join(notes)) or None
    return made


def _lay_out(shown: Sequence[Column], entries: Sequence[Entry]) -> Table:
    made = Table(title=escape(judged_by(entries)), box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    made.title_justify = made.caption_justify = "left"
    for column in shown:
        made.add_column(column.title, justify="right" if column.numeric else "left", no_wrap=column.numeric)
    for row, entry in enumerate(entries):
        cells = [column.cells[row] for column in shown]
        texts = [f"[bold]{escape(cell.text)}[/bold]" if cell.best else escape(cell.text) for cell in cells]
        if not entry.record.finished:
            texts[0] += " [dim](unfinished)[/dim]"
        made.add_row(*texts)
    return made


def _measured(pick: Callable[[Metrics], float | None], text: Callable[[float | None], str]) -> CellOf:
    def cell(entry: Entry, _: RunGroup) -> TableCell:
        value = pick(entry.record.metrics) if entry.record.metrics else None
        return TableCell(text(value), value)

    return cell


def _flop_text(value: float | None) -> str:
    return numbers.amount(value, "FLOP")


def _epochs(entry: Entry, _: RunGroup) -> TableCell:
    record = entry.record
    value = record.metrics.epochs if record.metrics and record.metrics.epochs is not None else record.epoch
    return TableCell(numbers.count(value), value)


def _seconds(entry: Entry, _: RunGroup) -> TableCell:
    record = entry.record
    value = record.metrics.seconds if record.metrics else sum(epoch.seconds for epoch in record.epochs)
    return TableCell(numbers.duration(value), value)


def _score(value: float | None, best: bool = False) -> TableCell:
    return TableCell(numbers.score(value), value, best)


def _score_on(split: str) -> CellOf:
    def cell(entry: Entry, group: RunGroup) -> TableCell:
        value = entry.record.score(split, group.metric)
        rivals = [other.record.score(split, group.metric) for other in group.entries if other.record.finished]
        known = [rival for rival in rivals if rival is not None]
        best = len(known) > 1 and entry.record.finished and value == (min if group.lower_is_better else max)(known)
        return _score(value, best)

    return cell


def _bits_per_byte(entry: Entry, group: RunGroup) -> TableCell:
    """Of a language model: unlike perplexity, comparable between vocabularies."""
    return _score(None if group.metric == "bits_per_byte" else entry.record.score(group.split, "bits_per_byte"))


def _apart(reference_of: Callable[[RunGroup, Entry], float | None]) -> CellOf:
    def cell(entry: Entry, group: RunGroup) -> TableCell:
        value, reference = group.score(entry), reference_of(group, entry)
        if value is None or reference is None:
            return TableCell(numbers.MISSING)
        return TableCell(numbers.difference(value, reference), value - reference)

    return cell


def costs_table(records: Sequence[RunRecord]) -> Table | None:
    """A row a model; None where no run has finished.

    >>> rich.print(costs_table([read_run(Path("runs/elman")), read_run(Path("runs/lstm"))]))
    """
    rows = [
        (entry, group, entry.record.metrics)
        for group in group_runs(entries_of(records))
        for entry in group.entries
        if entry.record.metrics and entry.record.metrics.cost
    ]
    if not rows:
        return None
    made = Table("model", "forward FLOPs of a pass", box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    unit = rows[0][1].unit
    for title in (f"forward\nper {unit}", f"with backward\nper {unit}", f"measured\nper {unit}", "speed"):
        made.add_column(title, justify="right", no_wrap=True)
    for entry, _, metrics in rows:
        made.add_row(
            escape(entry.name),
            _formula(metrics),
            numbers.amount(metrics.flops, "FLOP"),
            numbers.amount(metrics.training_flops, "FLOP"),
            numbers.brief(metrics.seconds_per_unit),
            numbers.amount(metrics.flops_per_second, "FLOP/s"),
        )
    notes = notes_of((entry.model, metrics.cost_notes) for entry, _, metrics in rows)
    made.caption, made.caption_justify = escape("\n".join(notes)) or None, "left"
    return made


def _formula(metrics: Metrics) -> str:
    flops = metrics.cost.get("flops")
    return flops.formula + flops.remark if flops else numbers.MISSING
