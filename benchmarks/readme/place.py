"""Where something was measured, how far it spreads, and tables of rows by name."""

from typing import Any

HOUSE = ("porism", "python")


def measured_on(result: dict[str, Any]) -> str:
    """Where it was measured, in words, and beside which packages."""
    hardware, versions = result["hardware"], result["versions"]
    device = (
        hardware["gpu"]
        or f"{hardware['threads']} {'thread' if hardware['threads'] == 1 else 'threads'} of {hardware['cpu']}"
    )
    if result.get("load", 0) > hardware["cores"] + 0.5:
        device += f" that did other work (load {result['load']})"
    packages = [f"{name} {number or 'not installed'}" for name, number in versions.items() if name not in HOUSE]
    return f"Measured on {device}, {', '.join(packages)}."


def shown(found: dict[str, float], digits: int = 3) -> str:
    """A median and its quartiles.

    >>> shown({"median": 2.2, "low": 2.06, "high": 2.31, "turns": 5})
    '2.2 (2.06 to 2.31)'
    """
    middle, low, high = (
        f"{found[name]:.{digits}g}" if found[name] < 10**digits else f"{found[name]:,.0f}"
        for name in ("median", "low", "high")
    )
    return f"{middle} ({low} to {high})"


def rows_and_columns(corner: str, cells: dict[str, dict[str, str]]) -> list[str]:
    """A table of rows by name, each with columns by name; a cell that a row lacks is empty."""
    columns = list(dict.fromkeys(column for row in cells.values() for column in row))
    rows = [f"| {name} | {' | '.join(row.get(column, '') for column in columns)} |" for name, row in cells.items()]
    return [f"| {corner} | {' | '.join(columns)} |", f"|---|{'---:|' * len(columns)}", *rows]
