"""What the terminal shows of some runs: their tables and what may be concluded."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from porism.runs.record import RunRecord
    from porism.training.experiment import Experiment


def tell_runs(records: "Sequence[RunRecord]", experiment: "Experiment | None", console: "Console") -> None:
    """One row a run, or one a model where there are many runs of each, and the headline of the report."""
    from porism.cli.output import tell
    from porism.report.baselines import baselines_line
    from porism.report.comparison import entries_of, group_runs
    from porism.report.experiment import answer
    from porism.report.seeds import has_seeds, seeds_table
    from porism.report.summary import summarise
    from porism.report.table import costs_table, table

    groups = group_runs(entries_of(records))
    if has_seeds(groups):
        for group in groups:
            console.print(seeds_table(group))
            if line := baselines_line(group):
                tell(console, line)
    else:
        console.print(table(records, console.width))
        if costs := costs_table(records):
            console.print(costs)
    if experiment is not None:
        tell(console, experiment.about, style="bold")
        for sentence in answer(experiment, records).sentences:
            tell(console, sentence)
    else:
        for group in groups:
            tell(console, summarise(group, baselines=False))
