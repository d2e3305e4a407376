"""Formula, number and measured time of each model, in a terminal and on the page."""

from dataclasses import replace

import pytest
from rich.console import Console
from tests.report.conftest import WriteRun, metrics

from porism.report.comparison import entries_of, group_runs
from porism.report.page import write_report
from porism.report.sections import letters_used
from porism.report.table import costs_table
from porism.runs.record import read_run

COST = {
    "flops": {"formula": "2*B*H*T*(D + H)", "value": 30_000, "terms": {}},
    "backward": {"formula": "4*B*H*T*(D + H)", "value": 60_000, "terms": {}},
}


def test_a_row_has_the_formula_the_numbers_and_the_time(write_run: WriteRun) -> None:
    run = write_run(metrics=metrics(cost=COST, tokens_per_second=20_000.0))
    console = Console(width=160, color_system=None)
    with console.capture() as capture:
        console.print(costs_table([read_run(run)]))
    row = capture.get().strip().splitlines()[-1]
    # 90,000 operations in 50 microseconds.
    for text in ("table-02", "2*B*H*T*(D + H)", "30.0 kFLOP", "90.0 kFLOP", "50 µs", "1.8 GFLOP/s"):
        assert text in row


def test_runs_that_did_not_finish_have_no_costs(write_run: WriteRun) -> None:
    assert costs_table([read_run(write_run())]) is None


@pytest.mark.parametrize(("cost", "is_measured"), [(COST, True), ({"flops": COST["flops"]}, False)])
def test_the_page_tells_the_measured_time_beside_the_formulas(
    write_run: WriteRun, cost: object, is_measured: bool
) -> None:
    run = write_run(metrics=metrics(cost=cost, tokens_per_second=20_000.0))
    page = write_report([run], run / "report.html").read_text(encoding="utf-8")
    assert ("Measured in training: 50 µs per token" in page) is is_measured
    assert "50 µs measured" in page


def test_the_page_tells_the_sizes_that_give_the_number_of_one_token(write_run: WriteRun) -> None:
    """The formula is of a batch, the number beside it of one token: neither follows from the other without sizes."""
    sizes = {"B": 16, "D": 128, "H": 128, "T": 20, "V": 2135}
    cost = {"flops": {"formula": "2*B*H*T*(D + H + V)", "value": 612_096, "sizes": sizes, "units": 320}}
    page = write_report([run := write_run(metrics=metrics(cost=cost))], run / "report.html").read_text("utf-8")
    told = "FLOPs per token are the formulas at B=16, D=128, H=128, T=20, V=2,135, divided by 320 tokens."
    assert told in page
    one = {"flops": {"formula": "2*B*D", "value": 100, "sizes": {"B": 1, "D": 50}}}
    page = write_report([run := write_run("one", metrics=metrics(cost=one))], run / "report.html").read_text("utf-8")
    assert "FLOPs per token are the formulas at B=1, D=50." in page


def test_a_formula_with_sizes_put_in_says_which(write_run: WriteRun) -> None:
    cost = {kind: {**found, "at": "A=4, T=40"} for kind, found in COST.items()}
    run = write_run(metrics=metrics(cost=cost))
    console = Console(width=160, color_system=None)
    with console.capture() as capture:
        console.print(costs_table([read_run(run)]))
    assert "2*B*H*T*(D + H), at A=4, T=40" in capture.get()
    assert "at A=4, T=40" in write_report([run], run / "report.html").read_text(encoding="utf-8")


def test_what_follows_from_the_formulas_is_told_once(write_run: WriteRun) -> None:
    note = "By the formulas, all else alike, taylor takes fewer forward FLOPs than softmax from T=822 on; here T=40."
    runs = [
        write_run(name, recipe=name, metrics=metrics(test, cost=COST, cost_notes=[note]))
        for name, test in (("a", 150.0), ("b", 160.0))
    ]
    console = Console(width=200, color_system=None)
    with console.capture() as capture:
        console.print(costs_table([read_run(run) for run in runs]))
    assert " ".join(capture.get().split()).count(note) == 1
    page = write_report(runs, runs[0] / "report.html").read_text(encoding="utf-8")
    assert page.count(note) == 1
    # Outside of what is folded, so that it is seen.
    section = page[page.index("What it costs") :]
    assert section.index(note) < section.index("<details")


def test_what_holds_for_some_of_the_models_names_them(write_run: WriteRun) -> None:
    """That a step makes several runs of the net is so of one recipe, and of the others it is not."""
    note = "A step makes 2 of them."
    runs = [
        write_run(name, recipe=name, metrics=metrics(test, cost=COST, cost_notes=notes))
        for name, test, notes in (("a", 150.0, []), ("b", 160.0, [note]), ("c", 170.0, [note]))
    ]
    console = Console(width=200, color_system=None)
    with console.capture() as capture:
        console.print(costs_table([read_run(run) for run in runs]))
    page = write_report(runs, runs[0] / "report.html").read_text(encoding="utf-8")
    for told in (capture.get(), page):
        assert f"b, c: {note}" in told
        assert told.count(note) == 1


@pytest.mark.parametrize(
    ("task", "meaning"), [("language", "vocabulary"), ("images", "classes"), ("supervised", "outputs")]
)
def test_a_letter_means_what_it_stands_for_in_the_task(write_run: WriteRun, task: str, meaning: str) -> None:
    formula = {"formula": "2*B*H*V", "value": 30_000, "terms": {}}
    record = read_run(write_run(metrics=metrics(cost={"flops": formula})))
    record = replace(record, facts=replace(record.facts, task=task))
    assert letters_used(group_runs(entries_of([record])))["V"] == meaning
