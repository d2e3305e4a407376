"""Default recipes on data that nobody tuned them for, beside plain baselines."""

from collections import Counter
from typing import Any

from readme.place import measured_on

WINNERS = {"porism": "the default", "baseline": "the baseline", "tie": "neither"}
COLUMNS = (
    *("task", "data", "default", "epochs", "metric", "test", "best baseline on test", "test", "ahead"),
    "the report says",
)


def untuned(result: dict[str, Any]) -> list[str]:
    """A row a set of data; who wins is counted first."""
    rows = result["rows"]
    won = Counter(row["winner"] for row in rows)
    tasks: dict[str, dict[str, None]] = {}
    for row in rows:
        tasks.setdefault(measured_on(row), {})[row["task"]] = None
    seeds = sorted({len(row["values"]) for row in rows})
    return [
        *(f"{', '.join(some)}: {place}  " if len(tasks) > 1 else place for place, some in tasks.items()),
        f"{len(rows)} sets of data, {' or '.join(map(str, seeds))} seed each: the default recipe is ahead on "
        f"{won['porism']}, the best baseline on {won['baseline']}, neither on {won['tie']}.",
        "",
        f"| {' | '.join(COLUMNS)} |",
        "|---|---|---|---:|---|---:|---|---:|---|---|",
        *(_line(row) for row in rows),
    ]


def _line(row: dict[str, Any]) -> str:
    baseline = "" if row["baseline_value"] is None else f"{row['baseline_value']:.4g}"
    cells = [
        *(row["task"], f"{row['data']}: {row['about']}", row["recipe"], f"{min(row['epochs'], default=0)}"),
        *(row["metric"].replace("_", " "), f"{row['value']:.4g}" if row["values"] else "none", row["baseline"]),
        *(baseline, WINNERS.get(row["winner"], row["winner"])),
        # One seed shows no model to be better than a baseline.
        "" if row["winner"] == "porism" else row["report"].rpartition("; ")[2].replace("|", "/"),
    ]
    return f"| {' | '.join(cells)} |"
