"""porism report: one HTML page from runs, or from the folder of a comparison."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

from tyro.conf import Positional, arg

from porism.cli.options import Json, optional
from porism.errors import Advice, RunError

if TYPE_CHECKING:
    from porism.training.experiment import Experiment


@dataclass(kw_only=True)
class ReportCommand:
    """Write one HTML page with the table, the curves, the costs and the samples of one or more runs.

    $ porism report runs/language-elman
    $ porism report runs/language-compare                the comparison in that folder
    $ porism report runs/language-elman runs/language-lstm --out comparison.html
    """

    folders: Annotated[Positional[list[Path]], arg(metavar="RUN...|COMPARISON")]
    """The folders that porism train or porism compare printed; one of a comparison stands for its runs."""
    out: Annotated[Path | None, optional("FILE", Path)] = None
    """The page. Left out: report.html in the folder, or in this one for several."""
    json: Json = False
    """Print the result as one JSON line on standard output, all else on standard error."""

    def run(self) -> int:
        from porism.cli.output import console_for, print_json, tell
        from porism.cli.tables import tell_runs
        from porism.report.page import write_report
        from porism.runs.record import read_run

        if not self.folders:
            raise RunError("which runs? Give one or more folders that porism train printed.")
        console = console_for(self.json)
        found = [reported(folder) for folder in self.folders]
        for note in (note for one in found for note in one.notes):
            tell(console, f"note: {note}")
        # A conclusion and a command are those of one comparison.
        only = found[0] if len(found) == 1 else Reported([run for one in found for run in one.runs])
        alone = self.folders[0] if len(self.folders) == 1 else Path()
        target = self.out or alone / "report.html"
        path = write_report(only.runs, target, command=only.command, experiment=only.experiment)
        tell_runs([read_run(run) for run in dict.fromkeys(only.runs)], only.experiment, console)
        tell(console, f"report: {path}")
        if self.json:
            print_json({"runs": [str(run) for run in only.runs], "report": str(path)})
        return 0


class Reported(NamedTuple):
    """What a folder stands for on the page."""

    runs: list[Path]
    experiment: "Experiment | None" = None
    command: str | None = None
    notes: Sequence[str] = ()


def reported(folder: Path) -> Reported:
    """A run, or the runs of the comparison in a folder: as it was recorded, else those that lie there, oldest first."""
    from porism.runs.comparison import read_comparison
    from porism.runs.record import read_run
    from porism.runs.run import RECIPE, runs_in
    from porism.tasks import find

    if (folder / RECIPE).is_file():
        return Reported([folder])
    record = read_comparison(folder)
    inside = runs_in(folder)
    if record is None:
        if not inside and folder.is_dir():
            raise _no_runs(folder)
        # Without a run inside, reading the folder itself says what is wrong with it.
        return Reported(sorted(inside, key=lambda run: read_run(run).started or 0.0) or [folder])
    runs = [folder / name for name in record.runs]
    there = [run for run in runs if (run / RECIPE).is_file()]
    if not there:
        raise RunError(f"none of the runs of the comparison in {folder} is there any more: {runs[0]} and so on.")
    notes = [f"{run} is no longer there and is left out" for run in runs if run not in there]
    notes += [f"{run} is not of this comparison and is left out" for run in inside if run not in runs]
    experiments = find(record.task).experiments
    return Reported(there, experiments.get(record.experiment or ""), record.command, notes)


def _no_runs(folder: Path) -> RunError:
    """What to tell of a folder without runs: where in it they are, if anywhere."""
    from porism.cli.runs import run_folders
    from porism.runs.run import RECIPE

    deeper = list(dict.fromkeys(run.parent for run in run_folders(folder)))
    if not deeper:
        made = Advice("Give a folder that porism train or porism compare printed.", "Give the path of a run.")
        return RunError(f"{folder} has no {RECIPE}, and no run lies in it.", made)
    names = ", ".join(str(path.relative_to(folder)) for path in deeper[:5]) + (", ..." if len(deeper) > 5 else "")
    command = f"porism report {shlex.quote(str(deeper[0]))}"
    return RunError(f"{folder} holds no run itself; runs are in {names}. Give one of these: {command}")
