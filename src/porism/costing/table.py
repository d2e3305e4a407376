"""Formulas by submodule as a table: for a terminal, for a notebook."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from io import StringIO

import sympy
from rich.console import Console
from rich.table import Table
from sympy import Expr

COLUMNS = 100
"""The width of a table where no terminal says another."""


@dataclass(frozen=True)
class TableRow:
    """A submodule: its path (empty for the whole), its class, a formula for each column or None where there is none."""

    path: str
    kind: str
    formulas: tuple[Expr | None, ...]


@dataclass(frozen=True)
class FoldedRow:
    """Submodules of one class whose formulas are the same, as one row."""

    title: str
    number: int
    formulas: tuple[Expr | None, ...]

    @property
    def text(self) -> str:
        return f"{self.title} × {self.number}" if self.number > 1 else self.title


def folded(name: str, rows: Iterable[TableRow]) -> list[FoldedRow]:
    """Rows whose paths differ in numbers only and whose formulas are the same, as one: `layers.*.mlp`.

    >>> linear = (sympy.Symbol("B"),)
    >>> [row.text for row in folded("Sequential", [TableRow(path, "Linear", linear) for path in ("0", "1")])]
    ['* (Linear) × 2']
    """
    groups: dict[tuple[str, str, str], list[TableRow]] = {}
    for row in rows:
        starred = re.sub(r"(?<![^.])\d+(?![^.])", "*", row.path)
        groups.setdefault((starred, row.kind, str(row.formulas)), []).append(row)
    return [
        FoldedRow(_title(path if len(same) > 1 else same[0].path, kind, name), len(same), same[0].formulas)
        for (path, kind, _), same in groups.items()
    ]


def unfolded(name: str, rows: Iterable[TableRow]) -> list[FoldedRow]:
    """A row for each submodule, equal ones too."""
    return [FoldedRow(_title(row.path, row.kind, name), 1, row.formulas) for row in rows]


def _title(path: str, kind: str, name: str) -> str:
    return f"{path} ({kind})" if path else name


class TextTable(Table):
    """A table that Python's print shows, too."""

    def __str__(self) -> str:
        return as_text(self)


def cut(text: str, most: int) -> str:
    """A text of so many characters at most; three dots say that there is more.

    >>> cut("2*B*T*(D + H)", 9), cut("2*B*T", 9)
    ('2*B*T*...', '2*B*T')
    """
    return text if len(text) <= most else f"{text[: most - 3]}..."


def terminal_table(heads: Sequence[str], rows: Iterable[FoldedRow], caption: str) -> TextTable:
    """For `print` and `rich.print`."""
    shown = TextTable("module", *heads, caption=caption)
    for row in rows:
        shown.add_row(row.text, *("?" if formula is None else str(formula) for formula in row.formulas))
    return shown


def as_text(table: Table, columns: int = COLUMNS) -> str:
    """A table as plain text of so many columns."""
    console = Console(file=StringIO(), width=columns, color_system=None)
    console.print(table)
    text = console.file.getvalue() if isinstance(console.file, StringIO) else ""
    return "\n".join(line.rstrip() for line in text.splitlines())


def html_table(heads: Sequence[str], rows: Iterable[FoldedRow], caption: str) -> str:
    """For a notebook, formulas as MathML."""
    head = "".join(f"<th>{escape(title)}</th>" for title in ("module", *heads))
    body = "".join(
        f"<tr><th>{escape(row.text)}</th>{''.join(f'<td>{_math(formula)}</td>' for formula in row.formulas)}</tr>"
        for row in rows
    )
    note = "<br>".join(escape(line) for line in caption.splitlines())
    return f"<table><caption>{note}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _math(formula: Expr | None) -> str:
    return "?" if formula is None else f"<math>{sympy.mathml(formula, printer='presentation')}</math>"
