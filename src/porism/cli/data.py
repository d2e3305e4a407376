"""porism data: the data sets porism knows, and where they lie."""

from dataclasses import dataclass
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from porism.cli.options import Json, optional
from porism.errors import DataError


@dataclass(kw_only=True)
class DataCommand:
    """List the data sets that --data knows by name, fetch one, or say where it lies.

    $ porism data list
    $ porism data fetch wikitext-2
    $ porism data path ptb
    """

    action: Annotated[Positional[Literal["list", "fetch", "path"]], arg(metavar="list|fetch|path")] = "list"
    """What to do."""
    name: Annotated[Positional[str | None], optional("NAME", str)] = None
    """A data set's name."""
    json: Json = False
    """Print the result as one JSON line on standard output, all else on standard error."""

    def run(self) -> int:
        from rich.table import Table

        from porism.cli.output import console_for, print_json, tell
        from porism.errors import nearest
        from porism.tasks import TASKS, catalogue
        from porism.tasks.blocks.download import fetch

        console = console_for(self.json)
        known = {(task, name): data for task in TASKS for name, data in catalogue(task).items()}
        if self.action == "list":
            shown = Table("name", "task", "what", "licence", "here")
            for (task, name), data in known.items():
                shown.add_row(name, task, data.about, data.licence, "yes" if data.here() else "no")
            console.print(shown)
            rows = [
                {"name": name, "task": task, "about": data.about, "licence": data.licence, "here": data.here()}
                for (task, name), data in known.items()
            ]
            if self.json:
                print_json({"data": rows})
            return 0
        if self.name is None:
            raise DataError(f"which data? Write porism data {self.action} NAME, with a name from porism data list.")
        found = [data for (_, name), data in known.items() if name == self.name]
        if not found:
            names = dict.fromkeys(name for _, name in known)  # two tasks may call theirs alike
            raise DataError(f"there is no data set {self.name!r}. {nearest(self.name, list(names))}")
        if not found[0].files:
            raise DataError(f"{self.name} is embedded: it comes with Python or is made by porism, and has no file.")
        if self.action == "fetch":
            for file in found[0].files.values():
                tell(console, str(fetch(file)))
        path = str(found[0].folder())
        if self.action == "path":
            tell(console, path)
        if self.json:
            print_json({"name": self.name, "path": path, "here": found[0].here()})
        return 0
