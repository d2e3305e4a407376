"""One HTML file that holds everything: no other file, no network, no script."""

from importlib.resources import files
from pathlib import Path

from porism.errors import RunError
from porism.files import own_temporary

OPENING = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>"""
"""How every page begins, by which one of ours is recognised."""


def document(title: str, content: str, *styles: str) -> str:
    """The whole document, from markup that is escaped already; `styles` are style sheets beside the page's own."""
    sheets = "".join(_sheet(name) for name in ("page.css", *styles))
    return f"""{OPENING}{title}</title>
<style>
{sheets}</style>
</head>
<body>
<main>
{content}
</main>
</body>
</html>
"""


def write(text: str, to: Path) -> Path:
    """Under another name first: a reader finds the old file or the whole new one."""
    if to.is_dir():
        raise RunError(f"{to} is a folder; expected a file to write the report to. Choose {to / 'report.html'}.")
    writing = own_temporary(to)
    try:
        to.parent.mkdir(parents=True, exist_ok=True)
        writing.write_text(text, encoding="utf-8")
        writing.replace(to)
    except OSError as error:
        raise RunError(f"the report cannot be written to {to}: {error.strerror}. Choose another place.") from error
    return to


def refuse_foreign(to: Path) -> None:
    """Refuse to write over a page that is not one of ours."""
    try:
        with to.open("rb") as file:
            beginning = file.read(len(OPENING))
    except OSError:
        return
    if beginning not in (b"", OPENING.encode()):
        raise RunError(f"{to} is not a report that porism wrote. Move it, or choose another place with --out.")


def _sheet(name: str) -> str:
    return files("porism.report").joinpath(name).read_text(encoding="utf-8")
