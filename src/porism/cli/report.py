"""porism report: one HTML page from runs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from porism.cli.options import Json, optional
from porism.errors import RunError


@dataclass(kw_only=True)
class ReportCommand:
    """Write one HTML page with the table, the curves, the costs and the samples of one or more runs.

    $ porism report runs/language-elman
    $ porism report runs/language-elman runs/language-lstm --out comparison.html
    """

    folders: Annotated[Positional[list[Path]], arg(metavar="RUN...")]
    """The folders that porism train printed."""
    out: Annotated[Path | None, optional("FILE", Path)] = None
    """The page. Left out: report.html in the run's folder, or in this one for several runs."""
    json: Json = False
    """Print the result as one JSON line on standard output, all else on standard error."""

    def run(self) -> int:
        from porism.cli.output import console_for, print_json, tell
        from porism.report.page import write_report
        from porism.report.table import table
        from porism.runs.record import read_run

        if not self.folders:
            raise RunError("which runs? Give one or more folders that porism train printed.")
        console = console_for(self.json)
        alone = self.folders[0] if len(self.folders) == 1 else Path()
        path = write_report(self.folders, self.out or alone / "report.html")
        console.print(table([read_run(folder) for folder in self.folders], console.width))
        tell(console, f"report: {path}")
        if self.json:
            print_json({"runs": [str(folder) for folder in self.folders], "report": str(path)})
        return 0
