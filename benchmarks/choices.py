"""How were the settings of shipped recipes chosen? Keeps the grids that `porism sweep` tried on valid.

    porism sweep language lstm --over dropout=0.1,0.3,0.5 --seeds 11,12,13,14,15 --json > lstm.json
    python benchmarks/choices.py lstm.json
    python benchmarks/choices.py cora.json --data Cora

Peer: the other settings of a grid, with the same seeds. Writes the recipe's row in its task's README too.
"""

import json
from pathlib import Path
from typing import Annotated, Any

import tyro

from porism.files import write_atomically
from porism.tasks import find
from readme.choices import row, with_row
from sources import recipe_settings

HERE = Path(__file__).parent
TASKS = HERE.parent / "src" / "porism" / "tasks"


def part_of(sweep: dict[str, Any], data: str) -> dict[str, Any]:
    """What is kept of a sweep: no folder, and of test nothing."""
    result = sweep["chosen"]["results"][0]
    used, tried = recipe_settings(sweep["task"], [result["recipe"]]), sweep["trials"][0]["setting"]
    return {
        **{key: sweep[key] for key in ("task", "metric", "lower_is_better", "seeds")},
        "recipe": result["recipe"],
        "data": data,
        "trials": [
            {"setting": trial["setting"], "outcome": trial["outcome"], "valid": trial["valid_by_seed"]}
            for trial in sweep["trials"]
        ],
        "hardware": result["hardware"],
        "versions": result["versions"],
        "recipes": {name: _left_alone(settings, tried) for name, settings in used.items()},
    }


def _left_alone(settings: dict[str, Any], tried: dict[str, Any]) -> dict[str, Any]:
    """What all settings of a grid have in common."""
    return {field: value for field, value in settings.items() if field not in tried}


def joined(before: dict[str, Any] | None, part: dict[str, Any]) -> dict[str, Any]:
    """A grid with the one that it goes on from, where all but their settings is alike; else the new one alone."""
    if before is None or {**before, "trials": []} != {**part, "trials": []}:
        return part
    if any(trial["setting"].keys() != part["trials"][0]["setting"].keys() for trial in before["trials"]):
        return part
    tried = [trial["setting"] for trial in part["trials"]]
    return {**part, "trials": [trial for trial in before["trials"] if trial["setting"] not in tried] + part["trials"]}


def rows(parts: dict[str, dict[str, Any]]) -> dict[tuple[str, str], str]:
    """By task and recipe, the row of the README."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for part in parts.values():
        found.setdefault((part["task"], part["recipe"]), []).append(part)
    return {(task, name): row(find(task).recipes[name], some) for (task, name), some in found.items()}


def main(
    sweeps: Annotated[tuple[Path, ...], tyro.conf.Positional] = (),
    data: str = "the embedded data",
    out: Path = HERE / "results" / "choices.json",
) -> None:
    """Keep sweeps, and write the rows of their recipes. A second grid of a recipe adds to the first.

    sweeps: what `porism sweep --json` printed.
    data: what they were trained on, in words.
    """
    result = json.loads(out.read_text()) if out.exists() else {"parts": {}}
    for file in sweeps:
        part = part_of(json.loads(file.read_text()), data)
        name = f"{part['task']}/{part['recipe']} on {data}"
        result["parts"][name] = joined(result["parts"].get(name), part)
    write_atomically(out, (json.dumps(result, indent=1) + "\n").encode())
    for (task, name), text in rows(result["parts"]).items():
        readme = TASKS / task / "README.md"
        readme.write_text(with_row(readme.read_text(), name, text))
        print(text)


if __name__ == "__main__":
    tyro.cli(main)
