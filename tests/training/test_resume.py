"""What a run needs to go on is checked before it does: no training is wasted, no result is lost."""

import math
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.runs import tiny_runs
from tests.runs.tiny_runs import Listener, begin, bits, copied, flip, in_a_child, resume, same_bits, stopped

from porism.errors import PorismError, RunError, TrainingError
from porism.runs import checkpoint
from porism.runs.checkpoint import Snapshot
from porism.runs.record import read_run
from porism.runs.run import RunFolder
from porism.tasks.language.task import Language
from porism.training import session
from porism.training.loop import Training


def epochs_of(run: Path) -> list[float]:
    return [epoch.valid["perplexity"] or math.nan for epoch in read_run(run).epochs]


LOSSES: dict[str, Callable[[Path], None]] = {
    "deleted": lambda best: shutil.rmtree(best),
    "damaged": lambda best: flip(best / "model.safetensors"),
    "cut": lambda best: tiny_runs.cut(best / "state.json"),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_a_lost_best_is_told_before_training_and_the_epochs_from_there_count(
    tiny_text: str, tmp_path: Path, loss: str
) -> None:
    # At this rate the first epoch stays the best.
    run = stopped(tmp_path / "run", tiny_text, "epochs=6", "learning_rate=2", "patience=9", epochs=3)
    assert checkpoint.read(run / "best").state["epoch"] == 1
    LOSSES[loss](run / "best")
    listener = Listener()
    training = resume(run, listener)
    (note,) = listener.notes
    assert str(run / "best") in note
    assert "The best epoch so far, 1, is lost; epoch 3, the newest, counts as the best." in note
    result = session.complete(training)
    curve = epochs_of(run)
    assert len(curve) == 6
    assert result["best_epoch"] == 3 + curve[2:].index(min(curve[2:]))
    assert result["metrics"]["valid"]["perplexity"] == min(curve[2:])
    assert checkpoint.read(run / "best").state["epoch"] == result["best_epoch"]
    best = read_run(run).best
    assert best is not None
    assert best.epoch == result["best_epoch"]
    assert note in read_run(run).notes


def test_without_the_best_in_the_middle_of_an_epoch_the_next_ones_count(tiny_text: str, tmp_path: Path) -> None:
    run = stopped(tmp_path / "run", tiny_text, "epochs=4", "learning_rate=2", "patience=2", steps=8)
    shutil.rmtree(run / "best")
    shutil.rmtree(run / "best.previous", ignore_errors=True)
    listener = Listener()
    training = resume(run, listener)
    assert "is lost; the epochs from here on decide which is the best." in listener.notes[0]
    assert (training.position.epoch, training.position.best, training.position.best_epoch) == (3, None, 0)
    result = session.complete(training)
    assert result["best_epoch"] >= 3
    assert result["metrics"]["valid"]["perplexity"] == epochs_of(run)[result["best_epoch"] - 1]


def test_all_epochs_done_and_the_best_lost_reports_the_last_one(straight: Path, tmp_path: Path) -> None:
    run = copied(straight, tmp_path / "run")
    (run / "metrics.json").unlink()
    shutil.rmtree(run / "best")
    listener = Listener()
    result = session.complete(resume(run, listener))
    assert "The best epoch so far, 2, is lost; epoch 3, the newest, counts as the best." in listener.notes[0]
    assert result["best_epoch"] == 3
    assert result["metrics"]["valid"]["perplexity"] == epochs_of(run)[2]
    assert bits(run, "best").items() <= bits(run, "last").items()
    # Said once: from now on the run is as whole as any.
    again = Listener()
    assert session.complete(resume(run, again)) == result
    assert again.notes == []


def test_the_best_lost_while_training_reports_the_last_one(tiny_text: str, tmp_path: Path) -> None:
    class Thief(Listener):
        def epoch(self, event: Any) -> None:
            if event["epoch"] == 3:
                shutil.rmtree(tmp_path / "run/best")
                shutil.rmtree(tmp_path / "run/best.previous")

    thief = Thief()
    result = session.complete(begin(tmp_path / "run", tiny_text), thief)
    assert any("is lost; epoch 3, the newest, counts as the best." in note for note in thief.notes)
    assert result["best_epoch"] == 3
    assert result["metrics"]["valid"]["perplexity"] == epochs_of(tmp_path / "run")[2]


def test_results_are_not_replaced_by_those_of_a_lesser_model(straight: Path, tmp_path: Path) -> None:
    run = copied(straight, tmp_path / "run")
    shutil.rmtree(run / "best")
    before = (run / "metrics.json").read_bytes()
    with pytest.raises(RunError, match=r"has finished, and metrics.json has its results.*repeat it with: porism train"):
        session.complete(resume(run))
    assert (run / "metrics.json").read_bytes() == before


def killed_between_best_and_last(tiny_text: str, out: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run that saved the model of its second epoch as the best, and was killed before it was done with the epoch."""
    save = Snapshot.save

    def dies(self: Snapshot) -> None:
        if self.folder.name == "last" and self.state["position"]["best_epoch"] == 2:
            raise tiny_runs.Stop
        save(self)

    training = begin(out, tiny_text)
    with monkeypatch.context() as patch:
        patch.setattr(Snapshot, "save", dies)
        with pytest.raises(tiny_runs.Stop):
            training.fit()
    assert checkpoint.read(out / "best").state["epoch"] == 2
    assert checkpoint.read(out / "last").state["position"]["best_epoch"] == 1
    return out


def test_an_epoch_that_is_worse_when_repeated_gives_way_to_the_one_before(
    tiny_text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = killed_between_best_and_last(tiny_text, tmp_path / "run", monkeypatch)
    evaluate = Language.evaluate

    def worse(self: Language, model: torch.nn.Module, split: str) -> dict[str, float]:
        return {name: value + (100 if split == "valid" else 0) for name, value in evaluate(self, model, split).items()}

    training = resume(run, Listener())
    with monkeypatch.context() as patch:
        patch.setattr(Language, "evaluate", worse)
        training.fit()
    result = session.complete(training)
    assert result["best_epoch"] == 1
    assert result["metrics"]["valid"]["perplexity"] == epochs_of(run)[0]
    # What is evaluated later is the model that the results are of.
    assert checkpoint.load(run / "best")[0].state["epoch"] == 1


def test_an_epoch_repeated_after_a_kill_gives_the_same_bits(
    tiny_text: str, straight: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = killed_between_best_and_last(tiny_text, tmp_path / "run", monkeypatch)
    session.complete(resume(run))
    assert same_bits(run, straight)


def test_an_older_last_takes_the_best_of_its_own_time(tiny_text: str, straight: Path, tmp_path: Path) -> None:
    # Of epochs 1 and 2, both the best when they ended; `last` of the second is damaged.
    run = stopped(tmp_path / "run", tiny_text, epochs=2)
    flip(run / "last/model.safetensors")
    listener = Listener()
    training = resume(run, listener)
    assert [note.split()[0] for note in listener.notes] == [f"{run}/last/model.safetensors", f"{run}/best"]
    assert training.position.best_epoch == 1
    session.complete(training)
    assert same_bits(run, straight)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_damaged_last_never_takes_the_place_of_a_good_one(
    tiny_text: str, straight: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = stopped(tmp_path / "run", tiny_text, epochs=2)
    flip(run / "last/model.safetensors")
    rename = Path.rename

    def killed(self: Path, target: Path) -> Path:
        if self.name == "last":
            os._exit(9)
        return rename(self, target)

    def killed_resume() -> None:
        monkeypatch.setattr(Path, "rename", killed)
        resume(run).fit()

    assert in_a_child(killed_resume) == 9
    session.complete(resume(run))
    assert same_bits(run, straight)


def with_nan(run: Path, name: str) -> None:
    """Let a checkpoint hold a parameter of NaN, with the right checksums."""
    saved = checkpoint.read(run / name)
    parts = {part: dict(tensors) for part, tensors in saved.parts.items()}
    first = next(iter(parts["model"]))
    parts["model"][first] = torch.full_like(parts["model"][first], math.nan)
    shutil.rmtree(run / name)
    checkpoint.save(run / "made", parts, saved.state, saved.documents)
    (run / "made").rename(run / name)


def test_a_last_of_nan_is_passed_over_for_a_good_one_before_it(tiny_text: str, straight: Path, tmp_path: Path) -> None:
    run = stopped(tmp_path / "run", tiny_text, epochs=2)
    with_nan(run, "last")
    listener = Listener()
    training = resume(run, listener)
    assert f"{run / 'last'} cannot be used" in listener.notes[0]
    assert "Using the one before it" in listener.notes[0]
    session.complete(training)
    assert same_bits(run, straight)


def test_a_last_of_nan_alone_is_refused(tiny_text: str, tmp_path: Path) -> None:
    run = stopped(tmp_path / "run", tiny_text, epochs=2)
    with_nan(run, "last")
    shutil.rmtree(run / "last.previous")
    with pytest.raises(RunError, match=r"last cannot be used: .* There is no good one before it; start a new run."):
        resume(run)


class Breaker(Listener):
    """Breaks a parameter after a step, as an update by a rate too large does."""

    def __init__(self, training: Training, steps: int, value: float) -> None:
        super().__init__()
        self.training, self.left, self.value = training, steps, value

    def step(self, units: int) -> None:
        self.left -= 1
        if self.left == 0:
            with torch.no_grad():
                next(self.training.model.parameters()).view(-1)[3] = self.value


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("steps", [5, 6], ids=["in the middle of an epoch", "at its end"])
def test_parameters_that_are_not_finite_are_never_saved(
    tiny_text: str, tmp_path: Path, steps: int, value: float
) -> None:
    training = begin(tmp_path / "run", tiny_text)
    name = next(iter(dict(training.model.named_parameters())))
    with pytest.raises(TrainingError, match=rf"^{name} is not finite in epoch 2, step \d, at learning_rate 0.05"):
        session.complete(training, Breaker(training, steps, value), checkpoint_every=-1)
    for folder in ("last", "last.previous", "best"):
        for tensor in checkpoint.read(tmp_path / "run" / folder).parts["model"].values():
            assert tensor.isfinite().all()
    assert training.position.finished == ""
    assert resume(tmp_path / "run").position.step == steps - 1 - 3


def test_ctrl_c_does_not_save_them_either(tiny_text: str, tmp_path: Path) -> None:
    class Interrupter(Breaker):
        def step(self, units: int) -> None:
            super().step(units)
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGINT)

    training = begin(tmp_path / "run", tiny_text)
    with pytest.raises(TrainingError, match="is not finite in epoch 2, step 2, .* What was saved before is intact in"):
        session.complete(training, Interrupter(training, 5, math.nan))
    at = resume(tmp_path / "run").position
    assert (at.epoch, at.step) == (2, 0)


@pytest.mark.parametrize("rate", ["inf", "1e39"])
def test_the_first_update_that_breaks_the_model_is_not_saved(tiny_text: str, tmp_path: Path, rate: str) -> None:
    training = begin(tmp_path / "run", tiny_text, "optimizer=sgd", "learning_rate=1")
    # A recipe that was written by hand may say what --set refuses.
    object.__setattr__(training.task.recipe, "learning_rate", float(rate))
    with pytest.raises(TrainingError, match="training cannot go on") as caught:
        training.fit(checkpoint_every=-1)
    assert not checkpoint.exists(tmp_path / "run/last")
    assert "Nothing was saved yet; start a new run with --set learning_rate=0.003 or --set max_grad_norm=1." in str(
        caught.value
    )


CHANGES = {
    "learning_rate = 0.05": "learning_rate = 0.5",
    "seed = 5": "seed = 8",
    'source = "': 'source = "/',
    'name = "elman"\n': "",
}


@pytest.mark.sweep(1, each="old")
@pytest.mark.parametrize("old", CHANGES)
@pytest.mark.parametrize("witnesses", [[], ["events.jsonl"], ["events.jsonl", "last", "last.previous"]])
def test_a_changed_recipe_is_refused(tiny_text: str, tmp_path: Path, old: str, witnesses: list[str]) -> None:
    run = stopped(tmp_path / "run", tiny_text, epochs=2)
    for name in witnesses:
        if (run / name).is_dir():
            shutil.rmtree(run / name)
        else:
            (run / name).unlink()
    recipe = run / "recipe.toml"
    content = recipe.read_text()
    assert content.count(old) == 1
    recipe.write_text(content.replace(old, CHANGES[old]))
    for read in (resume, RunFolder.open, read_run):
        with pytest.raises(RunError, match=rf"{recipe} was changed since {run}/\S+ was written"):
            read(run)
    recipe.write_text(content)
    session.complete(resume(run))


def test_a_changed_recipe_is_refused_before_there_is_a_checkpoint(tiny_text: str, tmp_path: Path) -> None:
    run = begin(tmp_path / "run", tiny_text).run.path
    recipe = run / "recipe.toml"
    recipe.write_text(recipe.read_text().replace("seed = 5", "seed = 6"))
    with pytest.raises(RunError, match=rf"{recipe} was changed since {run}/events.jsonl was written"):
        resume(run)


def test_a_line_of_events_that_was_cut_is_told_before_training(tiny_text: str, tmp_path: Path) -> None:
    run = stopped(tmp_path / "run", tiny_text, epochs=2)
    events = run / "events.jsonl"
    lines = events.read_text().splitlines()
    events.write_text("\n".join([lines[0], lines[1][:40], *lines[2:]]) + "\n")
    before = {name: (run / name).read_bytes() for name in tiny_runs.files(run)}
    with pytest.raises(RunError, match=r"events\.jsonl, line 2: not JSON"):
        resume(run)
    assert {name: (run / name).read_bytes() for name in tiny_runs.files(run)} == before


def test_events_may_be_deleted_and_the_curve_begins_anew(tiny_text: str, straight: Path, tmp_path: Path) -> None:
    run = stopped(tmp_path / "run", tiny_text, epochs=2)
    (run / "events.jsonl").unlink()
    # Twice, since the first may be stopped before it saves.
    resume(run)
    session.complete(resume(run))
    assert same_bits(run, straight)
    assert epochs_of(run) == epochs_of(straight)[2:]


def test_a_missing_last_is_told(tiny_text: str, straight: Path, tmp_path: Path) -> None:
    run = stopped(tmp_path / "run", tiny_text, epochs=2)
    shutil.rmtree(run / "last")
    shutil.rmtree(run / "last.previous")
    listener = Listener()
    training = resume(run, listener)
    assert listener.notes == [f"{run / 'last'} is not there: training starts from its first epoch again."]
    assert epochs_of(run) == []
    session.complete(training)
    assert same_bits(run, straight)
    assert epochs_of(run) == epochs_of(straight)


@pytest.mark.parametrize("hurt", ["flip", "delete"])
def test_a_finished_run_is_not_trained_again(straight: Path, tmp_path: Path, hurt: str) -> None:
    run = copied(straight, tmp_path / "run")
    if hurt == "flip":
        flip(run / "last/model.safetensors")
    else:
        shutil.rmtree(run / "last")
        shutil.rmtree(run / "last.previous")
    before = {name: (run / name).read_bytes() for name in tiny_runs.files(run)}
    with pytest.raises(RunError, match="has finished, and metrics.json has its results: no epoch is left"):
        resume(run)
    assert {name: (run / name).read_bytes() for name in tiny_runs.files(run)} == before


def test_results_stay_as_they_are(straight: Path, tmp_path: Path) -> None:
    run = copied(straight, tmp_path / "moved")
    before = (run / "metrics.json").read_bytes()
    result = session.complete(resume(run))
    assert (run / "metrics.json").read_bytes() == before
    assert {**result, "run": ""} == {**(RunFolder.open(straight).metrics() or {}), "run": ""}
    assert result["run"] == str(run)


def test_a_best_under_the_name_of_last_is_no_last(tiny_text: str, tmp_path: Path) -> None:
    run = stopped(tmp_path / "run", tiny_text, epochs=2)
    for name in ("last", "last.previous"):
        shutil.rmtree(run / name)
        shutil.copytree(run / "best", run / name)
    with pytest.raises(PorismError, match=rf"{run}/\.?last"):
        resume(run)


def test_a_last_under_the_name_of_best_is_no_best(straight: Path, tmp_path: Path) -> None:
    run = copied(straight, tmp_path / "run")
    for name in ("best", "best.previous"):
        shutil.rmtree(run / name)
        shutil.copytree(run / "last", run / name)
    with pytest.raises(RunError, match=f"{run / 'best'} is not a checkpoint of a best epoch"):
        session.best_checkpoint(RunFolder.open(run), Listener())


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("optimizer", "last cannot be resumed from: its optimizer or its random state does not fit"),
        ("random", "last cannot be resumed from: its optimizer or its random state does not fit"),
        ("epoch", "last is not a checkpoint to resume from: Expected `int` >= 1"),
        ("step", "last is not a checkpoint to resume from: Expected `int` >= 0"),
    ],
)
def test_a_last_of_other_making_is_refused(tiny_text: str, tmp_path: Path, what: str, message: str) -> None:
    run = stopped(tmp_path / "run", tiny_text, epochs=1)
    shutil.rmtree(run / "last.previous", ignore_errors=True)
    found = checkpoint.read(run / "last")
    parts, state = dict(found.parts), dict(found.state)
    if what in parts:
        parts[what] = {name: x[:1].clone() if x.dim() else x for name, x in parts[what].items()}
    else:
        state["position"] = {**state["position"], what: -3}
    checkpoint.save(run / "last", parts, state)
    shutil.rmtree(run / "last.previous")
    with pytest.raises(RunError, match=message):
        resume(run)
