"""From runs to tables, plots and one HTML file."""

from porism.report.costs import costs_table
from porism.report.page import write_report
from porism.report.runs import RunRecord, read_run
from porism.report.table import table

__all__ = ["RunRecord", "costs_table", "read_run", "table", "write_report"]
