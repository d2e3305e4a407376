"""What is concluded from the runs of an experiment: no more than they show."""

import json
from pathlib import Path

from tests.report.conftest import WriteRun, metrics

from porism.report.experiment import answer
from porism.report.page import write_report
from porism.runs.record import read_run
from porism.training.experiment import Experiment

EXPERIMENT = Experiment(
    "rates", "Is pooling better than strides?", ("pooled", "strided"), {"rate": (0.1, 0.01)}, seeds=3
)


def runs(write_run: WriteRun, tests: dict[str, list[float]], outcomes: dict[str, str] | None = None) -> list[Path]:
    """Accuracies by `recipe rate`, one a seed; `valid` is a tenth less than `test`."""
    paths = []
    for name, scores in tests.items():
        recipe, rate = name.split()
        for seed, score in enumerate(scores, 1):
            splits = {"valid": {"accuracy": score - 0.1}, "test": {"accuracy": score}}
            content = metrics(metrics=splits, metric="accuracy", lower_is_better=False, published={}, cost={})
            path = write_run(f"{recipe}-{rate}-{seed}", metrics=content, recipe=recipe, seed=seed, rate=float(rate))
            if outcomes:
                (path / "outcomes.json").write_text(json.dumps({"test": outcomes[recipe]}))
            paths.append(path)
    return paths


def conclusion(paths: list[Path]) -> str:
    return " ".join(answer(EXPERIMENT, [read_run(path) for path in paths]).sentences)


def test_each_recipe_takes_the_setting_that_suits_it_on_valid(write_run: WriteRun) -> None:
    scores = {
        "pooled 0.1": [0.70, 0.71, 0.72],
        "pooled 0.01": [0.80, 0.81, 0.82],
        "strided 0.1": [0.78, 0.79, 0.80],
        "strided 0.01": [0.60, 0.61, 0.62],
    }
    found = answer(EXPERIMENT, [read_run(path) for path in runs(write_run, scores)])
    assert [model.name for model in found.models] == ["pooled · rate=0.01", "strided · rate=0.1"]


def test_what_else_was_measured_stands_beside_the_metric(write_run: WriteRun, tmp_path: Path) -> None:
    splits = {"valid": {"accuracy": 0.7}, "test": {"accuracy": 0.8, "gradient_bias": 0.125}}
    content = metrics(metrics=splits, metric="accuracy", lower_is_better=False, published={}, cost={})
    path = write_run("pooled-1", metrics=content, recipe="pooled", seed=1)
    page = write_report([path], tmp_path / "page.html", experiment=EXPERIMENT).read_text()
    assert "gradient bias" in page
    assert "0.1250" in page


def test_a_lead_larger_than_chance_is_called_one(write_run: WriteRun) -> None:
    text = conclusion(runs(write_run, {"pooled 0.1": [0.90, 0.91, 0.92], "strided 0.1": [0.80, 0.805, 0.82]}))
    assert "pooled is ahead of strided" in text
    assert "So pooled is the better of the two on this data." in text


def test_a_lead_within_chance_allows_no_conclusion(write_run: WriteRun) -> None:
    text = conclusion(runs(write_run, {"pooled 0.1": [0.80, 0.84, 0.82], "strided 0.1": [0.83, 0.80, 0.82]}))
    assert "it cannot be concluded" in text
    assert "better of the two" not in text


def test_a_lead_that_single_test_sets_do_not_show_is_said_to_be_one(write_run: WriteRun) -> None:
    scores = {"pooled 0.1": [0.90, 0.91, 0.92], "strided 0.1": [0.88, 0.89, 0.90]}
    text = conclusion(runs(write_run, scores, {"pooled": "1110", "strided": "1101"}))
    assert "McNemar's test on the same tokens gives p from 1 to 1, below 0.05 in 0 of 3 seeds" in text
    assert "single runs do not show it" in text


def test_one_seed_decides_nothing(write_run: WriteRun) -> None:
    text = conclusion(runs(write_run, {"pooled 0.1": [0.99], "strided 0.1": [0.10]}))
    assert "One seed cannot tell pooled from strided: add seeds." in text


def test_the_page_asks_and_answers(write_run: WriteRun, tmp_path: Path) -> None:
    paths = runs(write_run, {"pooled 0.1": [0.90, 0.91, 0.92], "strided 0.1": [0.80, 0.805, 0.82]})
    page = write_report(paths, tmp_path / "report.html", experiment=EXPERIMENT).read_text(encoding="utf-8")
    assert "<h2>Is pooling better than strides?</h2>" in page
    assert "So pooled is the better of the two" in page
    assert "0.9100 ± 0.0248" in page
