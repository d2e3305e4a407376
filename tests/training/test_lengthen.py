"""A run that is lengthened is the run that would have been longer from the start, wherever it is stopped on the way."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.runs import tiny_runs
from tests.runs.tiny_runs import Stop, copied, resume, write_text
from tests.training.test_loop import timeless

from porism.errors import RecipeError, RunError
from porism.runs.recipe import override
from porism.runs.record import read_run
from porism.runs.run import RunFolder
from porism.training import session
from porism.training.lengthen import lengthen
from porism.training.loop import Training

CONSTANT = "lr_scheduler=constant"


def begin(out: Path, text: str, *settings: str) -> Training:
    return tiny_runs.begin(out, text, CONSTANT, *settings)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of three epochs in `short`, one of six in `long`, and one of six without a limit of patience."""
    folder = tmp_path_factory.mktemp("lengthened")
    text = write_text(folder)
    session.complete(begin(folder / "short", text))
    session.complete(begin(folder / "impatient", text, "epochs=6", "patience=1"))
    for name, settings in {"long": ("epochs=6",), "patient": ("epochs=6", "patience=6")}.items():
        session.complete(begin(folder / name, text, *settings))
    return folder


def longer(training: Training, **lengths: int) -> list[str]:
    return lengthen(training, override(training.task.recipe, [f"{name}={value}" for name, value in lengths.items()]))


def train_to_six(training: Training) -> None:
    longer(training, epochs=6)
    session.complete(training)


def result(run: Path) -> dict[str, Any]:
    """What came of a run, without how it was requested."""
    metrics = RunFolder.open(run).metrics()
    assert metrics is not None
    return {key: value for key, value in timeless(metrics).items() if key != "command"}


def epochs_told(run: Path) -> list[tuple[int, float | None]]:
    return [(epoch.epoch, epoch.valid["perplexity"]) for epoch in read_run(run).epochs]


def test_a_finished_run_goes_on_from_its_last_epoch(folder: Path, tmp_path: Path) -> None:
    training = resume(copied(folder / "short", tmp_path / "run"))
    assert training.position.finished == "all epochs done"
    assert longer(training, epochs=6) == ["epochs 3 -> 6"]
    assert RunFolder.open(tmp_path / "run").metrics() is None
    session.complete(training)
    assert result(tmp_path / "run") == result(folder / "long")
    assert epochs_told(tmp_path / "run") == epochs_told(folder / "long")
    found = RunFolder.open(tmp_path / "run")
    assert found.fields["epochs"] == 6
    assert found.facts.overrides[-1] == "epochs=6"
    assert "epochs=3" not in found.facts.overrides


def test_a_run_that_lost_patience_gains_some(folder: Path, tmp_path: Path) -> None:
    training = resume(copied(folder / "impatient", tmp_path / "run"))
    assert training.position.finished == "no better for 1 epoch"
    assert longer(training, epochs=7) == ["epochs 6 -> 7"]
    assert training.position.finished == "no better for 1 epoch"
    assert longer(training, epochs=6, patience=6) == ["epochs 7 -> 6", "patience 1 -> 6"]
    session.complete(training)
    assert result(tmp_path / "run") == result(folder / "patient")


@pytest.mark.parametrize("steps", [1, 4])
def test_an_unfinished_run_is_lengthened_where_it_stands(folder: Path, tmp_path: Path, steps: int) -> None:
    training = resume(tiny_runs.stopped(tmp_path / "run", str(folder / "text.txt"), CONSTANT, steps=steps))
    assert longer(training, epochs=6, patience=3) == ["epochs 3 -> 6"]
    session.complete(training)
    assert result(tmp_path / "run") == result(folder / "long")


def test_the_same_length_changes_nothing(folder: Path, tmp_path: Path) -> None:
    run = copied(folder / "short", tmp_path / "run")
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file() and path.name != ".lock"}
    assert longer(resume(run)) == []
    assert {path: path.read_bytes() for path in before} == before


def stop_before(kind: type, name: str, when: Callable[..., bool]) -> Callable[[pytest.MonkeyPatch], None]:
    """Stop as a kill does, where this is about to happen."""
    method = getattr(kind, name)

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        def stopping(*arguments: Any, **options: Any) -> Any:
            if when(*arguments):
                raise Stop
            return method(*arguments, **options)

        monkeypatch.setattr(kind, name, stopping)

    return patch


@pytest.mark.sweep(2)
@pytest.mark.parametrize(
    "kill",
    [
        stop_before(Path, "unlink", lambda path, *_: path.name == "exhibits.json"),
        stop_before(RunFolder, "lengthen", lambda *_: True),
        stop_before(RunFolder, "append", lambda _, event: event == "lengthen"),
        stop_before(RunFolder, "append", lambda _, event: event == "resume"),
        stop_before(Training, "last", lambda *_: True),
        stop_before(RunFolder, "write_metrics", lambda *_: True),
    ],
    ids=["results", "recipe", "event", "resume", "last", "metrics"],
)
def test_a_kill_on_the_way_loses_nothing(
    folder: Path, tmp_path: Path, kill: Callable[[pytest.MonkeyPatch], None]
) -> None:
    run = copied(folder / "short", tmp_path / "run")
    training = resume(run)
    with pytest.MonkeyPatch.context() as monkeypatch:
        kill(monkeypatch)
        with pytest.raises(Stop):
            train_to_six(training)
    training.run.unlock()
    # As it stands it is either the short run or the long one, and both can be had from it.
    again = copied(run, tmp_path / "again")
    session.complete(resume(again))
    assert result(again) == result(folder / ("short" if RunFolder.open(again).fields["epochs"] == 3 else "long"))
    train_to_six(resume(run))
    assert result(run) == result(folder / "long")


@pytest.mark.parametrize(
    ("settings", "lengths", "message"),
    [
        ((), {"epochs": 2}, "epochs=2 cannot be: the run is in epoch 3 already"),
        ((), {"patience": 1}, "patience=1 cannot be: the run was trained with 3, and a resumed run can only have more"),
        (
            ("lr_scheduler=cosine",),
            {"epochs": 6},
            "by lr_scheduler=cosine the learning rates so far came from epochs=3",
        ),
        (("lr_scheduler=linear",), {"epochs": 6}, "Start a new run with: porism train language elman .*--set epochs=6"),
    ],
)
def test_what_would_be_another_run_is_refused(
    folder: Path, tmp_path: Path, settings: tuple[str, ...], lengths: dict[str, int], message: str
) -> None:
    session.complete(begin(tmp_path / "run", str(folder / "text.txt"), *settings))
    before = (tmp_path / "run/recipe.toml").read_bytes()
    with pytest.raises(RecipeError, match=message):
        longer(resume(tmp_path / "run"), **lengths)
    assert (tmp_path / "run/recipe.toml").read_bytes() == before
    assert (tmp_path / "run/metrics.json").exists()


def test_before_its_first_step_a_run_with_a_schedule_can_be_lengthened(folder: Path, tmp_path: Path) -> None:
    begin(tmp_path / "run", str(folder / "text.txt"), "lr_scheduler=cosine").run.unlock()
    training = resume(tmp_path / "run")
    assert longer(training, epochs=4) == ["epochs 3 -> 4"]
    session.complete(training)
    session.complete(begin(tmp_path / "straight", str(folder / "text.txt"), "lr_scheduler=cosine", "epochs=4"))
    assert result(tmp_path / "run") == result(tmp_path / "straight")


def test_the_recipe_of_a_lengthened_run_cannot_be_changed_by_hand(folder: Path, tmp_path: Path) -> None:
    run = copied(folder / "short", tmp_path / "run")
    old, recipe = (run / "recipe.toml").read_text(), run / "recipe.toml"
    training = resume(run)
    longer(training, epochs=6)
    training.run.unlock()
    new = recipe.read_text()
    for other in (new.replace("learning_rate = 0.05", "learning_rate = 0.5"), old):
        assert other != new
        recipe.write_text(other)
        with pytest.raises(RunError, match="recipe.toml was changed since"):
            RunFolder.open(run)
        with pytest.raises(RunError, match="recipe.toml was changed since"):
            read_run(run)
    recipe.write_text(new)
    session.complete(resume(run))
    assert result(run) == result(folder / "long")
