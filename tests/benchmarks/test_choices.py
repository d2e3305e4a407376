"""Grids that were tried on valid, and the rows of READMEs that are written from them."""

import json
import random
from dataclasses import replace
from typing import Any

import pytest

import choices
from porism.tasks.language.recipes import RECIPES
from readme.choices import choices as tables
from readme.choices import row, with_row

LSTM = replace(RECIPES["lstm"], learning_rate=0.003, dropout=0.3)
README = """# Language

### How the settings were chosen

| recipes | tried | on | by |
|---|---|---|---|
| `elman`, `lstm` | not on record | not on record | not on record |
"""


def sweep(recipe: str = "lstm", best: float = 0.3) -> dict[str, Any]:
    """What `porism sweep --json` prints, of a grid in which this dropout is best at the rate 0.003."""
    grid = [(rate, dropout) for rate in (0.003, 0.01) for dropout in (0.1, 0.3, 0.5)]
    trials = [
        {
            "setting": {"learning_rate": rate, "dropout": dropout},
            "outcome": "done",
            "valid_by_seed": [90 + 1000 * rate + 100 * abs(dropout - best) + wiggle for wiggle in (0.0, 0.5, 1.0)],
            "runs": ["/a/folder"],
        }
        for rate, dropout in grid
    ]
    machine = {"hardware": {"gpu": "a GPU", "cores": 16, "threads": 1, "cpu": "a CPU"}, "versions": {"torch": "2"}}
    return {
        "task": "language",
        "metric": "perplexity",
        "lower_is_better": True,
        "seeds": [11, 12, 13],
        "trials": trials,
        "chosen": {**trials[1], "results": [{"recipe": recipe, "metrics": {"test": {"perplexity": 1.0}}, **machine}]},
    }


def part(best: float) -> dict[str, Any]:
    return choices.part_of(sweep(best=best), "the embedded data")


def test_neither_folders_nor_test_are_kept() -> None:
    text = json.dumps(part(0.3))
    assert "folder" not in text
    assert "test" not in text


def test_a_row_says_what_was_tried_and_what_came_out() -> None:
    best = row(LSTM, [part(0.3)])
    assert best.startswith("| `lstm` | `learning_rate` 0.003 and 0.01, each with `dropout` 0.1, 0.3 and 0.5 | ")
    assert "valid of the embedded data, seeds 11 to 13" in best
    assert "perplexity, the lowest: 93.5 ± 1.2 at `learning_rate` 0.003, `dropout` 0.3; 100.5 to 120.5 the" in best


def test_a_recipe_that_is_not_the_best_of_its_grid_says_so() -> None:
    text = row(LSTM, [part(0.1)])
    assert "the lowest: 93.5 ± 1.2 at `learning_rate` 0.003, `dropout` 0.1; taken is 113.5 ± 1.2 at " in text
    assert "and which is better is not decided: that takes 5 seeds" in text
    grid = part(0.3)
    grid["trials"] = [trial for trial in grid["trials"] if trial["setting"]["dropout"] != 0.3]
    with pytest.raises(SystemExit, match="lstm has none of the settings of its grid"):
        row(LSTM, [grid])


def five_seeds(best: float, noise: float) -> dict[str, Any]:
    """A grid over five seeds, in which every setting has noise of its own."""
    grid = part(best) | {"seeds": [11, 12, 13, 14, 15]}
    draw = random.Random(1)
    for trial in grid["trials"]:
        trial["valid"] = [trial["valid"][0] + draw.gauss(0, noise) for _ in grid["seeds"]]
    return grid


def test_whether_a_recipe_is_worse_than_the_best_is_corrected_for_all_pairs_of_the_grid() -> None:
    text = row(LSTM, [five_seeds(best=0.1, noise=3)])
    assert "and decided to be worse in pairs of seeds: p = 0.0011, 0.0056 after Holm's correction for 15 " in text
    # One pair alone would tell them apart.
    text = row(LSTM, [five_seeds(best=0.1, noise=6)])
    assert "and not decided to be worse in pairs of seeds: p = 0.02, 0.092 after Holm's correction for 15 " in text


def test_how_many_settings_are_decided_to_be_worse_than_the_best_is_told() -> None:
    assert "100.4 to 120.7 the others, 5 of 5 decided to be worse" in row(LSTM, [five_seeds(best=0.3, noise=1)])
    assert "103.9 to 126.0 the others, 1 of 5 decided to be worse" in row(LSTM, [five_seeds(best=0.3, noise=9)])
    assert "decided" not in row(LSTM, [part(0.3)])


def test_a_best_setting_on_an_edge_says_so_where_the_grid_can_go_on() -> None:
    assert "on the edge of the grid in `learning_rate`, beyond which nothing was tried" in row(LSTM, [part(0.3)])
    assert "on the edge of the grid in `learning_rate` and `dropout`, beyond" in row(LSTM, [part(0.5)])
    grid = part(0.3)
    for trial in grid["trials"]:
        trial["setting"] |= {"dropout": trial["setting"]["dropout"] - 0.3, "learning_rate": 0.003}
    assert "on the edge" not in row(replace(LSTM, dropout=0.0), [{**grid, "trials": grid["trials"][1:3]}])


def test_several_sets_of_data_count_alike() -> None:
    other = part(0.3) | {"data": "another text"}
    for trial in other["trials"]:
        trial["valid"] = [10 + value for value in trial["valid"]]
    text = row(LSTM, [part(0.3), other])
    assert "valid of the embedded data and another text" in text
    assert "the lowest: 98.50 (93.5 ± 1.2 on the embedded data and 103.5 ± 1.2 on another text) at" in text


def test_a_setting_that_was_not_trained_to_the_end_is_shown_and_never_the_best() -> None:
    grid = part(0.3)
    grid["trials"][0] |= {"outcome": "diverged", "valid": [1.0]}
    assert "diverged" in "\n".join(tables({"parts": {"language/lstm on text": grid}}))
    assert "the lowest: 93.5" in row(LSTM, [grid])


def test_a_second_grid_adds_to_the_first_where_all_else_is_alike() -> None:
    first, second = part(0.3), part(0.3)
    second["trials"] = [{**trial, "setting": trial["setting"] | {"dropout": 0.7}} for trial in second["trials"][:1]]
    both = choices.joined(first, second)
    assert len(both["trials"]) == len(first["trials"]) + 1
    assert "| 7 settings of `learning_rate` 0.003 and 0.01, `dropout` 0.1, 0.3, 0.5 and 0.7 |" in row(
        RECIPES["lstm"], [both]
    )
    assert choices.joined(first | {"seeds": [1]}, second) == second
    assert choices.joined(None, first) == choices.joined(first, first) == first


def test_a_row_leaves_the_one_it_was_part_of() -> None:
    text = with_row(README, "lstm", "| `lstm` | this | that | those |")
    assert text.endswith(
        "| `lstm` | this | that | those |\n| `elman` | not on record | not on record | not on record |\n"
    )
    again = with_row(text, "lstm", "| `lstm` | other | that | those |")
    assert again == text.replace("| this |", "| other |")


def test_the_rows_people_read_are_what_the_grids_say() -> None:
    file = choices.HERE / "results" / "choices.json"
    parts = json.loads(file.read_text())["parts"] if file.exists() else {}
    for (task, _), expected in choices.rows(parts).items():
        assert expected in (choices.TASKS / task / "README.md").read_text(), "Run python benchmarks/choices.py."


def test_the_rows_of_readmes_are_those_of_the_recipes_and_of_what_is_kept() -> None:
    kept = json.loads((choices.HERE / "results" / "choices.json").read_text())["parts"]
    for (task, _), text in choices.rows(kept).items():
        assert text in (choices.TASKS / task / "README.md").read_text()
