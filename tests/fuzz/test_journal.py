"""The journal of a sweep: damaged by whatever means, it is read as a sweep or refused in one line."""

from pathlib import Path

from optuna.trial import TrialState
from tests.fuzz.cases import Fuzz, attempt, check_both
from tests.fuzz.mutations import CHANGES, Change, changed
from tests.sweep.conftest import Plan, plan, text  # noqa: F401  # fixtures

from porism.errors import PorismError
from porism.sweep.queue import TrialQueue, Where
from porism.sweep.results import trials_of
from porism.sweep.storage import JOURNAL


def test_a_damaged_journal_is_read_or_refused(fuzz: Fuzz, plan: Plan, tmp_path: Path) -> None:  # noqa: F811
    made = plan(["hidden_size=4,8"], None, "grid")
    where = Where(tmp_path / "sweep")
    queue = TrialQueue(made, where, lower_is_better=True)
    trial = queue.take()
    assert trial is not None
    queue.finish(trial, float(queue.suggest(trial)["hidden_size"]), TrialState.COMPLETE)
    journal = (where.folder / JOURNAL).read_bytes()
    outcomes = []

    def resumed() -> int:
        found = TrialQueue(made, where, lower_is_better=True)
        found.fill()
        return len(trials_of(found))

    def check(changes: list[Change]) -> None:
        path = where.folder / JOURNAL
        path.unlink(missing_ok=True)
        for content in changed({JOURNAL: journal}, changes).values():
            path.write_bytes(content)
        outcomes.append(isinstance(attempt(resumed), PorismError))

    assert resumed() == 2
    fuzz(CHANGES, check, share=40, whole=500)
    check_both(outcomes)
