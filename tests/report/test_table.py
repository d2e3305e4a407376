"""The table says what metrics.json says, in a terminal of any width."""

from pathlib import Path

import pytest
from rich.console import Console
from tests.report.conftest import WriteRun, metrics

from porism.report.comparison import entries_of
from porism.report.table import Column, columns, table
from porism.runs.record import read_run


def columns_of(*folders: Path) -> dict[str, Column]:
    made = columns(entries_of([read_run(folder) for folder in folders]))
    return {column.title.replace("\n", " "): column for column in made}


def texts(column: Column) -> list[str]:
    return [cell.text for cell in column.cells]


def shown(*folders: Path, width: int = 200) -> str:
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(table([read_run(folder) for folder in folders], width))
    return capture.get()


def test_every_number_is_the_measured_one(write_run: WriteRun) -> None:
    made = columns_of(write_run(metrics=metrics(154.92)))
    assert {title: column.cells[0].text for title, column in made.items()} == {
        "model": "table-02",
        "parameters": "1,525,100",
        "forward per token": "30.0 kFLOP",
        "epochs": "3",
        "training time": "3 min 12 s",
        "tokens/s": "21,291",
        "train": "108.4",
        "valid": "170.4",
        "test": "154.9",
        "published": "159.6",
        "difference": "−4.7",
    }
    assert made["test"].cells[0].value == 154.92
    assert made["difference"].cells[0].value == pytest.approx(154.92 - 159.64)


def test_the_limit_has_columns_where_it_is_known(write_run: WriteRun) -> None:
    made = columns_of(write_run(metrics=metrics(150.0, limit={"test": {"perplexity": 120.0}})))
    assert texts(made["limit"]) == ["120.0"]
    assert texts(made["from the limit"]) == ["+30.0"]


@pytest.mark.parametrize(("lower", "best"), [(True, [False, True, False]), (False, [True, False, False])])
def test_the_best_is_marked_the_right_way_round(write_run: WriteRun, lower: bool, best: list[bool]) -> None:
    folders = [
        write_run("a", recipe="a", metrics=metrics(150.0, lower_is_better=lower)),
        write_run("b", recipe="b", metrics=metrics(140.0, lower_is_better=lower)),
        write_run("c", recipe="c"),
    ]
    assert [cell.best for cell in columns_of(*folders)["test"].cells] == best


def test_one_run_alone_is_not_marked_best(write_run: WriteRun) -> None:
    assert not columns_of(write_run(metrics=metrics()))["test"].cells[0].best


def test_an_unfinished_run_stands_there_with_what_it_has(write_run: WriteRun) -> None:
    folders = write_run("a", metrics=metrics()), write_run("b", recipe="table-03")
    made = columns_of(*folders)
    assert texts(made["test"]) == ["154.9", "–"]
    assert texts(made["valid"]) == ["170.4", "180.5"]
    assert texts(made["training time"]) == ["3 min 12 s", "30.0 s"]
    assert "table-03 (unfinished)" in shown(*folders)


def test_runs_are_told_apart(write_run: WriteRun) -> None:
    folders = [
        write_run("a", seed=1),
        write_run("b", seed=2),
        write_run("c", hidden=200),
        write_run("d", recipe="table-03"),
        write_run("e", recipe="table-03"),
    ]
    assert texts(columns_of(*folders)["model"]) == [
        "table-02 · hidden_size=100 · seed 1",
        "table-02 · hidden_size=100 · seed 2",
        "table-02 · hidden_size=200",
        "table-03 · d",
        "table-03 · e",
    ]


def test_tasks_of_different_kinds_get_columns_that_say_so(write_run: WriteRun) -> None:
    graded = metrics(
        0.81,
        metric="accuracy",
        lower_is_better=False,
        metrics={"valid": {"accuracy": 0.82}, "test": {"accuracy": 0.81}},
        published={},
    )
    folders = write_run("a", metrics=metrics()), write_run("b", task="graphs", source="cora", metrics=graded)
    made = columns_of(*folders)
    assert texts(made["task"]) == ["language", "graphs"]
    assert texts(made["data"]) == ["ptb", "cora"]
    assert texts(made["metric"]) == ["perplexity", "accuracy"]
    assert texts(made["test"]) == ["154.9", "0.8100"]
    assert not any(cell.best for cell in made["test"].cells)
    assert "Perplexity, lower is better; accuracy, higher is better" in shown(*folders)


@pytest.mark.parametrize("width", [40, 63, 80, 200])
def test_a_narrow_terminal_loses_columns_but_no_figures(write_run: WriteRun, width: int) -> None:
    text = shown(write_run(metrics=metrics()), width=width)
    assert all(len(line) <= width for line in text.splitlines())
    assert "154.9" in text
    assert "…" not in text
    assert ("No room for: tokens/s" in " ".join(text.split())) == (width < 200)


def test_names_are_no_markup(write_run: WriteRun) -> None:
    assert "[red]x" in shown(write_run(recipe="[red]x"))
