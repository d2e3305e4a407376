"""How settings were chosen: every grid that was tried on valid, and the row of the task's README that tells of it."""

from collections.abc import Sequence
from itertools import combinations
from math import prod
from statistics import fmean
from typing import Any

from porism.report.contest import LEAST_SEEDS, p_text
from porism.report.numbers import score, with_margin
from porism.runs.recipe import Recipe, settings
from porism.runs.statistics import SIGNIFICANCE, holm, interval, t_test
from readme.place import measured_on, rows_and_columns

PLACE = "../../../../benchmarks/README.md#how-were-the-settings-of-recipes-chosen"

Part = dict[str, Any]


def choices(result: dict[str, Any]) -> list[str]:
    """A table for each grid: the last of its fields in columns, the others in rows."""
    lines: list[str] = []
    for name, part in result["parts"].items():
        cells: dict[str, dict[str, str]] = {}
        for trial in part["trials"]:
            *others, (last, value) = trial["setting"].items()
            row = cells.setdefault(_named(dict(others)) or part["metric"], {})
            row[f"{last} {value}"] = _mean(trial["valid"]) if trial["outcome"] == "done" else trial["outcome"]
        lines += [
            f"**{name}**: {part['metric'].replace('_', ' ')} on valid, the mean over {_seeds(part)} and its 95 % "
            f"interval. {measured_on(part)}",
            "",
            *rows_and_columns("", cells),
            "",
        ]
    return lines[:-1]


def row(recipe: Recipe, parts: list[Part]) -> str:
    """How one recipe was chosen, by one grid or by the same grid on several sets of data.

    What is taken is the recipe as it is: where that is not the best, the row says so.
    """
    found = _scores(parts)
    taken = next((name for name, setting in _trials(parts[0]).items() if _has(recipe, setting)), None)
    if taken not in found:
        raise SystemExit(f"{recipe.name} has none of the settings of its grid that were trained to the end.")
    lower = parts[0]["lower_is_better"]
    order = sorted(found, key=lambda name: fmean(found[name]), reverse=not lower)
    metric, best = parts[0]["metric"].replace("_", " "), order[0]
    by = f"{metric}, the {'lowest' if lower else 'highest'}: {_means(parts, best)} at {best}"
    if taken == best:
        others = [fmean(found[name]) for name in order[1:]]
        by += f"; {score(others[0])} to {score(others[-1])} the others" if len(others) > 1 else ""
        if corrected := _corrected(found, len(parts[0]["seeds"])):
            worse = sum(corrected[frozenset((best, name))][1] < SIGNIFICANCE for name in order[1:])
            by += f", {worse} of {len(others)} decided to be worse"
    else:
        by += f"; taken is {_means(parts, taken)} at {taken}, {_decided(found, best, taken, len(parts[0]['seeds']))}"
    if edges := _edges(parts[0], best):
        by += f"; the best lies on the edge of the grid in {_listed(edges)}, beyond which nothing was tried"
    values = _tried(parts[0])
    # Two grids, one after the other, need not have every combination.
    whole = prod(map(len, values.values())) == len(parts[0]["trials"])
    tried = (", each with " if whole else ", ").join(f"`{name}` {_listed(some)}" for name, some in values.items())
    tried = tried if whole else f"{len(parts[0]['trials'])} settings of {tried}"
    on = f"valid of {' and '.join(part['data'] for part in parts)}, {_seeds(parts[0])}"
    return f"| `{recipe.name}` | {tried} | {on} | {by} ([all]({PLACE})) |"


def with_row(text: str, recipe: str, row: str) -> str:
    """A task's README with the row of this recipe, which leaves a row that it shared with others."""
    before, title, table = text.partition("### How the settings were chosen\n")
    lines = table.split("\n")
    here = next(number for number, line in enumerate(lines) if f"`{recipe}`" in _first_cell(line))
    others = [name for name in _first_cell(lines[here]).split(", ") if name != f"`{recipe}`"]
    left = [f"| {', '.join(others)} |{lines[here].split('|', 2)[2]}"] if others else []
    lines[here : here + 1] = [row, *left]
    return before + title + "\n".join(lines)


def _first_cell(line: str) -> str:
    return line.split("|")[1].strip() if line.startswith("| ") else ""


def _trials(part: Part) -> dict[str, dict[str, Any]]:
    return {_named(trial["setting"]): trial["setting"] for trial in part["trials"]}


def _scores(parts: list[Part]) -> dict[str, list[float]]:
    """By setting, the numbers of all seeds on all sets of data; of settings that were trained to the end on each."""
    found = [
        {_named(trial["setting"]): trial["valid"] for trial in part["trials"] if trial["outcome"] == "done"}
        for part in parts
    ]
    return {name: [value for one in found for value in one[name]] for name in found[0] if all(name in f for f in found)}


def _means(parts: list[Part], name: str) -> str:
    """Of a setting; where there are several sets of data, how far these differ is no error of the mean."""
    single = [
        (part["data"], next(t["valid"] for t in part["trials"] if _named(t["setting"]) == name)) for part in parts
    ]
    if len(parts) == 1:
        return _mean(single[0][1])
    each = _listed([f"{_mean(values)} on {data}" for data, values in single])
    return f"{score(fmean(value for _, values in single for value in values))} ({each})"


def _decided(found: dict[str, list[float]], best: str, taken: str, seeds: int) -> str:
    """Whether the best is better than the one that is taken, as the sweep decides it: corrected for all pairs."""
    pairs = _corrected(found, seeds)
    if not pairs:
        return f"and which is better is not decided: that takes {LEAST_SEEDS} seeds"
    alone, corrected = pairs[frozenset((best, taken))]
    verdict = "and decided to be worse" if corrected < SIGNIFICANCE else "and not decided to be worse"
    together = f", {p_text(corrected).removeprefix('= ')} after Holm's correction for {len(pairs)} comparisons"
    return f"{verdict} in pairs of seeds: p {p_text(alone)}{together}"


def _corrected(found: dict[str, list[float]], seeds: int) -> dict[frozenset[str], tuple[float, float]]:
    """By pair of settings the p-value alone, and corrected for all pairs; none where too few seeds decide nothing."""
    pairs = list(combinations(found, 2))
    p_values = [t_test([a - b for a, b in zip(found[one], found[two], strict=True)]) for one, two in pairs]
    known = [p for p in p_values if p is not None]
    if seeds < LEAST_SEEDS or len(known) < len(pairs):
        return {}
    both = zip(known, holm(known), strict=True)
    return {frozenset(pair): values for pair, values in zip(pairs, both, strict=True)}


def _edges(part: Part, name: str) -> list[str]:
    """Fields whose value in this setting is the last one tried in a direction that can go on; below 0 none can."""
    setting = _trials(part)[name]
    ordered = {field: values for field, values in _tried(part).items() if not isinstance(setting[field], bool | str)}
    return [
        f"`{field}`"
        for field, values in ordered.items()
        if len(values) > 1 and (setting[field] == values[-1] or setting[field] == values[0] != 0)
    ]


def _tried(part: Part) -> dict[str, list[Any]]:
    fields = part["trials"][0]["setting"]
    return {field: sorted({trial["setting"][field] for trial in part["trials"]}) for field in fields}


def _has(recipe: Recipe, setting: dict[str, Any]) -> bool:
    own = settings(recipe)
    return all(own[field] == value for field, value in setting.items())


def _named(setting: dict[str, Any]) -> str:
    return ", ".join(f"`{field}` {_value(value)}" for field, value in setting.items())


def _value(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


def _listed(values: Sequence[Any]) -> str:
    *first, last = map(_value, values)
    return f"{', '.join(first)} and {last}" if first else last


def _mean(values: list[float]) -> str:
    found = interval(values)
    return with_margin(found.mean, found.margin)


def _seeds(part: Part) -> str:
    """
    >>> _seeds({"seeds": [11, 12, 13]}), _seeds({"seeds": [11]})
    ('seeds 11 to 13', 'seed 11')
    """
    seeds = part["seeds"]
    if len(seeds) == 1:
        return f"seed {seeds[0]}"
    in_a_row = seeds == list(range(seeds[0], seeds[-1] + 1))
    return f"seeds {seeds[0]} to {seeds[-1]}" if in_a_row else f"seeds {_listed(seeds)}"
