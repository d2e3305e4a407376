"""Whether models had the same chance is said beside who comes first."""

from pathlib import Path
from typing import Any

import pytest
from tests.report.conftest import WriteRun, epoch, metrics, start

from porism.report.comparison import entries_of, group_runs
from porism.report.summary import summarise
from porism.runs.record import read_run


def summary_of(*folders: Path) -> str:
    (group,) = group_runs(entries_of([read_run(folder) for folder in folders]))
    return summarise(group)


def test_budgets_that_differ_are_named(write_run: WriteRun) -> None:
    text = summary_of(
        write_run("1", recipe="a", metrics=metrics(140.0, epochs=12), epochs=12),
        write_run("2", recipe="b", metrics=metrics(150.0, epochs=4), epochs=4),
    )
    assert (
        "Their budgets differ: 12 epochs for a, 4 epochs for b, so this is no comparison of the models alone." in text
    )


def test_an_equal_budget_is_named_and_who_stopped_early(write_run: WriteRun) -> None:
    text = summary_of(
        write_run("1", recipe="a", metrics=metrics(140.0, epochs=12, best_epoch=12), epochs=12),
        write_run("2", recipe="b", metrics=metrics(150.0, epochs=7, best_epoch=4), epochs=12),
    )
    assert "Equal budget: up to 12 epochs each; b after 7 stopped, no longer improving on valid." in text
    assert "Still improving on valid when the budget ended: a." in text


def test_in_how_many_seeds_a_model_was_still_improving_is_told(write_run: WriteRun) -> None:
    last = {("a", 1): 3, ("a", 2): 2, ("b", 1): 3, ("b", 2): 3}
    runs = [
        write_run(f"{name}-{seed}", recipe=name, seed=seed, metrics=metrics(140.0, epochs=3, best_epoch=best), epochs=3)
        for (name, seed), best in last.items()
    ]
    assert "Still improving on valid when the budget ended: a (in 1 of 2 seeds), b." in summary_of(*runs)


@pytest.mark.parametrize(
    ("first", "second", "told"),
    [
        ({}, {}, "Equal budget: up to 60 seconds of training each."),
        ({}, {"max_seconds": 120.0}, "differ: 9 epochs or 60 seconds for a, 9 epochs or 120 seconds for b"),
        ({}, {"max_seconds": None}, "differ: 9 epochs or 60 seconds for a, 9 epochs for b"),
        ({"epochs": 1}, {}, "differ: 1 epoch or 60 seconds for a, 9 epochs or 60 seconds for b"),
        ({"epochs": 3}, {}, "differ: 3 epochs or 60 seconds for a, 9 epochs or 60 seconds for b"),
    ],
)
def test_time_is_a_part_of_the_budget(
    write_run: WriteRun, first: dict[str, Any], second: dict[str, Any], told: str
) -> None:
    """Where it ends for one model alone, that model did not stop because it no longer improved."""
    fields = [
        {name: value for name, value in ({"epochs": 9, "max_seconds": 60.0} | changes).items() if value is not None}
        for changes in (first, second)
    ]
    runs = [
        write_run(name, recipe=name, metrics=metrics(140.0, epochs=2), **own)
        for name, own in zip("ab", fields, strict=True)
    ]
    text = summary_of(*runs)
    assert told in text
    assert "no longer improving" not in text


def test_what_differs_beside_the_model_is_named(write_run: WriteRun) -> None:
    text = summary_of(
        write_run("1", recipe="a", metrics=metrics(140.0), epochs=3, batch_size=16, dropout=0.3, model="elman"),
        write_run("2", recipe="b", metrics=metrics(150.0), epochs=3, batch_size=8, dropout=0.3, model="attention"),
    )
    assert "Beside the model they differ in batch_size (see Recipes)." in text


def test_a_field_that_a_model_has_no_use_for_is_no_difference(write_run: WriteRun) -> None:
    full = write_run("1", recipe="a", metrics=metrics(140.0), epochs=3, model="attention", window_size=32)
    near = write_run("2", recipe="b", metrics=metrics(150.0), epochs=3, model="window", window_size=16)
    assert "Beside the model they differ" not in summary_of(full, near)
    nearer = write_run("3", recipe="c", metrics=metrics(155.0), epochs=3, model="hybrid", window_size=8)
    assert "Beside the model they differ in window_size (see Recipes)." in summary_of(full, near, nearer)


def test_one_look_at_valid_shows_no_improvement(write_run: WriteRun) -> None:
    runs = [
        write_run(
            name,
            recipe=name,
            metrics=metrics(140.0, epochs=10, best_epoch=10),
            epochs=10,
            events=[start(), epoch(10, 140.0)],
        )
        for name in ("a", "b")
    ]
    assert "Still improving" not in summary_of(*runs)


@pytest.mark.parametrize(("last", "improved"), [(181.0, False), (170.0, True)])
def test_where_the_last_epoch_counts_valid_says_whether_it_still_improved(
    write_run: WriteRun, last: float, improved: bool
) -> None:
    events = [start(), epoch(1, 301.2), epoch(2, 180.5), epoch(3, last)]
    run = write_run(metrics=metrics(140.0, epochs=3, best_epoch=3), events=events, epochs=3, restore_best_weights=False)
    # Alone, too: its number is no limit of what the model can do.
    assert ("Still improving on valid when the budget ended: table-02." in summary_of(run)) is improved


def test_a_rate_that_falls_to_0_shows_no_improvement_to_come(write_run: WriteRun) -> None:
    schedules = {"a": "constant", "b": "cosine", "c": "linear"}
    runs = [
        write_run(name, recipe=name, metrics=metrics(140.0, epochs=12, best_epoch=12), epochs=12, lr_scheduler=schedule)
        for name, schedule in schedules.items()
    ]
    text = summary_of(*runs)
    assert "Still improving on valid when the budget ended: a." in text
    assert "At their best on valid in the last epoch: b, c. The learning rate falls to 0 until then" in text
    assert "Still improving" not in summary_of(*runs[1:])
