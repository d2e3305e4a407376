"""A disk that does not let a sweep write ends it in one line, and is the outcome of no trial."""

import errno
import json
import math
import os
import shlex
from pathlib import Path
from typing import Any

import pytest
from tests.sweep.conftest import Plan, words

from porism.cli import main
from porism.errors import DiskError
from porism.sweep import chosen
from porism.sweep.queue import TrialQueue, Where
from porism.sweep.storage import JOURNAL
from porism.training import progress_events

GO_ON = "Once that is put right, go on with: the same command with --resume."


def sweep(out: Path, text: Path, *more: str) -> list[str]:
    return ["sweep", "language", "elman", "--data", str(text), "--out", str(out), "--json", *more, *words()]


def outcomes(told: str) -> list[tuple[str, float]]:
    return [(trial["outcome"], trial["valid"]) for trial in json.loads(told.splitlines()[-1])["trials"]]


class Disk:
    """Lets so many files be synced, and is full from then on.

    No line of progress is among them: there is one a second, and how many seconds a sweep takes is up to the machine.
    """

    def __init__(self, room: int | None, patch: pytest.MonkeyPatch) -> None:
        self.room, self.synced, self._sync = room, 0, os.fsync
        patch.setattr(os, "fsync", self.sync)
        patch.setattr(progress_events, "EVERY_SECONDS", math.inf)

    def sync(self, descriptor: int) -> None:
        self.synced += 1
        if self.room is not None and self.synced > self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._sync(descriptor)


@pytest.fixture(scope="module")
def whole(text: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """A sweep with room enough, and how often it synced until its trials were done.

    What it syncs after them depends on what is in the cache folder: the formulas of its model, or not yet.
    """
    out, syncs, evaluate_runs = tmp_path_factory.mktemp("whole") / "grid", list[int](), chosen.evaluate_runs

    def noted(*arguments: Any) -> list[dict[str, Any]]:
        syncs.append(disk.synced)
        return evaluate_runs(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("porism.report.sweep_plots.draw", lambda *_, **__: "<svg></svg>")
        patch.setattr(chosen, "evaluate_runs", noted)
        disk = Disk(None, patch)
        assert main(sweep(out, text)) == 0
    return out, syncs[0]


@pytest.mark.sweep(3)
@pytest.mark.parametrize("part", [0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85])
def test_a_sweep_that_fills_the_disk_goes_on_once_there_is_room(
    part: float,
    whole: tuple[Path, int],
    text: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out, (straight, syncs) = tmp_path / "grid", whole
    with monkeypatch.context() as patch:
        Disk(int(part * syncs), patch)
        assert main(sweep(out, text)) == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith(f"porism: the disk is full: {out}")
    command = line.partition("Once that is put right, go on with: ")[2]
    assert main([*shlex.split(command)[1:], "--json"]) == 0
    resumed = outcomes(capsys.readouterr().out)
    assert main(sweep(straight, text, "--resume")) == 0
    assert resumed == outcomes(capsys.readouterr().out)
    assert [outcome for outcome, _ in resumed] == ["done"] * 4


@pytest.mark.parametrize(("taken", "workers"), [("trial-001", "1"), ("trial-001", "2"), ("trial-001/.lock/x", "1")])
def test_a_place_that_cannot_be_written_ends_the_sweep_and_not_the_trial(
    taken: str, workers: str, text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "grid"
    (out / taken).parent.mkdir(parents=True, exist_ok=True)
    (out / taken).write_text("somebody's\n")
    assert main(sweep(out, text, "--workers", workers)) == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith(f"porism: {out / 'trial-001'}")
    assert "cannot be written: " in line
    assert line.endswith("--resume" if workers == "1" else GO_ON)


def test_a_journal_that_cannot_be_read_any_more_says_so(plan: Plan, tmp_path: Path) -> None:
    queue = TrialQueue(plan(), Where(tmp_path), lower_is_better=True)
    queue.fill()
    (tmp_path / JOURNAL).unlink()
    (tmp_path / JOURNAL).mkdir()
    with pytest.raises(DiskError, match=rf"{JOURNAL} can no longer be read: Is a directory\. {GO_ON}"):
        queue.take()
