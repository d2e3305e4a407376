"""Lines `progress`: how far an epoch has come, for who watches a run from outside."""

import json
from pathlib import Path

import pytest

from porism.runs.recipe import override
from porism.runs.record import read_run
from porism.tasks.language.recipes import LanguageRecipe
from porism.tasks.language.task import Language
from porism.training import progress_events, session
from porism.training.progress import NoProgress
from porism.training.request import TrainingRequest


def events(run: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]


def train(recipe: LanguageRecipe, text: str, out: Path) -> dict[str, object]:
    request = TrainingRequest(Language, override(recipe, ["epochs=2"]), source=text, device="cpu", threads=1)
    return session.complete(session.begin(request, out), NoProgress())


def test_every_step_whose_second_has_come_is_told(
    tiny: LanguageRecipe, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without = train(tiny, text, tmp_path / "without")
    monkeypatch.setattr(progress_events, "EVERY_SECONDS", 0.0)
    result = train(tiny, text, tmp_path / "run")
    assert result["metrics"] == without["metrics"]

    told = [event for event in events(tmp_path / "run") if event["event"] == "progress"]
    steps = told[0]["steps"]
    assert isinstance(steps, int)
    # The last step of an epoch is told by the epoch itself.
    assert [(event["epoch"], event["step"]) for event in told] == [
        (epoch, step) for epoch in (1, 2) for step in range(1, steps)
    ]
    assert all(event["unit"] == "tokens" for event in told)
    rates, left, losses = ([event[key] for event in told] for key in ("rate", "seconds_left", "loss"))
    assert all(isinstance(value, float) and value > 0 for value in rates + losses)
    assert all(isinstance(value, float) and value >= 0 for value in left)

    record = read_run(tmp_path / "run")
    assert [epoch.epoch for epoch in record.epochs] == [1, 2]
    assert record.progress is None


def test_a_second_is_the_least_between_two(tiny: LanguageRecipe, text: str, tmp_path: Path) -> None:
    training = session.begin(TrainingRequest(Language, tiny, source=text, device="cpu", threads=1), tmp_path / "run")
    training.position.step, training.position.units, training.position.loss = 0, 10, 30.0
    told = progress_events.ProgressEvents(training.run, training.task, training.position, last=50, done=0, total=100)
    for tenth in range(1, 26):
        training.position.step += 1
        training.position.units += 10
        told.step(told.since + tenth / 10)
    training.run.unlock()
    lines = [event for event in events(tmp_path / "run") if event["event"] == "progress"]
    assert [event["step"] for event in lines] == [10, 20]
    assert [event["seconds_left"] for event in lines] == [9.0, 8.0]
    assert [event["rate"] for event in lines] == [100.0, 100.0]
    record = read_run(tmp_path / "run")
    assert record.progress is not None
    assert (record.progress.step, record.progress.steps) == (20, 50)
