"""What each model costs, for a terminal: the formula, the number it comes to, and the time that was measured."""

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from porism.report import numbers
from porism.report.contest import contests, entries_of
from porism.runs.record import Metrics, RunRecord


def costs_table(records: Sequence[RunRecord]) -> Table | None:
    """A row a model; None where no run has finished.

    >>> rich.print(costs_table([read_run(Path("runs/elman")), read_run(Path("runs/lstm"))]))
    """
    rows = [
        (entry, contest, entry.record.metrics)
        for contest in contests(entries_of(records))
        for entry in contest.entries
        if entry.record.metrics and entry.record.metrics.cost
    ]
    if not rows:
        return None
    made = Table("model", "forward FLOPs, for B rows of T", box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
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
    return made


def _formula(metrics: Metrics) -> str:
    flops = metrics.cost.get("flops")
    return flops.formula + flops.remark if flops else numbers.MISSING
