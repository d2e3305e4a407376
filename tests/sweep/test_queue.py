"""Every place of a sweep is counted once, whatever becomes of the workers. Nothing is trained here."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from optuna.trial import Trial, TrialState
from tests.sweep.conftest import Plan

from porism.errors import RunError
from porism.runs.lock import Lock
from porism.sweep import worker
from porism.sweep.journal_lock import JournalLock
from porism.sweep.queue import MOST_LOST, TrialQueue, Where
from porism.sweep.results import record_of, trials_of
from porism.sweep.samplers import PLACE
from porism.sweep.storage import JOURNAL

DONE, LOST = TrialState.COMPLETE, TrialState.FAIL


@pytest.fixture
def where(tmp_path: Path) -> Where:
    return Where(tmp_path)


def queue_of(plan: Plan, where: Where, *over: str, drawn: int | None = None) -> TrialQueue:
    made = plan(list(over) or ["hidden_size=4,8"], drawn, "grid" if drawn is None else "random")
    return TrialQueue(made, where, lower_is_better=True)


def taken(queue: TrialQueue) -> Trial:
    trial = queue.take()
    assert trial is not None
    return trial


def finish_all(queue: TrialQueue) -> None:
    while (trial := queue.take()) is not None:
        queue.finish(trial, float(queue.suggest(trial)["hidden_size"]), DONE)


def states(queue: TrialQueue) -> dict[int, tuple[str, float | None]]:
    return {place: (trial.state.name, trial.value) for place, trial in queue.counted().items()}


def test_a_trial_of_a_grid_that_was_trained_with_another_setting_is_refused(plan: Plan, where: Where) -> None:
    queue = queue_of(plan, where)
    queue.study.enqueue_trial({"hidden_size": 8}, user_attrs={PLACE: 1})  # where the grid has 4
    finish_all(queue)
    with pytest.raises(RunError, match=r"trial 1 of this sweep is to be of hidden_size=4 .* with hidden_size=8"):
        trials_of(queue)
    right = queue_of(plan, Where(where.folder / "right"))
    finish_all(right)
    assert [(trial.number, trial.setting) for trial in trials_of(right)] == [
        (1, {"hidden_size": 4}),
        (2, {"hidden_size": 8}),
    ]


@pytest.mark.parametrize("matters", ["hidden_size", "learning_rate"])
def test_the_field_that_decides_the_metric_is_the_important_one(plan: Plan, where: Where, matters: str) -> None:
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    queue = queue_of(plan, where, "hidden_size=4,8,16", "learning_rate=0.01,0.1,1.0")
    while (trial := queue.take()) is not None:
        setting = queue.suggest(trial)
        queue.finish(trial, 10.0 * setting[matters] + 0.01 * sum(setting.values()), DONE)
    importances = record_of(queue, "perplexity", True).importances
    assert importances is not None
    assert list(importances) == ["hidden_size", "learning_rate"]
    assert sum(importances.values()) == pytest.approx(1)
    assert importances[matters] > 0.95


@pytest.mark.parametrize(
    ("over", "why"),
    [
        (["hidden_size=4,8,16,32"], "one field alone is tried"),
        (["hidden_size=4,8,16", "learning_rate=0.1"], "that takes 4 trials with results that differ"),
    ],
)
def test_without_importances_it_is_said_why(plan: Plan, where: Where, over: list[str], why: str) -> None:
    queue = queue_of(plan, where, *over)
    finish_all(queue)
    found = record_of(queue, "perplexity", True)
    assert (found.importances, found.why_no_importances) == (None, why)


def test_two_workers_take_every_setting_once(plan: Plan, where: Where) -> None:
    one, other = queue_of(plan, where), queue_of(plan, where)
    # Both fill the same places at the same time: four trials wait for two places.
    one.study.enqueue_trial({"hidden_size": 4}, user_attrs={PLACE: 1})
    one.fill()
    one.study.enqueue_trial({"hidden_size": 8}, user_attrs={PLACE: 2})
    first, lock = taken(one), None
    one.folder_of(first.user_attrs[PLACE]).mkdir()
    lock = Lock(one.folder_of(first.user_attrs[PLACE]))
    second = taken(other)
    assert {first.user_attrs[PLACE], second.user_attrs[PLACE]} == {1, 2}
    assert not one.done
    assert one.finish(first, 3.0, DONE)
    lock.release()
    assert other.finish(second, 5.0, DONE)
    assert one.take() is None
    assert one.done
    assert states(other) == {1: ("COMPLETE", 3.0), 2: ("COMPLETE", 5.0)}


def test_a_dead_worker_is_told_from_a_slow_one_by_its_lock(plan: Plan, where: Where) -> None:
    one, other = queue_of(plan, where, "hidden_size=4"), queue_of(plan, where, "hidden_size=4")
    trial = taken(one)
    folder = one.folder_of(trial.user_attrs[PLACE])
    folder.mkdir()
    lock = Lock(folder)
    assert other.take() is None
    assert one.is_ours(trial)
    lock.release()
    again = taken(other)
    assert again.user_attrs[PLACE] == trial.user_attrs[PLACE]
    assert other.suggest(again) == {"hidden_size": 4}
    assert not one.is_ours(trial)


@pytest.mark.parametrize("first", ["paused", "other"])
def test_the_result_of_a_paused_worker_counts_once(plan: Plan, where: Where, first: str) -> None:
    paused, other = queue_of(plan, where, "hidden_size=4"), queue_of(plan, where, "hidden_size=4")
    trial = taken(paused)
    paused.suggest(trial)
    other.study.tell(trial.number, state=LOST)  # as a heartbeat that is too old does
    again = taken(other)
    other.suggest(again)
    results = {"paused": (paused, trial, 1.0), "other": (other, again, 2.0)}
    second = "other" if first == "paused" else "paused"
    counts = []
    for name in (first, second):
        queue, one, value = results[name]
        counts.append(queue.finish(one, value, DONE))
    assert counts == [True, False]
    assert other.done
    assert states(other) == {1: ("COMPLETE", results[first][2])}
    assert other.take() is None


def test_what_diverged_after_it_was_given_away_says_nothing(plan: Plan, where: Where) -> None:
    queue = queue_of(plan, where, "hidden_size=4")
    trial = taken(queue)
    queue.study.tell(trial.number, state=LOST)
    assert not queue.finish(trial, None, LOST, outcome="diverged")
    assert queue.take() is not None


def test_a_worker_killed_between_failing_a_trial_and_enqueuing_it_again_loses_none(plan: Plan, where: Where) -> None:
    queue = queue_of(plan, where)
    trial = taken(queue)
    queue.study.tell(trial.number, state=LOST)
    assert sorted(queue.counted()) == [2]
    finish_all(queue_of(plan, where))
    assert states(queue) == {1: ("COMPLETE", 4.0), 2: ("COMPLETE", 8.0)}


def test_a_trial_that_kills_its_workers_is_given_up(plan: Plan, where: Where) -> None:
    queue = queue_of(plan, where, "hidden_size=4")
    for _ in range(MOST_LOST + 1):
        queue.study.tell(taken(queue).number, state=LOST)
    assert queue.take() is None
    assert queue.done
    (trial,) = queue.counted().values()
    assert trial.user_attrs["outcome"] == "lost"


def test_random_settings_do_not_depend_on_who_takes_them(plan: Plan, tmp_path: Path) -> None:
    def settings(folder: str, workers: int) -> dict[int, float]:
        queues = [queue_of(plan, Where(tmp_path / folder), "learning_rate=1e-4..1", drawn=5) for _ in range(workers)]
        held, found = [], {}
        for turn in range(5):
            queue = queues[turn % workers]
            trial = taken(queue)
            place = trial.user_attrs[PLACE]
            queue.folder_of(place).mkdir()
            held.append(Lock(queue.folder_of(place)))
            found[place] = queue.suggest(trial)["learning_rate"]
        return found

    alone = settings("alone", 1)
    assert settings("shared", 3) == alone
    assert len(set(alone.values())) == 5
    assert all(1e-4 <= rate <= 1 for rate in alone.values())


def test_tpe_repeats_itself_and_draws_by_what_is_done(plan: Plan, tmp_path: Path) -> None:
    def draws(folder: str, best: float) -> list[float]:
        made = plan(["dropout=0..0.9"], 14, "tpe")
        queue, found = TrialQueue(made, Where(tmp_path / folder), lower_is_better=True), []
        for _ in range(14):
            trial = taken(queue)
            found.append(queue.suggest(trial)["dropout"])
            queue.finish(trial, abs(found[-1] - best), DONE)
        return found

    low, again, high = draws("low", 0.0), draws("again", 0.0), draws("high", 0.9)
    assert low == again
    # The first ten are random, and the same; then what was good draws the others.
    assert low[:10] == high[:10]
    assert sum(low[10:]) < sum(high[10:])


def test_a_trial_behind_the_median_is_pruned_unless_it_has_its_result(
    plan: Plan, where: Where, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = TrialQueue(replace(plan(["hidden_size=4,5,6,7,8,9,10"]), prune=True), where, lower_is_better=True)
    monkeypatch.setattr(worker, "read_run", lambda path: SimpleNamespace(epochs=()))

    def epochs(value: float, finished: str = "") -> Trial:
        task = SimpleNamespace(metric="perplexity")
        training: Any = SimpleNamespace(
            task=task, run=SimpleNamespace(path=where.folder), position=SimpleNamespace(finished=finished)
        )
        trial = taken(queue)
        queue.suggest(trial)
        progress = worker._TrialProgress(trial, training, lambda: None, reports=True, prunes=True)
        for epoch in (1, 2, 3):
            progress.epoch({"epoch": epoch, "valid": {"perplexity": value}})
        queue.finish(trial, value, DONE)
        return trial

    for _ in range(5):
        epochs(1.0)
    epochs(9.0, finished="all epochs done")  # has its result already
    with pytest.raises(worker._Pruned):
        epochs(9.0)


def test_another_sweep_in_the_same_place_is_refused(plan: Plan, where: Where) -> None:
    queue_of(plan, where)
    with pytest.raises(RunError, match=r"is another one: it differs in over, trials\. Give it as it was begun"):
        queue_of(plan, where, "hidden_size=4")


def test_half_a_line_of_a_writer_that_died_is_cut(plan: Plan, where: Where) -> None:
    queue = queue_of(plan, where)
    queue.fill()
    journal = where.folder / JOURNAL
    whole = journal.read_bytes()
    journal.write_bytes(whole + whole.splitlines()[-1][:9])
    finish_all(queue_of(plan, where))
    assert states(queue) == {1: ("COMPLETE", 4.0), 2: ("COMPLETE", 8.0)}


def test_the_lock_of_a_journal_says_so_where_it_cannot_be_taken(tmp_path: Path) -> None:
    lock = JournalLock(tmp_path / JOURNAL)
    lock.folder.rmdir()
    with pytest.raises(RunError):
        lock.acquire()


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{", "line 2 is not JSON, "),
        ("[" * 9000, "line 2 is not JSON, "),
        ("[1, 2]", r"line 2 is \[1, 2\]\."),
        ('{"op_code": "0"}', "line 2 is {'op_code': '0'}"),
        ('{"op_code": 0, "worker_id": "x"}', "'study_name'"),
    ],
    ids=["torn", "deep", "a list", "no code", "no name"],
)
def test_a_journal_with_a_line_of_others_is_refused_as_it_is(plan: Plan, where: Where, line: str, why: str) -> None:
    queue_of(plan, where)
    journal = where.folder / JOURNAL
    first, *rest = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join([first, f"{line}\n", *rest]))
    before = journal.read_bytes()
    with pytest.raises(RunError, match=rf"{JOURNAL} is no journal of a sweep: .*{why}"):
        queue_of(plan, where)
    assert journal.read_bytes() == before
