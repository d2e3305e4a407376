"""The live table of a sweep, as a terminal shows it, and the lines that stay."""

import io
import re

import pytest
from rich.console import Console

from porism.runs.sweep import SweepTrial
from porism.sweep.display import ROWS, SweepDisplay

CONTROLS = re.compile(r"\x1b\[(?P<number>[?\d;]*)(?P<code>[A-Za-z])|(?P<move>[\r\n])|(?P<text>[^\x1b\r\n]+)")


def screen(written: str) -> list[str]:
    """The lines that a terminal shows once all of this was written to it, empty ones left out."""
    lines, row, column = [""], 0, 0
    for found in CONTROLS.finditer(written):
        if found["code"] == "A":
            row -= int(found["number"] or 1)
        elif found["code"] == "K":
            lines[row] = ""
        elif found["move"] == "\r":
            column = 0
        elif found["move"] == "\n":
            row, column = row + 1, 0
            lines += [""] * (row == len(lines))
        elif text := found["text"]:
            lines[row] = lines[row][:column].ljust(column) + text + lines[row][column + len(text) :]
            column += len(text)
    return [line.rstrip() for line in lines if line.strip()]


def display(
    stream: io.StringIO, lower_is_better: bool = True, terminal: bool = True, quiet: bool = False, height: int = 40
) -> SweepDisplay:
    console = Console(file=stream, force_terminal=terminal, width=100, height=height, legacy_windows=False)
    return SweepDisplay(console, "cross_entropy", lower_is_better, quiet)


WAITING = SweepTrial(4, {"hidden_size": 32, "dropout": None}, "waiting")
RUNNING = SweepTrial(3, {"hidden_size": 16, "dropout": 0.25}, "running", epoch=2)
WORSE = SweepTrial(1, {"hidden_size": 4, "dropout": 0.5}, "done", 5.25, epoch=9, seconds=1.26)
BETTER = SweepTrial(2, {"hidden_size": 8, "dropout": 0.125}, "done", 3.5, epoch=7, seconds=2.0)
DIVERGED = SweepTrial(3, {"hidden_size": 16, "dropout": 0.25}, "diverged", epoch=2, reason="the loss is nan")
PRUNED = SweepTrial(4, {"hidden_size": 32, "dropout": None}, "pruned", 4.0, epoch=1)
FIRST = "trial 1 of 4: hidden_size=4, dropout=0.5: valid cross entropy 5.25, 1.3 s, best so far"
SECOND = "trial 2 of 4: hidden_size=8, dropout=0.125: valid cross entropy 3.5, 2.0 s, best so far"
LAST = [
    "trial 3 of 4: hidden_size=16, dropout=0.25: diverged: the loss is nan",
    "trial 4 of 4: hidden_size=32, dropout=none: pruned at valid cross entropy 4",
]


def rows(shown: list[str]) -> list[list[str]]:
    """The cells of the table's rows, below its head and the line under it."""
    (head,) = (number for number, line in enumerate(shown) if line.split()[0] == "trial" and "outcome" in line)
    return [line.split() for line in shown[head + 2 :]]


def test_a_terminal_shows_who_is_on_the_way_then_the_best_and_in_the_end_the_lines_alone() -> None:
    stream = io.StringIO()
    with display(stream) as shown:
        shown.update([WORSE, SweepTrial(2, BETTER.setting, "running"), RUNNING, WAITING])
        now = screen(stream.getvalue())
        assert now[:2] == [FIRST, "4 trials: 2 running, 1 done, 1 waiting"]
        assert now[2].split() == ["trial", "hidden_size", "dropout", "valid", "cross", "entropy", "epoch", "outcome"]
        assert rows(now) == [
            ["2", "8", "0.125", "running"],
            ["3", "16", "0.25", "2", "running"],
            ["1", "4", "0.5", "5.25", "9", "done"],
            ["4", "32", "none", "waiting"],
        ]
        shown.update([WORSE, BETTER, RUNNING, WAITING])
        now = screen(stream.getvalue())
        # In place of the table before.
        assert now[:3] == [FIRST, SECOND, "4 trials: 1 running, 2 done, 1 waiting"]
        assert [row[0] for row in rows(now)] == ["3", "2", "1", "4"]
        shown.update([WORSE, BETTER, DIVERGED, PRUNED])
        assert [row[0] for row in rows(screen(stream.getvalue()))] == ["2", "1", "4", "3"]
    assert screen(stream.getvalue()) == [FIRST, SECOND, *LAST]


def test_where_higher_is_better_the_highest_comes_first() -> None:
    stream = io.StringIO()
    with display(stream, lower_is_better=False) as shown:
        shown.update([WORSE, BETTER])
        now = screen(stream.getvalue())
    assert [row[0] for row in rows(now)] == ["1", "2"]
    assert ["best so far" in line for line in now[:2]] == [True, False]


def test_elsewhere_there_is_a_line_for_each_trial_and_no_table() -> None:
    stream = io.StringIO()
    with display(stream, terminal=False) as shown:
        for trials in ([WORSE, RUNNING], [WORSE, BETTER, RUNNING], [WORSE, BETTER, DIVERGED, PRUNED]):
            shown.update([*trials, *[WAITING] * (4 - len(trials))])
    assert stream.getvalue().splitlines() == [FIRST, SECOND, *LAST]


def test_quiet_shows_nothing() -> None:
    stream = io.StringIO()
    with display(stream, quiet=True) as shown:
        shown.update([WORSE, BETTER, RUNNING])
    assert stream.getvalue() == ""


def test_what_was_done_before_has_no_line_and_still_is_the_best() -> None:
    stream = io.StringIO()
    with display(stream, terminal=False) as shown:
        shown.begin([BETTER, RUNNING])
        shown.update([WORSE, BETTER, RUNNING, WAITING])
    assert stream.getvalue().splitlines() == [FIRST.removesuffix(", best so far")]


@pytest.mark.parametrize(("height", "fit"), [(60, ROWS), (24, 18), (10, 4)])
def test_of_many_trials_the_table_shows_as_many_as_there_is_room_for(height: int, fit: int) -> None:
    stream = io.StringIO()
    trials = [SweepTrial(number, {"seed": number}, "waiting") for number in range(1, fit + 4)]
    first = [str(trial.number) for trial in trials[:fit]]
    with display(stream, height=height) as shown:
        shown.update(trials[:fit])
        assert [row[0] for row in rows(screen(stream.getvalue()))] == first
        shown.update(trials)
        *found, caption = rows(screen(stream.getvalue()))
    assert [row[0] for row in found] == first
    assert caption == ["and", "3", "more"]
