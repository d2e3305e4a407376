"""The report of some runs: what came of them, what they cost, what they have to show."""

from collections.abc import Sequence
from pathlib import Path

from porism.errors import RunError
from porism.report import sections
from porism.report.baselines import against_baselines, baseline_notes
from porism.report.comparison import entries_of, group_runs
from porism.report.curves import CROWD
from porism.report.document import refuse_foreign, write
from porism.report.exhibits import exhibits
from porism.report.experiment import answer, answer_table, sentences
from porism.report.seeds import has_seeds, representatives, seeds_of, seeds_text, trusted
from porism.report.summary import summary_sentences
from porism.report.table import columns, judged_by
from porism.report.templates import render
from porism.runs.record import RunRecord, read_run
from porism.training.experiment import Experiment


def write_report(
    runs: Sequence[Path],
    to: Path,
    title: str | None = None,
    command: str | None = None,
    experiment: Experiment | None = None,
) -> Path:
    """The report of some runs, written to a file; with the conclusion of the experiment they belong to, if any.

    >>> write_report([Path("runs/table-02"), Path("runs/table-12")], Path("report.html"))
    PosixPath('report.html')
    """
    if not runs:
        raise RunError("no run to report on; expected at least one folder. Name one that a training wrote.")
    refuse_foreign(to)
    text = page([read_run(run) for run in dict.fromkeys(runs)], title, command, experiment)
    return write(text, to)


def page(
    records: Sequence[RunRecord],
    title: str | None = None,
    command: str | None = None,
    experiment: Experiment | None = None,
) -> str:
    """The whole document. The same records give the same text, byte for byte."""
    entries = entries_of(records)
    groups = group_runs(entries)
    tasks = " and ".join(dict.fromkeys(group.task for group in groups)).capitalize()
    about = entries[0].name if len(entries) == 1 else f"{len(entries)} runs compared"
    about = experiment.name if experiment else about
    with_seeds = has_seeds(groups)
    # Where runs are many, one of each model stands for all.
    shown_groups = [representatives(group) for group in groups] if with_seeds else groups
    shown = [entry for group in shown_groups for entry in group.entries]
    return render(
        "page.html",
        title=title or f"{tasks}: {about}",
        command=command,
        groups=groups,
        entries=entries,
        shown=shown,
        conclusion=answer(experiment, records) if experiment else None,
        seeds=[seeds_of(group) for group in groups] if with_seeds else [],
        columns=columns(entries),
        figures=[sections.figure(group, f"plot{number}") for number, group in enumerate(shown_groups, 1)],
        published=sections.published(shown_groups),
        baselines=sections.baselines(groups, shown_groups),
        all_metrics=sections.all_metrics(shown_groups),
        costs=sections.costs(shown_groups),
        cost_notes=sections.cost_notes(shown_groups),
        letters=sections.letters_used(shown_groups),
        exhibits=exhibits(shown),
        samples=sections.samples(shown),
        recipes=sections.recipes(shown),
        CROWD=CROWD,
        against_baselines=against_baselines,
        answer_table=answer_table,
        baseline_notes=baseline_notes,
        contest_sentences=sentences,
        cost_title=sections.cost_title,
        cost_sizes=sections.cost_sizes,
        judged_by=judged_by,
        seeds_text=seeds_text,
        shared_facts=sections.shared_facts,
        story=sections.story,
        summary_sentences=summary_sentences,
        trusted=trusted,
    )
