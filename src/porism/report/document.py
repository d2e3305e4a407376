"""One HTML file that holds everything: no other file, no network, no script."""

from functools import cache
from importlib.resources import files
from pathlib import Path

from porism.errors import Advice, RunError
from porism.files import own_temporary


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


MOVE = Advice("Move it, or choose another place with --out.", "Move it, or choose another path.")


def refuse_foreign(to: Path) -> None:
    """Refuse to write over a page that is not one of ours."""
    opening = _opening()
    try:
        with to.open("rb") as file:
            beginning = file.read(len(opening))
    except OSError:
        return
    if beginning not in (b"", opening):
        raise RunError(f"{to} is not a report that porism wrote.", MOVE)


@cache
def _opening() -> bytes:
    """How every page begins, by which one of ours is recognised."""
    template = files("porism.report").joinpath("templates/document.html").read_text(encoding="utf-8")
    return template.partition("{{")[0].encode()
