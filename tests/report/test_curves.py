"""The plots show every run, in the page's colours, the same every time."""

import re
from pathlib import Path

import pytest
from tests.report.conftest import WriteRun, epoch, metrics, start

from porism.report.comparison import entries_of, group_runs
from porism.report.curves import Plot, other_plots, plots
from porism.runs.record import read_run


def drawn(*folders: Path, prefix: str = "plot") -> list[Plot]:
    (group,) = group_runs(entries_of([read_run(folder) for folder in folders]))
    return plots(group, prefix)


def test_one_run_has_its_curves_over_epochs_and_seconds(write_run: WriteRun) -> None:
    titles = [plot.title for plot in drawn(write_run(metrics=metrics()))]
    assert titles == ["Valid and train perplexity over epochs", "Valid and train perplexity over seconds"]


def test_two_finished_runs_are_set_against_their_costs(write_run: WriteRun) -> None:
    folders = [write_run(name, recipe=name, metrics=metrics(150.0 + n)) for n, name in enumerate("ab")]
    assert [plot.title for plot in drawn(*folders)][2:] == [
        "Test perplexity against parameters",
        "Test perplexity against forward FLOPs per token",
    ]


def test_no_accuracy_above_one_is_drawn(write_run: WriteRun) -> None:
    scores = {"train": {"accuracy": 1.0}, "valid": {"accuracy": 0.99}, "test": {"accuracy": 0.995}}
    found = metrics(metrics=scores, metric="accuracy", lower_is_better=False, published={})
    folders = [write_run(name, recipe=name, metrics=found) for name in "ab"]
    against_parameters = next(plot.svg for plot in drawn(*folders) if plot.title == "Test accuracy against parameters")
    ticks = [float(text) for text in re.findall(r">(\d\.\d+)</text>", against_parameters)]
    assert ticks
    assert max(ticks) <= 1


def test_many_runs_have_train_and_valid_apart(write_run: WriteRun) -> None:
    titles = [plot.title for plot in drawn(*(write_run(name, recipe=name) for name in "abcd"))]
    assert titles[::2] == ["Valid perplexity over epochs", "Train perplexity over epochs"]


def test_where_training_reports_its_loss_alone_that_is_drawn(write_run: WriteRun) -> None:
    events = [start(), epoch(1, 300.0) | {"train": {"loss": 6.1}}, epoch(2, 200.0) | {"train": {"loss": 5.1}}]
    titles = [plot.title for plot in drawn(write_run(events=events))]
    assert titles[::2] == ["Valid perplexity over epochs", "Train loss over epochs"]


def test_every_other_metric_has_a_small_plot_of_its_own(write_run: WriteRun) -> None:
    """Its loss on train and valid in one, whatever a task calls it; a constant in none."""
    scores = [
        {
            "train": {"cross_entropy": loss},
            "valid": {"accuracy": right, "cross_entropy": loss + 0.1, "auc": right + 0.1, "chance_accuracy": 0.5},
        }
        for loss, right in ((1.5, 0.4), (0.5, 0.8))
    ]
    judged = metrics(metric="accuracy", limit={"valid": {"cross_entropy": 0.25}})
    events = [start(), *(epoch(n, 1.0) | score for n, score in enumerate(scores, 1))]
    (group,) = group_runs(entries_of([read_run(write_run(events=events, metrics=judged))]))
    main, others = plots(group, "plot"), other_plots(group, "other")
    assert [plot.title for plot in main][::2] == [
        "Valid accuracy over epochs",
        "Valid and train cross entropy over epochs",
    ]
    assert [plot.title for plot in others] == ["Valid AUC over epochs"]
    # The best possible loss, and no other, is marked.
    assert [">limit<" in plot.svg for plot in main] == [False, False, True, True]


def test_a_run_that_has_just_begun_has_no_curves(write_run: WriteRun) -> None:
    assert drawn(write_run(events=[start()])) == []


@pytest.mark.parametrize("value", [None, float("nan"), float("inf")])
def test_an_epoch_without_a_number_is_left_out(write_run: WriteRun, value: float | None) -> None:
    astray = epoch(2, 200.0) | {"valid": {"perplexity": value}, "train": {"perplexity": value}}
    assert len(drawn(write_run(events=[start(), epoch(1, 300.0), astray]))) == 2


def test_every_run_is_there_and_says_its_name(write_run: WriteRun) -> None:
    folders = [write_run(f"{n}", recipe=f"<{n}>", metrics=metrics(150.0 + n)) for n in range(13)]
    for plot in drawn(*folders):
        assert all(f"<title>&lt;{n}&gt; (" in plot.svg for n in range(13))
        assert {f"var(--series-{n})" for n in range(1, 13)} <= set(re.findall(r"var\(--series-\d+\)", plot.svg))
        assert "var(--series-13)" not in plot.svg


def test_no_colour_is_fixed(write_run: WriteRun) -> None:
    folders = [write_run(name, recipe=name, metrics=metrics(150.0 + n)) for n, name in enumerate("ab")]
    for plot in drawn(*folders):
        colours = re.findall(r'(?:fill|stroke)="([^"]*)"', plot.svg)
        assert set(colours) == {"currentColor", "none", "var(--paper)", "var(--series-1)", "var(--series-2)"}


def test_no_id_is_used_twice(write_run: WriteRun) -> None:
    folders = [write_run(name, recipe=name, metrics=metrics(150.0 + n)) for n, name in enumerate("ab")]
    everything = "".join(plot.svg for plot in [*drawn(*folders, prefix="one"), *drawn(*folders, prefix="two")])
    ids = re.findall(r'\bid="([^"]+)"', everything)
    assert len(ids) == len(set(ids)) > 0


def test_the_same_runs_give_the_same_drawing(write_run: WriteRun) -> None:
    folder = write_run(metrics=metrics())
    assert drawn(folder) == drawn(folder)


def test_a_metric_with_a_dollar_is_no_mathematics(write_run: WriteRun) -> None:
    odd = metrics(metric="$\\frac$", metrics={"test": {"$\\frac$": 1.0}})
    assert drawn(write_run(events=[start(), epoch(1, 2.0) | {"valid": {"$\\frac$": 1.0}}], metrics=odd))


def test_numbers_beside_points_do_not_cover_each_other(write_run: WriteRun) -> None:
    folders = [write_run(f"{n}", recipe=f"{n}", metrics=metrics(150.0 + 0.01 * n)) for n in range(1, 8)]
    scatter = next(plot.svg for plot in drawn(*folders) if "against parameters" in plot.title)
    heights = [float(y) for y in re.findall(r'<text [^>]*y="([\d.]+)"[^>]*>[1-7]</text>', scatter)]
    assert len(heights) == 7
    assert min(abs(a - b) for i, a in enumerate(heights) for b in heights[:i]) > 8


@pytest.mark.parametrize("scores", [(0.0, 150.0), (0.0, -1.0), (1e300, 2.0)])
def test_a_perplexity_that_cannot_be_is_left_out(write_run: WriteRun, scores: tuple[float, float]) -> None:
    folders = [
        write_run(f"{n}", recipe=f"{n}", metrics=metrics(metrics={"test": {"perplexity": score}}))
        for n, score in enumerate(scores)
    ]
    scatter = next(plot.svg for plot in drawn(*folders) if "against parameters" in plot.title)
    assert len(re.findall(r"<title>", scatter)) == sum(0 < score < 1e150 for score in scores)
