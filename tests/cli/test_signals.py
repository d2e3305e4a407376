"""Whatever asks a training to end, it ends as on Ctrl-C: with a checkpoint, an event, a line and exit code 130."""

import os
import re
import shlex
import signal
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest
import torch
from tests.cli.child import Child, ChildOnTerminal
from tests.cli.conftest import TINY, Say
from tests.cli.test_closed_output import ENDLESS, GO_ON, events, steps_saved, train

from porism.tasks import find
from porism.training.device import choose_precision

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"])
def test_a_signal_to_end_saves_and_leaves_with_130(text: Path, tmp_path: Path, name: str) -> None:
    child = Child(train(text, *ENDLESS), tmp_path)
    child.wait_for("epoch   1")
    os.kill(child.process, signal.Signals[name])
    assert child.end() == (130, f"porism: {GO_ON}")
    stopped = events(tmp_path / "run")[-1]
    assert stopped["event"] == "interrupt"
    assert (stopped["epoch"], stopped["step"]) == steps_saved(tmp_path / "run")


def test_a_terminal_that_is_closed_saves_and_leaves_with_130(text: Path, tmp_path: Path) -> None:
    child = ChildOnTerminal(train(text, *ENDLESS), tmp_path)
    child.wait_for("epoch   1")
    assert child.hang_up() == 130
    assert events(tmp_path / "run")[-1]["event"] == "interrupt"


def ignore_hang_ups() -> None:
    """As nohup does."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


def test_under_nohup_a_training_outlives_its_terminal(text: Path, tmp_path: Path) -> None:
    child = Child(train(text, *ENDLESS), tmp_path, ignore_hang_ups)
    child.wait_for("epoch   1")
    os.kill(child.process, signal.SIGHUP)
    child.wait_for("epoch   2")
    child.wait_for("epoch   3")
    os.kill(child.process, signal.SIGTERM)
    assert child.end()[0] == 130
    assert [event["event"] for event in events(tmp_path / "run")].count("interrupt") == 1


def end_in(name: str) -> Callable[[], None]:
    """Sends SIGTERM to the process when it calls a function: by the place from which it is imported."""

    def before() -> None:
        place, _, function = name.rpartition(".")

        def ends(*arguments: object, **named: object) -> None:
            os.kill(os.getpid(), signal.SIGTERM)

        setattr(import_module(place), function, ends)

    return before


EVALUATION, REPORT = "porism.training.session.cost_table", "porism.report.page.write_report"


@pytest.mark.parametrize("phase", [EVALUATION, REPORT], ids=["evaluation", "report"])
def test_a_comparison_says_how_to_go_on_in_every_phase(say: Say, text: Path, tmp_path: Path, phase: str) -> None:
    command = ["compare", "language", "elman", "lstm", "--data", str(text), "--device", "cpu", "--out", "two words"]
    code, told = Child([*command, *TINY], tmp_path, end_in(phase)).end()
    assert code == 130
    assert told.startswith("porism: stopped at once. What was saved before is intact. Go on with: porism compare ")
    assert told.endswith(" --out 'two words' --resume\n")
    (line,) = re.findall("Go on with: (.*)", told)
    precision = choose_precision(find("language").recipes["elman"], torch.device("cpu"))
    assert {"--threads", "--device", "--seed", f"precision={precision}"} <= set(shlex.split(line))
    assert say(shlex.split(line)[1:]).code == 0
    assert Path("two words/report.html").is_file()


def test_a_comparison_that_is_stopped_while_it_trains_says_the_whole_command(text: Path, tmp_path: Path) -> None:
    both = ["compare", "language", "elman", "lstm", "--data", str(text), "--device", "cpu", "--out", "both"]
    child = Child([*both, *ENDLESS, "--set=precision=fp32"], tmp_path)
    child.wait_for("epoch   1")
    os.kill(child.process, signal.SIGTERM)
    code, told = child.end()
    assert code == 130
    assert told.startswith(
        "porism: stopped, and saved. Go on with: porism compare language elman lstm --set hidden_size=8"
    )
    assert told.endswith(" --device cpu --seed 1 --out both --resume\n")


def test_a_training_that_is_stopped_while_it_is_evaluated_says_how_to_go_on(text: Path, tmp_path: Path) -> None:
    child = Child(train(text, *TINY), tmp_path, end_in(EVALUATION))
    assert child.end() == (
        *(130, "porism: stopped at once. What was saved before is intact. Go on with: porism train --resume run\n"),
    )
