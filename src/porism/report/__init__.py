"""From runs to tables, plots and one HTML file."""

from porism.report.answer import answer
from porism.report.contest import contests, entries_of
from porism.report.costs import costs_table
from porism.report.models import has_seeds, seeds_table
from porism.report.page import write_report
from porism.report.table import table
from porism.runs.record import RunRecord, read_run

__all__ = [
    "RunRecord",
    "answer",
    "contests",
    "costs_table",
    "entries_of",
    "has_seeds",
    "read_run",
    "seeds_table",
    "table",
    "write_report",
]
