"""Whatever asks a training to end, it ends as on Ctrl-C: with a checkpoint, an event, a line and exit code 130."""

import os
import signal
from pathlib import Path

import pytest
from tests.cli.child import Child, ChildOnTerminal
from tests.cli.test_closed_output import ENDLESS, GO_ON, events, steps_saved, train

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
