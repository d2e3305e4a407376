"""The report of some runs: what came of them, what they cost, what they have to show."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from porism.errors import RunError
from porism.report import sections
from porism.report.comparison import contests, entries_of
from porism.report.document import document, refuse_foreign, write
from porism.report.exhibits import exhibits
from porism.report.experiment import answer, answered
from porism.report.seeds import has_seeds, representatives, seeds
from porism.report.summary import summarise
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
        raise RunError("no run to report on; expected at least one folder. Name one that `porism train` wrote.")
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
    rounds = contests(entries)
    several = len(rounds) > 1
    tasks = " and ".join(dict.fromkeys(contest.task for contest in rounds)).capitalize()
    about = entries[0].name if len(entries) == 1 else f"{len(entries)} runs compared"
    name = escape(title or f"{tasks}: {about}")
    body = [f"<header><h1>{name}</h1>"]
    for contest in rounds:
        body.append(sections.summary(summarise(contest), contest.place if several else None))
        body.append(sections.shared_facts(contest.entries))
    body += ["</header>", answered(answer(experiment, records)) if experiment else ""]
    shown_groups = rounds
    if has_seeds(rounds):
        shown_groups = [representatives(contest) for contest in rounds]
        body += [seeds(rounds), sections.one_of_each(len(entries))]
    else:
        body.append(sections.results(entries))
    shown = [entry for contest in shown_groups for entry in contest.entries]
    body += [sections.figures(contest, f"plot{number}", several) for number, contest in enumerate(shown_groups, 1)]
    body += [
        sections.published(shown_groups),
        sections.costs(shown_groups),
        exhibits(shown),
        sections.samples(shown),
        sections.recipes(shown),
        sections.histories(shown),
        sections.made_by(command) if command else "",
    ]
    content = "\n".join(part for part in body if part)
    return document(name, content)
