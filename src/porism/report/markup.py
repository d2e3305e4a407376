"""The pieces of HTML that every section is built from."""

from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

from porism.report.comparison import Entry
from porism.report.drawing import series


def section(heading: str, content: str) -> str:
    return f"<section>\n<h2>{escape(heading)}</h2>\n{content}\n</section>"


def scrolled(head: str, rows: Iterable[str], label: str, foot: str = "") -> str:
    """A table that scrolls inside its own frame, so that the page never does."""
    body = "".join(f"<tr>{row}</tr>\n" for row in rows)
    sums = f"<tfoot><tr>{foot}</tr></tfoot>" if foot else ""
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(label)}">\n'
        f"<table><thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>{sums}</table></div>\n"
    )


def number_cell(text: str, value: float | None = None, best: bool = False) -> str:
    """A number as people read it, with all its figures for whoever copies the page."""
    shown = escape(text) if value is None else f'<data value="{value}">{escape(text)}</data>'
    return f"<td class=number>{f'<strong>{shown}</strong>' if best else shown}</td>"


def name_cell(entry: Entry) -> str:
    state = "" if entry.record.finished else ' <span class="state">unfinished</span>'
    return f'<th scope="row">{badge(entry)} {escape(entry.name)}{state}</th>'


def badge(entry: Entry) -> str:
    """The run's number on its colour, the same in every table, plot and list."""
    return f'<span class="badge" style="--run: var(--series-{series(entry.number)})">{entry.number}</span>'


def fold(entry: Entry, content: str, opened: bool, aside: str = "") -> str:
    state = " open" if opened else ""
    remark = f' <span class="aside">{escape(aside)}</span>' if aside else ""
    return f"<details{state}><summary>{badge(entry)} {escape(entry.name)}{remark}</summary>{content}</details>\n"


def facts(pairs: Mapping[str, Any]) -> str:
    """Names and values in a line, those that are not known left out."""
    known = [
        (name.replace("_gb", " (GB)").replace("_", " "), value) for name, value in pairs.items() if value is not None
    ]
    listed = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(plain(value))}</dd></div>" for name, value in known)
    return f'<dl class="facts">{listed}</dl>' if listed else ""


def plain(value: Any) -> str:
    """A setting as people write it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(plain(item) for item in value)
    return f"{value:,}" if isinstance(value, int) and abs(value) >= 10_000 else f"{value}"
