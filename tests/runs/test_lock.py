"""One process at a time writes into a run, and one that is dead is none."""

import errno
import gc
import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from tests.runs import tiny_runs
from tests.runs.tiny_runs import Listener, begin, copied, resume, stopped

from porism.errors import DataError, Interrupted, RunError
from porism.runs import lock
from porism.runs.run import RunFolder
from porism.tasks.language.task import Language
from porism.training import session

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


@contextmanager
def another_process(work: Callable[[], object]) -> Iterator[int]:
    """A process that has done something and waits, to be killed in the end."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            kept = work()
            os.write(writing, b"x")
            signal.pause()
            del kept
        finally:
            os._exit(1)
    os.close(writing)
    try:
        assert select.select([reading], [], [], 60)[0]
        assert os.read(reading, 1) == b"x"
        yield child
    finally:
        os.close(reading)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    return tiny_runs.write_text(tmp_path_factory.mktemp("text"))


@pytest.fixture(scope="module")
def half(text: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stopped(tmp_path_factory.mktemp("half") / "run", text, epochs=2)


def content(run: Path) -> dict[str, bytes]:
    return {name: (run / name).read_bytes() for name in tiny_runs.files(run)}


def test_a_second_process_is_refused_before_it_writes_and_a_dead_one_holds_nothing(half: Path, tmp_path: Path) -> None:
    run = copied(half, tmp_path / "run")
    with another_process(lambda: resume(run)) as process:
        before = content(run)
        refusal = re.escape(f"another process, {process}, trains in {run}. Wait for it or stop it.")
        with pytest.raises(RunError, match=f"^{refusal}$") as caught:
            resume(run)
        assert caught.value.exit_code == 2
        assert content(run) == before
    session.complete(resume(run))


def test_a_new_run_is_locked_from_the_start(text: str, tmp_path: Path) -> None:
    with (
        another_process(lambda: begin(tmp_path / "run", text)) as process,
        pytest.raises(RunError, match=f"another process, {process}, trains in"),
    ):
        resume(tmp_path / "run")


def test_reading_needs_no_lock(half: Path, tmp_path: Path) -> None:
    run = copied(half, tmp_path / "run")
    with another_process(lambda: resume(run)):
        opened = RunFolder.open(run)
        assert opened.metrics() is None
        task = session.load_task(Language, opened)
        saved = session.best_checkpoint(opened, Listener())
        session.trained_model(task, saved, torch.device("cpu"))


def test_two_trainings_of_one_process_are_two(half: Path, tmp_path: Path) -> None:
    run = copied(half, tmp_path / "run")
    first = resume(run)
    with pytest.raises(RunError, match=f"this process already trains in {run}"):
        resume(run)
    session.complete(first)
    resume(run)


def test_the_lock_goes_with_the_training(half: Path, tmp_path: Path) -> None:
    run = copied(half, tmp_path / "run")
    training = resume(run)
    del training
    gc.collect()
    resume(run)


class Interrupter(Listener):
    def step(self, units: int) -> None:
        os.kill(os.getpid(), signal.SIGINT)


def test_a_training_that_ended_badly_lets_others_write(half: Path, text: str, tmp_path: Path) -> None:
    run = copied(half, tmp_path / "run")
    training = resume(run)
    with pytest.raises(Interrupted):
        training.fit(Interrupter())
    # It is still there, and so are its frames in the error.
    assert resume(run).position.step == 1
    source = Path(text)
    kept = source.read_text()
    try:
        source.write_text(kept + "the dog\n")
        with pytest.raises(DataError):
            resume(run)
    finally:
        source.write_text(kept)
    resume(run)


def test_a_training_taken_up_again_sees_what_others_did(half: Path, tmp_path: Path) -> None:
    run = copied(half, tmp_path / "run")
    early = resume(run)
    with pytest.raises(Interrupted):
        early.fit(Interrupter())
    result = session.complete(resume(run))
    before = content(run)
    assert session.complete(early) == result
    assert content(run) == before
    assert early.position.finished


def test_a_child_neither_keeps_nor_loses_the_lock_of_its_parent(half: Path, tmp_path: Path) -> None:
    run = copied(half, tmp_path / "run")
    training = resume(run)

    def drop() -> None:
        nonlocal training
        del training
        gc.collect()

    with another_process(lambda: None):
        with another_process(drop), pytest.raises(RunError, match="trains in"):
            resume(run)
        del training
        gc.collect()
        # The first child lives and was forked while the lock was held.
        resume(run)


PARENT = """
import os, sys, time
from pathlib import Path
from porism.runs.lock import Lock
lock = Lock(Path(sys.argv[1]))
child = os.fork()
if child == 0:
    time.sleep(60)
    os._exit(0)
print(child, flush=True)
time.sleep(60)
"""


def test_a_child_that_outlives_its_killed_parent_holds_no_lock(half: Path, tmp_path: Path) -> None:
    run = copied(half, tmp_path / "run")
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(run)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    try:
        with pytest.raises(RunError, match=f"another process, {parent.pid}, trains in"):
            resume(run)
        parent.kill()
        parent.wait()
        resume(run)
    finally:
        os.kill(child, signal.SIGKILL)
        parent.stdout.close()


def test_a_file_of_others_is_no_lock(half: Path, tmp_path: Path) -> None:
    run = copied(half, tmp_path / "run")
    (run / ".lock").write_text("my notes on locks\n")
    with pytest.raises(RunError, match=r"\.lock is a file that porism did not write"):
        resume(run)
    assert (run / ".lock").read_text() == "my notes on locks\n"
    (tmp_path / "notes").write_text("")
    (run / ".lock").unlink()
    (run / ".lock").symlink_to(tmp_path / "notes")
    with pytest.raises(RunError, match=r"\.lock cannot be written"):
        resume(run)
    assert (tmp_path / "notes").read_text() == ""


def test_who_only_asks_whether_a_run_is_trained_keeps_nobody_from_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The probe of a list of runs holds the lock for a moment, which may be the moment of a start."""
    take, asked = lock._take, iter([True, True, False])

    def taken_at_first(descriptor: int) -> None:
        if next(asked):
            raise BlockingIOError(errno.EAGAIN, "taken")
        take(descriptor)

    monkeypatch.setattr(lock, "_take", taken_at_first)
    held = lock.Lock(tmp_path)
    monkeypatch.undo()
    assert lock.is_locked(tmp_path)
    with pytest.raises(RunError, match="this process already trains"):
        lock.Lock(tmp_path)
    held.release()
    assert not lock.is_locked(tmp_path)
