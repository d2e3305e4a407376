"""A sweep that several processes share on a PostgreSQL server."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from optuna.trial import TrialState
from tests.sweep import postgresql
from tests.sweep.conftest import GRID, Plan, words

from porism.cli import main
from porism.sweep.plan import Sampler
from porism.sweep.queue import TrialQueue, Where
from porism.sweep.samplers import PLACE
from porism.sweep.space import Values
from porism.sweep.storage import open_storage, quiet
from porism.sweep.worker import SweepWorker

pytest.importorskip("psycopg", reason="psycopg is not installed")
if postgresql.programs() is None:
    pytest.skip("PostgreSQL is not installed: apt-get install postgresql", allow_module_level=True)

HEARTBEAT = 0.4
"""Seconds; a worker without a heartbeat for twice as long has lost its trial."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with postgresql.server() as found:
        yield found


def test_a_worker_that_pauses_beyond_the_grace_period_neither_crashes_nor_counts_twice(
    plan: Plan, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = Where(tmp_path, url, "paused", HEARTBEAT)
    made = plan(["hidden_size=4"])
    paused, other = (TrialQueue(made, where, lower_is_better=True) for _ in range(2))
    trained: list[str] = []

    def pause(worker: SweepWorker, *_: Any) -> float:
        # A process that stands still gives no heartbeat, and keeps its lock.
        if not trained:
            trained.append("paused")
            monkeypatch.setattr(paused, "record_heartbeat", lambda trial_id: None)
            time.sleep(2.5 * HEARTBEAT)
            SweepWorker(made, other).run()
            return 1.0
        trained.append("other")
        return 2.0

    monkeypatch.setattr(SweepWorker, "_train_run", pause)
    SweepWorker(made, paused).run()
    assert trained == ["paused", "other"]
    (trial,) = paused.counted().values()
    assert trial.value == 2.0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["trial-001", "trial-001-2"]
    assert sum(one.state == TrialState.COMPLETE for one in paused.trials()) == 1


@pytest.mark.sample(1)
@pytest.mark.parametrize("suggested", [0, 1, 2])
@pytest.mark.parametrize("sampler", ["grid", "random"])
def test_a_worker_that_dies_as_it_takes_a_trial_takes_neither_it_nor_its_setting_along(
    sampler: Sampler, suggested: int, plan: Plan, url: str, tmp_path: Path
) -> None:
    where = Where(tmp_path, url, f"dies {sampler} {suggested}", HEARTBEAT)
    made = plan(GRID) if sampler == "grid" else plan(GRID, 4, sampler)
    expected = []
    alone = TrialQueue(made, Where(tmp_path / "alone"), lower_is_better=True)
    while (trial := alone.take()) is not None:
        expected.append((trial.user_attrs[PLACE], alone.suggest(trial)))
        alone.finish(trial, 1.0, TrialState.COMPLETE)
    queue = TrialQueue(made, where, lower_is_better=True)
    queue.fill()
    for _ in range(made.trials):
        with quiet():
            dead = queue.study.ask()
        for name, choices in list(made.space.items())[:suggested]:
            assert isinstance(choices, Values)
            dead.suggest_categorical(name, choices.values)
        # And no word after that.
    time.sleep(2.5 * HEARTBEAT)
    other, found = TrialQueue(made, where, lower_is_better=True), []
    while (trial := other.take()) is not None:
        assert trial.number > dead.number
        found.append((trial.user_attrs[PLACE], other.suggest(trial)))
        other.finish(trial, 1.0, TrialState.COMPLETE)
    assert sorted(found, key=str) == sorted(expected, key=str)


SIZES = "hidden_size=3,4,5,6,7,8,9,10"
RATES = "learning_rate=0.003,0.01,0.03,0.1,0.3"
FEW = ("hidden_size=4,8", "learning_rate=0.003,0.01,0.02,0.03,0.1,0.3")
"""Of which there is time for a kill and a pause where a change is judged."""


@pytest.mark.sweep(0)
def test_twelve_trials_with_workers_killed_and_one_paused(
    url: str, text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert disturbed(FEW, (url, "twelve"), text, tmp_path, capsys) >= 1


@pytest.mark.skipif("CI" in os.environ, reason="takes three minutes of two cores; make test-all runs it elsewhere")
@pytest.mark.sweep(0)
def test_forty_trials_with_four_workers_killed_one_after_another_and_one_paused(
    url: str, text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert disturbed((SIZES, RATES), (url, "forty"), text, tmp_path, capsys) >= 5


def disturbed(
    over: tuple[str, str], where: tuple[str, str], text: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> int:
    """Share a grid between four workers, one of which is killed whenever three more trials are done, while another is
    paused once; check that every trial counts once, as by one worker alone. Returns: kills."""
    url, name = where
    count = (over[0].count(",") + 1) * (over[1].count(",") + 1)
    given = [*words(*over), "--data", str(text), "--json"]
    fixed = ["epochs=4" if word == "epochs=2" else word for word in given]
    assert fixed != given
    alone = ["sweep", "language", "elman", *fixed, "--out", str(folder / "alone")]
    assert main(alone) == 0
    expected = json.loads(capsys.readouterr().out.splitlines()[-1])

    shared = [*fixed, "--storage", url, "--name", name, "--heartbeat", "1", "--out", str(folder / "shared")]
    command = [sys.executable, "-m", "porism", "sweep", "language", "elman", *shared]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OMP_NUM_THREADS": "1"}

    def start(number: int) -> subprocess.Popen[str]:
        with (folder / f"worker-{number}.err").open("a") as log:
            return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment)

    workers, kills, paused = [start(number) for number in range(4)], 0, False
    try:
        while any(worker.poll() is None for worker in workers):
            time.sleep(0.2)
            # By the trials that are done and not by a clock, or a slow machine would only start workers. When the first
            # worker has ended, all trials are done.
            due = _finished(url, name) >= 3 * (kills + 1)
            if not due or any(worker.poll() is not None for worker in workers):
                continue
            victim = (0, 1, 3)[kills % 3]
            workers[victim].kill()
            workers[victim].communicate()
            workers[victim], kills = start(victim), kills + 1
            if not paused:
                os.kill(workers[2].pid, signal.SIGSTOP)
                time.sleep(5)
                os.kill(workers[2].pid, signal.SIGCONT)
                paused = True
        assert paused
        for number, worker in enumerate(workers):
            out, _ = worker.communicate()
            assert worker.returncode == 0, (folder / f"worker-{number}.err").read_text()[-2000:]
            result = json.loads(out.splitlines()[-1])
            # The same bits: a trial that was resumed or trained twice has the value it has by itself.
            assert [(one["setting"], one["valid"]) for one in result["trials"]] == [
                (one["setting"], one["valid"]) for one in expected["trials"]
            ]
            assert len(result["trials"]) == count
            assert result["chosen"]["setting"] == expected["chosen"]["setting"]
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
            if worker.stdout is not None:
                worker.stdout.close()
    return kills


def _finished(url: str, study: str) -> int:
    storage = open_storage(url, Path())
    with quiet():
        found = [one for one in storage.get_all_studies() if one.study_name == study]
        trials = storage.get_all_trials(found[0]._study_id, deepcopy=False) if found else []
    return sum(trial.state == TrialState.COMPLETE for trial in trials)
