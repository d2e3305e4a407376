"""A reader that leaves, a terminal that is closed, a log on a full disk: no traceback, and nothing trained is lost."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.cli.child import Child
from tests.cli.conftest import TINY, Say

from porism.runs import checkpoint

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

ENDLESS = [*TINY, "--set=epochs=100000", "--set=patience=100000"]
GO_ON = "stopped, and saved. Go on with: porism train --resume run\n"


def train(text: Path, *words: str) -> list[str]:
    return ["train", "language", "--data", str(text), "--device", "cpu", "--out", "run", *words]


def events(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]


def steps_saved(run: Path) -> tuple[int, int]:
    position = checkpoint.read(run / "last").state["position"]
    return position["epoch"], position["step"]


def close_output() -> None:
    """As `| true` does before anything is written."""
    read, write = os.pipe()
    os.close(read)
    os.dup2(write, sys.stdout.fileno())


def close_all_output() -> None:
    close_output()
    os.dup2(sys.stdout.fileno(), sys.stderr.fileno())


def onto_a_full_disk() -> None:
    os.dup2(os.open("/dev/full", os.O_WRONLY), sys.stdout.fileno())


def without_output() -> None:
    """As a process that is started by `>&-`."""
    os.close(1)
    sys.stdout = None


def test_a_training_whose_reader_leaves_stops_with_a_checkpoint(text: Path, tmp_path: Path) -> None:
    child = Child(train(text, *ENDLESS), tmp_path)
    child.wait_for("epoch   1")
    child.out.close()
    assert child.end() == (130, f"porism: nobody reads the output: {GO_ON}")
    stopped = events(tmp_path / "run")[-1]
    assert stopped["event"] == "interrupt"
    assert (stopped["epoch"], stopped["step"]) == steps_saved(tmp_path / "run")


def test_a_training_that_nobody_reads_from_the_start_stops_at_its_first_step(text: Path, tmp_path: Path) -> None:
    assert Child(train(text, *ENDLESS), tmp_path, close_output).end() == (
        130,
        f"porism: nobody reads the output: {GO_ON}",
    )
    assert steps_saved(tmp_path / "run") == (1, 1)


def test_a_training_whose_every_reader_leaves_has_nobody_to_complain_to(text: Path, tmp_path: Path) -> None:
    assert Child(train(text, *ENDLESS), tmp_path, close_all_output).end() == (130, "")
    assert events(tmp_path / "run")[-1]["event"] == "interrupt"


def test_a_comparison_whose_reader_leaves_goes_on_by_resume(say: Say, text: Path, tmp_path: Path) -> None:
    command = ["compare", "language", "elman", "--data", str(text), "--device", "cpu", "--out", "one", *TINY]
    code, shown = Child(command, tmp_path, close_output).end()
    assert code == 130
    assert shown.endswith("--out one --resume\n")
    assert "Go on with: porism compare language elman " in shown
    assert say(command, "--resume").code == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_log_on_a_full_disk_stops_a_training_with_a_checkpoint(text: Path, tmp_path: Path) -> None:
    lost = "the output cannot be written (No space left on device)"
    assert Child(train(text, *ENDLESS), tmp_path, onto_a_full_disk).end() == (130, f"porism: {lost}: {GO_ON}")
    assert steps_saved(tmp_path / "run") == (1, 1)
    assert Child(["data", "list"], tmp_path, onto_a_full_disk).end() == (2, f"porism: {lost}.\n")


def test_a_result_that_nobody_reads_is_on_the_disk(text: Path, tmp_path: Path) -> None:
    code, shown = Child(train(text, *TINY, "--json"), tmp_path, close_output).end()
    assert code == 141
    assert "report: run/report.html" in shown
    assert (tmp_path / "run/metrics.json").exists()


def test_a_process_without_standard_output_trains(text: Path, tmp_path: Path) -> None:
    assert Child(train(text, *TINY), tmp_path, without_output).end() == (0, "")
    assert (tmp_path / "run/metrics.json").exists()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("closed")
    (folder / "text.txt").write_text("the cat sees the dog\nthe dog hears the cat\n" * 60)
    assert Child(train(folder / "text.txt", *TINY), folder).end() == (0, "")
    return folder / "run"


@pytest.mark.parametrize(
    "command",
    ["--help", "--version", "train --help", "train language --recipes", "data list", "bench", "report RUN",
     "evaluate RUN", "predict RUN the", "check claims --id 000-24", "cost window --draw"],
)  # fmt: skip
def test_a_command_whose_reader_leaves_ends_in_silence(run: Path, tmp_path: Path, command: str) -> None:
    words = command.replace("RUN", str(run)).split()
    assert Child(words, tmp_path, close_output).end() == (141, "")
