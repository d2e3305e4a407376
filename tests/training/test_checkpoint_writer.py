"""Checkpoints are written beside the training, and are what it was at the moment of each."""

import os
import resource
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread, current_thread, main_thread
from typing import Any

import pytest
import torch
from tests.runs.tiny_runs import Listener, Stop, begin, bits, in_a_child, resume, same_bits, stopped

from porism.api.listeners import CallbackProgress
from porism.errors import DiskError, DivergedError, Interrupted, RunError
from porism.runs import checkpoint
from porism.runs.checkpoint import Snapshot
from porism.runs.record import read_run
from porism.runs.run import RunFolder
from porism.training import loop, session
from porism.training.checkpoint_writer import CheckpointWriter
from porism.training.loop import Training
from porism.training.progress import NoProgress, Progress, ProgressGroup
from porism.training.task import Carry

STEPS = 3
"""Of an epoch of these runs, of which there are three; the second is the best."""
PATIENCE = 60
"""Seconds until a test fails that waits for something which does not happen."""


@dataclass(frozen=True)
class Recorded(Snapshot):
    """A snapshot that is not written anywhere."""

    do: Callable[[], object]

    def save(self) -> None:
        self.do()


def recorded(do: Callable[[], object]) -> Snapshot:
    return Recorded(Path(), {}, {}, {}, {}, do)


@pytest.fixture
def awaited(monkeypatch: pytest.MonkeyPatch) -> Event:
    """Set while somebody waits for the writer."""
    awaited, wait = Event(), CheckpointWriter.wait

    def noted(self: CheckpointWriter) -> None:
        awaited.set()
        try:
            wait(self)
        finally:
            awaited.clear()

    monkeypatch.setattr(CheckpointWriter, "wait", noted)
    return awaited


@pytest.fixture
def _held(monkeypatch: pytest.MonkeyPatch, awaited: Event) -> None:
    """No thread writes a checkpoint before somebody waits for it."""
    save = Snapshot.save

    def held(self: Snapshot) -> None:
        assert current_thread() is main_thread() or awaited.wait(PATIENCE), "nobody waits for it"
        save(self)

    monkeypatch.setattr(Snapshot, "save", held)


@contextmanager
def refused(name: str, number: int) -> Iterator[None]:
    """Let the disk refuse one checkpoint of a name, the first or a later one."""
    save, left = Snapshot.save, number

    def fails(self: Snapshot) -> None:
        nonlocal left
        left -= self.folder.name == name
        if self.folder.name == name and left == 0:
            raise DiskError(f"no room for {name}")
        save(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Snapshot, "save", fails)
        yield


def test_snapshots_are_saved_in_order_and_those_of_one_call_wait_for_those_of_the_one_before(awaited: Event) -> None:
    saved: list[str] = []

    def slowly() -> None:
        assert awaited.wait(PATIENCE)
        saved.append("first")

    writer = CheckpointWriter(nullcontext)
    writer.write([recorded(slowly), recorded(lambda: saved.append("second"))])
    assert writer.is_busy()
    writer.write([recorded(lambda: saved.append("third"))])
    writer.wait()
    assert saved == ["first", "second", "third"]
    assert not writer.is_busy()


@pytest.mark.parametrize("call", [CheckpointWriter.wait, CheckpointWriter.check, CheckpointWriter.is_busy])
def test_an_error_is_raised_by_the_next_call_and_what_came_after_it_is_not_saved(
    call: Callable[[CheckpointWriter], object],
) -> None:
    saved: list[str] = []

    def refuse() -> None:
        raise DiskError("no room")

    writer = CheckpointWriter(nullcontext)
    for _ in range(2):
        writer.write([recorded(refuse), recorded(lambda: saved.append("after it"))])
        ended(writer)
        with pytest.raises(DiskError, match="no room"):
            call(writer)
        writer.wait()
    writer.write([recorded(refuse)])
    with pytest.raises(DiskError, match="no room"):
        writer.write([recorded(lambda: saved.append("another"))])
    assert saved == []


def ended(writer: CheckpointWriter) -> None:
    """Wait for the thread, without a call of the writer."""
    assert writer._writing is not None
    writer._writing.join(PATIENCE)
    assert not writer._writing.is_alive()


def test_a_wait_that_is_broken_off_leaves_what_is_written_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    held, saved = Event(), list[str]()

    def slowly() -> None:
        assert held.wait(PATIENCE)
        saved.append("whole")

    def interrupted(self: Thread, timeout: float | None = None) -> None:
        raise KeyboardInterrupt

    writer = CheckpointWriter(nullcontext)
    writer.write([recorded(slowly)])
    with monkeypatch.context() as patch:
        patch.setattr(Thread, "join", interrupted)
        with pytest.raises(KeyboardInterrupt):
            writer.wait()
    assert writer.is_busy()
    held.set()
    writer.wait()
    assert saved == ["whole"]


class Watch(Listener):
    """Calls a function after each step."""

    def __init__(self, do: Callable[[], object], steps: int = 0) -> None:
        super().__init__(steps=steps)
        self.do = do

    def step(self, units: int) -> None:
        self.do()
        super().step(units)


@pytest.mark.usefixtures("_held")
def test_training_goes_on_while_a_checkpoint_is_written_and_does_not_change_it(tiny_text: str, tmp_path: Path) -> None:
    run, seen = tmp_path / "run", list[bool]()
    training = begin(run, tiny_text)
    with pytest.raises(Stop):
        training.fit(Watch(lambda: seen.append((run / "best").exists()), steps=STEPS + 2))
    assert seen == [False] * (STEPS + 2)
    assert same_bits(run, stopped(tmp_path / "reference", tiny_text, epochs=1))
    learned, _ = checkpoint.model_tensors(training.model)
    saved = checkpoint.read(run / "last").parts
    assert not any(torch.equal(x, saved["model"][name]) for name, x in learned.items())


@pytest.mark.usefixtures("_held")
@pytest.mark.parametrize("every", [60.0, -1.0], ids=["each epoch", "each step"])
def test_one_copy_is_in_memory_at_a_time_and_the_result_has_the_same_bits(
    tiny_text: str, straight: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: float
) -> None:
    last, taken = Training.last, 0

    def alone(self: Training, carry: Carry) -> Snapshot:
        nonlocal taken
        assert not self._writer.is_busy()
        taken += 1
        return last(self, carry)

    monkeypatch.setattr(Training, "last", alone)
    session.complete(begin(tmp_path / "run", tiny_text), checkpoint_every=every)
    assert taken == (3 if every > 0 else 3 * (STEPS + 1))
    assert same_bits(tmp_path / "run", straight)


@pytest.mark.usefixtures("_held")
def test_a_large_one_is_not_waited_for_between_epochs(
    tiny_text: str, straight: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "SMALL", 0)
    monkeypatch.setattr(loop, "SAVING_SHARE", torch.inf)
    run, seen = tmp_path / "run", list[bool]()
    session.complete(begin(run, tiny_text), Watch(lambda: seen.append((run / "best").exists())))
    assert seen == [False] * 3 * STEPS
    assert same_bits(run, straight)


def test_the_best_comes_first_and_the_events_of_its_epoch_before_it(
    tiny_text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = begin(tmp_path / "run", tiny_text)
    save, saved = Snapshot.save, list[str]()

    def watched(self: Snapshot) -> None:
        saved.append(self.folder.name)
        if self.folder.name == "last":
            lines = {line.sha256: line.event for line in training.run.events.read().lines}
            event, at = lines[self.state["events"]], self.state["position"]
            assert event["event"] == ("finish" if at["finished"] else "epoch")
            assert (event.get("epoch") or event["epochs"]) == at["epoch"] - (not at["finished"])
        save(self)

    monkeypatch.setattr(Snapshot, "save", watched)
    training.fit()
    assert saved == ["best", "last", "best", "last", "last"]


def test_a_best_that_is_not_on_the_disk_is_spoken_of_by_no_last(tiny_text: str, straight: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    training = begin(run, tiny_text)
    with refused("best", number=2), pytest.raises(DiskError, match="no room for best"):
        session.complete(training)
    assert checkpoint.read(run / "last").state["position"]["best_epoch"] == 1
    session.complete(resume(run))
    assert same_bits(run, straight)


def test_training_ends_with_the_step_in_which_a_checkpoint_could_not_be_written(
    tiny_text: str, straight: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, steps = tmp_path / "run", list[int]()
    training = begin(run, tiny_text)

    def step() -> None:
        steps.append(training.position.step)
        if len(steps) == STEPS + 2:
            ended(training._writer)

    # Not the last step of the epoch, after which it would come up anyway.
    monkeypatch.setattr(CheckpointWriter, "check", after_steps(steps, STEPS + 2))
    with refused("last", number=1), pytest.raises(DiskError, match="no room for last"):
        session.complete(training, Watch(step))
    assert steps == [1, 2, 3, 1, 2]
    assert not training.run.locked
    monkeypatch.undo()
    session.complete(resume(run))
    assert same_bits(run, straight)


def after_steps(steps: list[int], number: int) -> Callable[[CheckpointWriter], None]:
    """The writer's check, once so many steps were taken: how soon its thread ends is up to the machine."""
    check = CheckpointWriter.check
    return lambda self: check(self) if len(steps) >= number else None


@pytest.mark.parametrize("name", ["best", "last"])
def test_the_last_one_that_cannot_be_written_ends_the_run_without_results(
    tiny_text: str, straight: Path, tmp_path: Path, name: str
) -> None:
    run = tmp_path / "run"
    training = begin(run, tiny_text)
    with refused(name, {"best": 2, "last": 3}[name]), pytest.raises(DiskError, match=f"no room for {name}"):
        session.complete(training)
    assert not (run / "metrics.json").exists()
    session.complete(resume(run))
    assert same_bits(run, straight)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_full_disk_ends_training_in_the_words_of_a_full_disk(tiny_text: str, straight: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"

    def on_a_full_disk() -> None:
        training = begin(run, tiny_text)
        # The events and `best` are shorter than that, the random state of `last` is not.
        resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))
        with pytest.raises(DiskError, match=f"the disk is full: {run}/last needs .* porism train --resume {run}"):
            session.complete(training)

    assert in_a_child(on_a_full_disk) == 0
    session.complete(resume(run))
    assert same_bits(run, straight)


def test_a_run_that_is_moved_while_it_trains_ends_in_a_line(tiny_text: str, tmp_path: Path) -> None:
    run = tmp_path / "run"

    class Mover(Listener):
        def epoch(self, event: Mapping[str, Any]) -> None:
            if event["epoch"] == 3:
                run.rename(tmp_path / "moved")

    training = begin(run, tiny_text, "epochs=9", "patience=9")
    with pytest.raises(DiskError, match=f"cannot be written: {run} is gone"):
        session.complete(training, Mover())
    assert [path.name for path in tmp_path.iterdir()] == ["moved"]


class Ending(Listener):
    """Ends a training in its fifth step, in one of several ways."""

    def __init__(self, training: Training, way: str) -> None:
        super().__init__(steps=STEPS + 2)
        self.training, self.way = training, way

    def step(self, units: int) -> None:
        try:
            super().step(units)
        except Stop:
            if self.way == "an error":
                raise
            if self.way == "diverged elsewhere":
                raise DivergedError("the task says so") from None
            if self.way == "diverged":
                with torch.no_grad():
                    next(self.training.model.parameters()).fill_(torch.nan)
            for _ in range(("Ctrl-C", "Ctrl-C twice").index(self.way) + 1 if "Ctrl-C" in self.way else 0):
                signal.raise_signal(signal.SIGINT)


WAYS = {
    "the end": None,
    "an error": Stop,
    "Ctrl-C": Interrupted,
    "Ctrl-C twice": KeyboardInterrupt,
    "diverged": DivergedError,
    "diverged elsewhere": DivergedError,
}


@pytest.mark.usefixtures("_held")
@pytest.mark.parametrize("way", WAYS)
def test_however_training_ends_its_checkpoint_is_whole_before_others_may_write(
    tiny_text: str, straight: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    run, unlocked = tmp_path / "run", list[bool]()
    training, unlock, append = begin(run, tiny_text), RunFolder.unlock, RunFolder.append

    def whole(self: RunFolder) -> None:
        unlocked.append(training._writer.is_busy())
        unlock(self)

    def said(self: RunFolder, event: str, **facts: Any) -> None:
        # What is said to be saved is.
        assert event not in ("interrupt", "diverge") or not training._writer.is_busy()
        append(self, event, **facts)

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "unlock", whole)
        patch.setattr(RunFolder, "append", said)
        if (kind := WAYS[way]) is None:
            session.complete(training)
        else:
            with pytest.raises(kind) as caught:
                session.complete(training, Ending(training, way))
            if way == "diverged":
                assert f"What was saved before is intact in {run}" in str(caught.value)
    assert unlocked == [False]
    at = checkpoint.read(run / "last").state["position"]
    assert (at["epoch"], at["step"]) == {"the end": (3, STEPS), "Ctrl-C": (2, 2)}.get(way, (2, 0))
    session.complete(resume(run))
    assert same_bits(run, straight)


def test_a_thread_that_nobody_waits_for_keeps_the_run_from_others(
    tiny_text: str, straight: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, held, save = tmp_path / "run", Event(), Snapshot.save
    training = begin(run, tiny_text)

    def slowly(self: Snapshot) -> None:
        assert held.wait(PATIENCE)
        save(self)

    def interrupted(self: Thread, timeout: float | None = None) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Snapshot, "save", slowly)
        with monkeypatch.context() as impatient:
            impatient.setattr(Thread, "join", interrupted)
            with pytest.raises(KeyboardInterrupt):
                training.fit()
        with pytest.raises(RunError, match="this process already trains in"):
            resume(run)
        held.set()
        ended(training._writer)
    assert not training.run.locked
    session.complete(resume(run))
    assert same_bits(run, straight)


@pytest.mark.usefixtures("_held")
def test_the_best_is_read_when_it_is_on_the_disk(tiny_text: str, tmp_path: Path) -> None:
    listener = Listener()
    result = session.complete(begin(tmp_path / "run", tiny_text, "epochs=2"), listener)
    assert result["best_epoch"] == 2
    assert not any("lost" in note for note in listener.notes)


@pytest.mark.usefixtures("_held")
def test_who_reads_checkpoints_is_told_of_an_epoch_when_its_own_is_there(tiny_text: str, tmp_path: Path) -> None:
    run, read = tmp_path / "run", list[int]()

    def callback(event: Mapping[str, Any]) -> None:
        read.append(checkpoint.read(run / "last").state["position"]["epoch"])
        assert checkpoint.read(run / "best").state["epoch"] == min(event["epoch"], 2)

    listeners: list[Progress] = [NoProgress(), CallbackProgress(callback)]
    session.complete(begin(run, tiny_text), ProgressGroup(*listeners))
    assert read == [2, 3, 3]
    assert not ProgressGroup(NoProgress()).reads_checkpoints


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("epochs", [1, 2])
def test_killed_with_a_checkpoint_in_flight_a_run_goes_on_from_the_one_before(
    tiny_text: str, straight: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, epochs: int
) -> None:
    """The events are ahead of the checkpoints by one epoch more then."""
    run, save = tmp_path / "run", Snapshot.save

    def killed() -> None:
        append, left, may_die = RunFolder.append, epochs + 1, Event()

        def ahead(self: RunFolder, event: str, **facts: Any) -> None:
            nonlocal left
            append(self, event, **facts)
            left -= event == "epoch"
            if left == 0:
                may_die.set()

        def never_whole(self: Snapshot) -> None:
            if self.folder.name == "last" and self.state["position"]["epoch"] == epochs + 1:
                assert may_die.wait(PATIENCE)
                os._exit(9)
            save(self)

        monkeypatch.setattr(RunFolder, "append", ahead)
        monkeypatch.setattr(Snapshot, "save", never_whole)
        begin(run, tiny_text).fit()

    assert in_a_child(killed) == 9
    assert len(read_run(run).epochs) == epochs + 1
    session.complete(resume(run))
    assert same_bits(run, straight)
    assert [epoch.valid for epoch in read_run(run).epochs] == [epoch.valid for epoch in read_run(straight).epochs]


def test_bits_of_a_run_are_compared_at_all(straight: Path) -> None:
    assert bits(straight, "best") != bits(straight, "last")
