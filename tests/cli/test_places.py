"""Runs that were moved, lie on a disk that cannot be written, or were made while the clock was set."""

import errno
import itertools
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import TINY, Say
from tests.runs.tiny_runs import copied, files, in_a_child, stopped, write_text

from porism.cli import main
from porism.report.sections import story
from porism.runs.record import RunRecord, read_run


@pytest.fixture(scope="module")
def half(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run after one of its three epochs, beside its text."""
    folder = tmp_path_factory.mktemp("half")
    return stopped(folder / "run", write_text(folder), epochs=1)


def results(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "metrics.json").read_text())["metrics"]
    return found


def test_a_run_that_was_moved_is_as_good_as_before(half: Path, say: Say, tmp_path: Path) -> None:
    straight, moved = copied(half, tmp_path / "straight"), tmp_path / "other place" / "new [name]"
    assert say("train", "--resume", straight).code == 0
    copied(half, tmp_path / "run")
    moved.parent.mkdir()
    (tmp_path / "run").rename(moved)
    assert say("train", "--resume", moved).code == 0
    assert results(moved) == results(straight)
    # Finished, and moved once more.
    moved = moved.rename(tmp_path / "again")
    evaluated = json.loads(say("evaluate", moved, "--json").out.splitlines()[-1])
    assert evaluated["metrics"]["test"] == pytest.approx(results(straight)["test"])
    assert evaluated["run"] == "again" or evaluated["run"] == str(moved)
    assert say("predict", moved, "the cat").code == 0
    assert say("report", moved, straight, "--out", "report.html").code == 0
    assert say("train", "--resume", moved).code == 0
    assert json.loads(say("runs", ".", "--json").out.splitlines()[-1])


def test_a_comparison_that_was_moved_is_not_trained_again(say: Say, text: Path, tmp_path: Path) -> None:
    words = ["compare", "language", "elman", "lstm", "--data", text, TINY, "--no-baselines", "--out"]
    assert say(*words, "first").code == 0
    before = {
        name: (tmp_path / "first" / name).read_bytes() for name in files(tmp_path / "first") if "html" not in name
    }
    (tmp_path / "first").rename(tmp_path / "second")
    assert say(*words, "second", "--resume").code == 0
    assert before == {name: (tmp_path / "second" / name).read_bytes() for name in before}
    assert not (tmp_path / "first").exists()


def refuse_writes(within: Path) -> None:
    """From now on, nothing below a folder can be written in this process, as on a disk that is mounted read-only."""
    changes = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate", "os.link", "os.symlink")

    def on_event(event: str, arguments: tuple[Any, ...]) -> None:
        writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        if (event in changes or writes) and str(arguments[0]).startswith(str(within)):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(arguments[0]))

    sys.addaudithook(on_event)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_what_cannot_be_written_is_read_all_the_same(half: Path, say: Say, tmp_path: Path) -> None:
    place = tmp_path / "disk"
    place.mkdir()
    run, finished = copied(half, place / "run"), copied(half, place / "finished")
    assert say("train", "--resume", finished).code == 0
    before = {name: (place / name).read_bytes() for name in files(place)}

    def expect(code: int, *words: str | Path) -> Callable[[], None]:
        def work() -> None:
            refuse_writes(place)
            lines = tmp_path / "said"
            sys.stderr = lines.open("w")
            assert main([str(word) for word in words]) == code
            sys.stderr.close()
            said = lines.read_text().splitlines()
            assert code == 0 or (said[-1].startswith("porism: ") and "Read-only file system" in said[-1])

        return work

    cases: list[tuple[int, tuple[str | Path, ...]]] = [
        (0, ("evaluate", finished)),
        (0, ("predict", finished, "the cat")),
        (0, ("runs", place)),
        (0, ("report", finished, "--out", tmp_path / "report.html")),
        (2, ("report", finished)),
        (2, ("train", "--resume", run)),
        (2, ("train", "language", *TINY, "--data", half.parent / "text.txt", "--out", place / "new")),
    ]
    for code, words in cases:
        assert in_a_child(expect(code, *words)) == 0, words
    assert before == {name: (place / name).read_bytes() for name in files(place)}


@pytest.mark.parametrize("verb", ["train --resume", "evaluate", "report", "predict", "compare language elman --out"])
def test_a_folder_that_may_not_be_read_is_named_in_a_line(
    verb: str, half: Path, say: Say, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, look = copied(half, tmp_path / "elman"), Path.stat

    def refuse(path: Path, **options: Any) -> os.stat_result:
        if path.is_relative_to(run) and path != run:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return look(path, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "stat", refuse)
        said = say(*verb.split(), tmp_path if verb.startswith("compare") else run)
    assert said.code == 2
    line = said.err.splitlines()[-1]
    assert line.startswith(f"porism: {run}")
    assert ": Permission denied." in line


def test_a_run_that_finds_no_room_to_begin_is_begun_again(
    say: Say, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    words = ("train", "language", "--data", text, TINY, "--no-baselines", "--out", "run")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        said = say(*words)
    assert said.code == 2
    assert said.err.splitlines()[-1].startswith("porism: the disk is full: run/recipe.toml needs ")
    assert said.err.endswith("Make room, then give the same command again.\n")
    assert say(*words).code == 0


def test_where_no_temporary_file_can_be_made_it_is_said(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp', '/var/tmp']")

    monkeypatch.setattr(tempfile, "gettempdir", refuse)
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_get_default_tempdir", refuse)
    said = say("compare", "language", "elman", "lstm", TINY, "--workers", "2")
    assert said.code == 2
    assert "No usable temporary directory found" in said.err.splitlines()[-1]
    assert "TMPDIR" in said.err.splitlines()[-1]


def test_an_error_of_the_system_that_is_ours_is_not_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> int:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), "recipes.py")

    monkeypatch.setattr("porism.cli._run", fail)
    with pytest.raises(FileNotFoundError):
        main(["recipes"])


def test_a_clock_that_is_set_changes_no_result(
    half: Path, say: Say, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    straight = copied(half, tmp_path / "straight")
    assert say("train", "--resume", straight).code == 0
    run, now = copied(half, tmp_path / "run"), time.time()
    jumps = itertools.cycle((0.0, -3e8, 5e8, -1e9, 1.0))
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: now + next(jumps))
        assert say("train", "--resume", run).code == 0
        for path in (run / "recipe.toml", run / "last"):
            os.utime(path, (now + 3e9, now + 3e9))
        listed = json.loads(say("runs", ".", "--json").out.splitlines()[-1])
    assert results(run) == results(straight)
    assert all(row["age"] >= 0 for row in listed["runs"])
    found = read_run(run)
    assert [epoch.epoch for epoch in found.epochs] == [epoch.epoch for epoch in read_run(straight).epochs]
    assert all(0 <= epoch.seconds < 600 for epoch in found.epochs)
    assert found.metrics is not None
    assert 0 <= (found.metrics.seconds or 0) < 600
    assert say("report", run).code == 0


@pytest.mark.parametrize("started", [1e300, -1e18, float("inf"), float("nan"), -62135596801.0])
def test_a_start_that_no_calendar_has_is_left_out(half: Path, started: float) -> None:
    record = read_run(half)
    told = story(RunRecord(path=record.path, facts=record.facts, fields=record.fields, started=started))
    assert "started" not in told
