"""The benchmark of defaults on data nobody tuned for says who wins, whichever way the metric points."""

import dataclasses
import json
import re
from collections import Counter
from pathlib import Path

import pytest

import tables
import untuned
from porism.errors import RecipeError
from porism.tasks import TASKS
from untuned_sets.every import SETS

HARDWARE = {"gpu": None, "threads": 1, "cpu": "a CPU", "cores": 1}


def row(values: tuple[float, ...], baseline: float | None, lower: bool = False) -> untuned.Row:
    return untuned.Row(
        *("images", "pictures", "mine", "grid-4", "accuracy", lower, values, "HOG", baseline, (3,), 5, 1.0),
        report="The best baseline on test, HOG, reaches 0.9; grid-4 equals it.",
    )


@pytest.mark.parametrize(
    ("values", "baseline", "lower", "winner"),
    [
        ((0.9, 0.8), 0.84, False, "porism"),
        ((0.9, 0.8), 0.86, False, "baseline"),
        ((70.0,), 71.0, True, "porism"),
        ((72.0,), 71.0, True, "baseline"),
        ((0.5,), 0.5, False, "tie"),
        ((), None, False, "not measured"),
        ((0.5,), None, False, "no baseline"),
    ],
)
def test_who_wins(values: tuple[float, ...], baseline: float | None, lower: bool, winner: str) -> None:
    assert row(values, baseline, lower).winner == winner
    assert untuned.table([row(values, baseline, lower)]).row_count == 1


def test_an_argument_is_a_task_or_a_task_and_its_data(tmp_path: Path) -> None:
    assert untuned.sources_of("images:c:/pictures", tmp_path) == [untuned.Source("images", "c:/pictures", "pictures")]
    pytest.importorskip("sklearn")
    made = untuned.sources_of("language", tmp_path)
    assert [source.name for source in made] == ["numpy-docs", "email-source", "sklearn-descriptions"]
    assert all(Path(source.path).stat().st_size > 40_000 for source in made)
    for wrong in ("pictures", "images:"):
        with pytest.raises(RecipeError, match="expected one of language, .* or TASK:DATA"):
            untuned.sources_of(wrong, tmp_path)


def test_every_task_has_three_sets_of_data() -> None:
    names = Counter(one.task for one in SETS)
    assert names == dict.fromkeys(TASKS, 3)
    assert len({(one.task, one.name) for one in SETS}) == len(SETS)


@pytest.mark.parametrize("name", ["people", "mixed-reviews", "email-source"])
def test_a_set_of_data_is_the_same_each_time(name: str, tmp_path: Path) -> None:
    one = next(one for one in SETS if one.name == name)
    first, again = (one.made(tmp_path / folder) for folder in "ab")
    files = [first] if first.is_file() else sorted(first.iterdir())
    assert files
    for file in files:
        assert file.read_bytes() == (again / file.relative_to(first)).read_bytes()


def test_a_row_of_other_baselines_is_told_to_be_one(tmp_path: Path) -> None:
    """Which of them is the best, and so who is ahead, changes where one is added."""
    out, about = tmp_path / "rows.json", {"hardware": HARDWARE, "versions": {"torch": "2"}}
    untuned.write([row((0.9,), 0.8)], about, out)
    assert "changed since" not in "\n".join(tables.lines_of(tables.TABLES["untuned"], out))
    out.write_text(re.sub(r'(baselines.py": ")\w+', r"\1another", out.read_text()))
    changed = tables.lines_of(tables.TABLES["untuned"], out)[-1]
    assert changed == "The code has changed since this was measured: `tasks/images/baselines.py`."


def test_rows_of_other_tasks_are_kept_and_the_table_counts_who_is_ahead(tmp_path: Path) -> None:
    out, about = tmp_path / "rows.json", {"hardware": HARDWARE, "versions": {"torch": "2"}}
    untuned.write([row((0.9,), 0.8)], about, out)
    other = dataclasses.replace(row((0.7,), 0.8), task="graphs", recipe="gcn")
    untuned.write([other], about, out)
    untuned.write([dataclasses.replace(row((0.8,), 0.8))], about, out)
    result = json.loads(out.read_text())
    assert [(one["task"], one["winner"]) for one in result["rows"]] == [("graphs", "baseline"), ("images", "tie")]
    lines = tables.TABLES["untuned"](result)
    assert lines[0] == "Measured on 1 thread of a CPU, torch 2."
    assert "ahead on 0, the best baseline on 1, neither on 1." in lines[1]
    assert lines[-1].endswith("| HOG | 0.8 | neither | grid-4 equals it. |")
