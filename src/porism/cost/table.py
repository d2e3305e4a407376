"""The formulas of a module and its submodules, as a table for a terminal."""

import re
from typing import TYPE_CHECKING

from rich.table import Table

if TYPE_CHECKING:
    from porism.cost.derived import Derived, ModuleRow


def table(derived: "Derived") -> Table:
    """One row for the whole, one for each submodule; a stack of equal ones is one row with their number."""
    shown = Table("module", *derived.titles.values(), caption=f"{derived.verdict}\n{derived.conventions.text}")
    for name, number, row in folded(derived):
        formulas = (row.formula(kind, derived.conventions) for kind in derived.titles)
        cells = ["?" if formula is None else str(formula) for formula in formulas]
        shown.add_row(f"{name} × {number}" if number > 1 else name, *cells)
    return shown


def folded(derived: "Derived") -> list[tuple[str, int, "ModuleRow"]]:
    """Rows whose paths differ in numbers only and whose formulas are the same, as one: `layers.*.mlp`, how many, row.

    >>> [name for name, number, row in folded(porism.cost(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)), "B 4"))]
    ['Sequential', '* (Linear)']
    """
    groups: dict[tuple[str, str, str], list[ModuleRow]] = {}
    for row in derived.rows:
        starred = re.sub(r"(?<![^.])\d+(?![^.])", "*", row.path)
        formulas = str([row.formula(kind, derived.conventions) for kind in derived.titles])
        groups.setdefault((starred, row.kind, formulas), []).append(row)
    return [
        (_title(path if len(rows) > 1 else rows[0].path, kind, derived.name), len(rows), rows[0])
        for (path, kind, _), rows in groups.items()
    ]


def _title(path: str, kind: str, name: str) -> str:
    return f"{path} ({kind})" if path else name
