"""The summary says what the runs show, and how far that can be trusted."""

from pathlib import Path

import pytest
from tests.report.conftest import WriteRun, metrics

from porism.report.comparison import entries_of, group_runs
from porism.report.summary import summarise
from porism.runs.record import read_run


def summary_of(*folders: Path) -> str:
    (group,) = group_runs(entries_of([read_run(folder) for folder in folders]))
    return summarise(group)


def test_one_run(write_run: WriteRun) -> None:
    assert summary_of(write_run(metrics=metrics(154.92))) == (
        "table-02 reaches a test perplexity of 154.9 after 3 epochs and 3 min 12 s of training on cpu, "
        "with 1,525,100 parameters and 30.0 kFLOP forward per token. That is 4.7 below the published 159.6. "
        "One seed: how much of this is chance cannot be concluded from it."
    )


@pytest.mark.parametrize(
    ("lower", "opening"),
    [
        (True, "b is best of 2 models: its test perplexity of 150.0 is 10.0 (6.2 %) below that of the next best, a."),
        (False, "a is best of 2 models: its test perplexity of 160.0 is 10.0 (6.7 %) above that of the next best, b."),
    ],
)
def test_two_models(write_run: WriteRun, lower: bool, opening: str) -> None:
    text = summary_of(
        write_run("1", recipe="a", metrics=metrics(160.0, lower_is_better=lower)),
        write_run("2", recipe="b", metrics=metrics(150.0, lower_is_better=lower)),
    )
    assert text.startswith(opening)
    assert "It has as many parameters and as many forward FLOPs per token." in text
    assert "Published numbers bettered: 1 of 2." in text
    assert "One seed each" in text


def test_models_that_trained_for_longer_are_named(write_run: WriteRun) -> None:
    runs = [
        write_run("1", recipe="a", metrics=metrics(140.0, epochs=12)),
        write_run("2", recipe="b", metrics=metrics(150.0, epochs=4)),
        write_run("3", recipe="c", metrics=metrics(150.0, epochs=12)),
    ]
    assert (
        "Their training differs: 12 epochs for a, 4 for b, so this is no comparison of the models alone."
        in summary_of(runs[0], runs[1])
    )
    assert "training differs" not in summary_of(runs[0], runs[2])


def test_the_cost_of_being_best_and_the_smallest_are_named(write_run: WriteRun) -> None:
    text = summary_of(
        write_run("1", recipe="big", metrics=metrics(140.0, parameters=3_000_000)),
        write_run("2", recipe="middle", metrics=metrics(150.0, parameters=2_000_000)),
        write_run("3", recipe="small", metrics=metrics(160.0, parameters=1_000_000)),
    )
    assert "It has 1.5 times the parameters" in text
    assert "The smallest, small, comes to 160.0 with 1,000,000 parameters." in text


@pytest.mark.parametrize(("second", "verdict"), [(149.0, "overlap"), (160.0, "do not overlap")])
def test_several_seeds(write_run: WriteRun, second: float, verdict: str) -> None:
    text = summary_of(
        write_run("1", recipe="a", seed=1, metrics=metrics(140.0)),
        write_run("2", recipe="a", seed=2, metrics=metrics(150.0)),
        write_run("3", recipe="b", seed=1, metrics=metrics(second)),
        write_run("4", recipe="b", seed=2, metrics=metrics(170.0)),
    )
    assert text.startswith("a is best of 2 models: its test perplexity of 145.0 is")
    assert "Means over 2 seeds; those of a run from 140.0 to 150.0." in text
    assert f"They {verdict} with those of b." in text
    assert "One seed" not in text


def test_the_limit_is_told(write_run: WriteRun) -> None:
    text = summary_of(write_run(metrics=metrics(150.0, limit={"test": {"perplexity": 120.0}})))
    assert "The best that any model can expect on this data is 120.0." in text


def test_unfinished_and_astray_runs_are_not_ranked(write_run: WriteRun) -> None:
    text = summary_of(
        write_run("1", recipe="a", metrics=metrics(150.0)),
        write_run("2", recipe="b"),
        write_run("3", recipe="c", metrics=metrics(float("inf"))),
    )
    assert text.startswith("a reaches a test perplexity of 150.0")
    assert text.endswith("Not ranked for want of a final number: b, c.")


def test_nothing_finished(write_run: WriteRun) -> None:
    assert summary_of(write_run()) == "No run has come to a final number yet; below is what there is so far."


def test_data_seen_in_different_forms_is_told(write_run: WriteRun) -> None:
    text = summary_of(
        write_run("1", recipe="a", metrics=metrics(150.0)),
        write_run("2", recipe="b", metrics=metrics(140.0), fingerprint="cd34"),
    )
    assert "compare with care" in text
