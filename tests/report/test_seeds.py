"""Runs of one model from several seeds, in one row."""

from pathlib import Path

from rich.console import Console
from tests.report.conftest import WriteRun, metrics

from porism.report.comparison import entries_of, group_runs
from porism.report.page import write_report
from porism.report.seeds import has_seeds, seeds_table
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
