"""Runs of one model from several seeds, in one row."""

import json
from pathlib import Path

from rich.console import Console
from tests.report.conftest import WriteRun, metrics

from porism.report.comparison import entries_of, group_runs
from porism.report.contest import contest, describe
from porism.report.page import write_report
from porism.report.seeds import has_seeds, models_of, seeds_of, seeds_table
from porism.runs.record import read_run


def test_seeds_make_one_row_with_its_interval(write_run: WriteRun, tmp_path: Path) -> None:
    paths = [write_run(f"run-{seed}", metrics=metrics(150.0 + seed), seed=seed) for seed in (1, 2, 3)]
    groups = group_runs(entries_of([read_run(path) for path in paths]))
    assert has_seeds(groups)
    console = Console(width=120, color_system=None)
    with console.capture() as capture:
        console.print(seeds_table(groups[0]))
    row = capture.get().strip().splitlines()[-1]
    # Student's 4.303 for two degrees of freedom, over the root of three.
    assert "152.0 ± 2.5" in row
    assert " 3 " in row
    page = write_report(paths, tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<h2>Over seeds</h2>" in page
    assert "152.0 ± 2.5" in page


def test_a_single_seed_gets_no_such_table(write_run: WriteRun, tmp_path: Path) -> None:
    run = write_run(metrics=metrics())
    assert not has_seeds(group_runs(entries_of([read_run(run)])))
    assert "Over seeds" not in write_report([run], tmp_path / "report.html").read_text(encoding="utf-8")


def test_the_interval_says_what_it_covers(write_run: WriteRun, tmp_path: Path) -> None:
    """Seeds differ by 0.001; 1,000 test nodes alone leave 0.025."""
    paths = []
    for seed, right in enumerate((815, 816, 814), 1):
        splits = {"valid": {"accuracy": 0.8}, "test": {"accuracy": right / 1000}}
        content = metrics(metrics=splits, metric="accuracy", lower_is_better=False, published={}, cost={})
        paths.append(write_run(f"run-{seed}", task="graphs", seed=seed, metrics=content))
        (paths[-1] / "outcomes.json").write_text(json.dumps({"test": "1" * right + "0" * (1000 - right)}))
    page = write_report(paths, tmp_path / "report.html").read_text(encoding="utf-8")
    assert "0.8150 ± 0.0025" in page
    assert "one test set; its 1,000 nodes alone leave table-02 · seed 1 at 0.815 (0.790 to 0.839)." in page


def test_the_interval_of_a_run_without_errors_has_one_side(write_run: WriteRun) -> None:
    """24 of 24: as little as 0.86 is possible, which half of the width, 0.07, would hide."""
    splits = {"valid": {"accuracy": 1.0}, "test": {"accuracy": 1.0}}
    content = metrics(metrics=splits, metric="accuracy", lower_is_better=False, published={}, cost={})
    paths = [write_run(f"run-{seed}", task="graphs", seed=seed, metrics=content) for seed in (1, 2)]
    for path in paths:
        (path / "outcomes.json").write_text(json.dumps({"test": "1" * 24}))
    (group,) = group_runs(entries_of([read_run(path) for path in paths]))
    assert seeds_of(group).coverage.endswith("its 24 nodes alone leave table-02 · seed 1 at 1.000 (0.858 to 1.000).")


def test_seeds_may_draw_the_split_too(write_run: WriteRun, tmp_path: Path) -> None:
    """Then the data differs from seed to seed, and is the same for all models of one seed."""
    paths = [
        write_run(f"{name}-{seed}", recipe=name, seed=seed, fingerprint=f"{seed}" * 4, split="random", split_seed=seed,
                  metrics=metrics(score + seed))
        for name, score in (("a", 100.0), ("b", 110.0)) for seed in (1, 2, 3)
    ]  # fmt: skip
    (group,) = group_runs(entries_of([read_run(path) for path in paths]))
    assert [(model.name, len(model.entries)) for model in models_of(group)] == [("a", 3), ("b", 3)]
    page = write_report(paths, tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Every seed drew its own split of the data: the intervals are of the mean over both." in page
    assert "in pairs over 3 seeds" in page


def test_seeds_on_other_splits_are_no_pairs(write_run: WriteRun) -> None:
    paths = [
        write_run(f"{name}-{seed}", recipe=name, seed=seed, fingerprint=f"{name}{seed}", split="random",
                  split_seed=seed, metrics=metrics(100.0 + seed))
        for name in "ab" for seed in (1, 2)
    ]  # fmt: skip
    (group,) = group_runs(entries_of([read_run(path) for path in paths]))
    (pair,) = contest(group, models_of(group)).pairs
    assert pair.leads == ()
    assert describe(group, pair) == "a and b were scored on different examples, also from seed 1."
