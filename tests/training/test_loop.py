import dataclasses
import json
import math
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from porism.errors import DataError, Interrupted, TrainingError
from porism.runs import checkpoint
from porism.runs.recipe import override
from porism.runs.run import RunFolder
from porism.tasks.language.recipes import LanguageRecipe
from porism.tasks.language.task import Language
from porism.training import session
from porism.training.loop import Training, evaluate
from porism.training.progress import NoProgress
from porism.training.request import TrainingRequest


def begin(recipe: LanguageRecipe, out: Path, text: str) -> Training:
    return session.begin(TrainingRequest(Language, recipe, source=text, device="cpu", seed=5, threads=1), out)


class BestEpochs(NoProgress):
    """Which epochs were told to be the best so far, and what else was told."""

    def __init__(self) -> None:
        self.best: list[bool] = []
        self.notes: list[str] = []

    def epoch(self, event: Mapping[str, Any]) -> None:
        self.best.append(event["best"])

    def note(self, text: str) -> None:
        self.notes.append(text)


def timeless(result: Mapping[str, Any]) -> dict[str, Any]:
    """A result without what a clock or a folder's name put in."""
    return {key: value for key, value in result.items() if key not in ("seconds", "tokens_per_second", "run")}


class StopAt(NoProgress):
    """Presses Ctrl-C once, after a number of steps."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def step(self, units: int) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.sweep(1)
@pytest.mark.parametrize("steps", [1, 60, 77, 150])
@pytest.mark.parametrize("model", ["elman", "lstm"])
def test_a_stopped_run_resumes_to_the_same_bits(
    tiny: LanguageRecipe, text: str, tmp_path: Path, steps: int, model: str
) -> None:
    recipe = override(tiny, [f"model={model}", "lr_scheduler=cosine", "max_grad_norm=1", "warmup_steps=10"])
    straight = session.complete(begin(recipe, tmp_path / "straight", text))
    with pytest.raises(Interrupted, match=f"stopped, and saved. Go on with: porism train --resume {tmp_path}/stopped"):
        session.complete(begin(recipe, tmp_path / "stopped", text), StopAt(steps))
    torch.manual_seed(12345)
    resumed = session.complete(session.reopen(Language, RunFolder.open(tmp_path / "stopped")))
    assert timeless(resumed) == timeless(straight)
    for name in ("best", "last"):
        ours, theirs = (checkpoint.read(tmp_path / run / name).parts for run in ("straight", "stopped"))
        for part, tensors in ours.items():
            for key, tensor in tensors.items():
                assert torch.equal(tensor, theirs[part][key]), (name, part, key)


def test_patience_stops_and_the_best_epoch_counts(tiny: LanguageRecipe, text: str, tmp_path: Path) -> None:
    recipe = override(tiny, ["epochs=40", "patience=2", "learning_rate=0.3", "lr_scheduler=constant", "batch_size=16"])
    training = begin(recipe, tmp_path / "run", text)
    result = session.complete(training)
    events = [json.loads(line) for line in (tmp_path / "run/events.jsonl").read_text().splitlines()]
    curve = [event["valid"]["perplexity"] for event in events if event["event"] == "epoch"]
    best = curve.index(min(curve)) + 1
    assert result["best_epoch"] == best
    assert result["epochs"] == len(curve) == best + 2 < 40
    assert result["metrics"]["valid"]["perplexity"] == min(curve)
    assert events[-1]["reason"] == "no better for 2 epochs"


def test_the_final_epoch_counts_where_a_recipe_says_so(tiny: LanguageRecipe, text: str, tmp_path: Path) -> None:
    settings = ["epochs=3", "patience=1", "learning_rate=0.3", "lr_scheduler=constant", "restore_best_weights=false"]
    told = BestEpochs()
    result = session.complete(begin(override(tiny, settings), tmp_path / "run", text), told)
    events = [json.loads(line) for line in (tmp_path / "run/events.jsonl").read_text().splitlines()]
    curve = [event["valid"]["perplexity"] for event in events if event["event"] == "epoch"]
    # People are told which one is best, though the last one counts.
    assert told.best == [value == min(curve[: number + 1]) for number, value in enumerate(curve)]
    assert "the last epoch counts, whichever is best on valid (restore_best_weights=false)" in told.notes
    # It is not the best one, and patience does not end it.
    assert curve[-1] > min(curve)
    assert result["best_epoch"] == result["epochs"] == 3
    assert result["metrics"]["valid"]["perplexity"] == curve[-1]


def test_evaluating_changes_nothing_and_gives_the_same_number_twice(task: Language) -> None:
    torch.manual_seed(1)
    model = task.build()
    before = {name: x.clone() for name, x in model.state_dict().items()}
    random = torch.get_rng_state()
    first, second = evaluate(task, model, "test"), evaluate(task, model, "test")
    assert first == second
    assert model.training
    assert torch.equal(torch.get_rng_state(), random)
    assert all(torch.equal(x, before[name]) for name, x in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())


def test_a_loss_that_is_no_number_stops_with_a_clear_line(tiny: LanguageRecipe, text: str, tmp_path: Path) -> None:
    recipe = override(tiny, ["nonlinearity=relu", "learning_rate=1e18", "optimizer=sgd"])
    with pytest.raises(
        TrainingError, match=r"the loss is (nan|inf) in epoch 1, step \d, at learning_rate 1e\+18: training cannot"
    ):
        session.complete(begin(recipe, tmp_path / "run", text))
    assert not checkpoint.exists(tmp_path / "run/last")


def test_the_two_first_seeds_differ(tiny: LanguageRecipe, text: str, tmp_path: Path) -> None:
    short = override(tiny, ["epochs=1"])
    one, same = (session.complete(begin(short, tmp_path / name, text)) for name in ("one", "same"))
    other = session.complete(
        session.begin(TrainingRequest(Language, short, source=text, device="cpu", seed=6), tmp_path / "other")
    )
    assert timeless(one) == timeless(same)
    assert one["metrics"] != other["metrics"]


def test_other_data_is_refused_on_resume(tiny: LanguageRecipe, text: str, tmp_path: Path) -> None:
    copy = tmp_path / "text.txt"
    copy.write_text(Path(text).read_text())
    session.complete(begin(override(tiny, ["epochs=1"]), tmp_path / "run", str(copy)))
    copy.write_text(Path(text).read_text() + "the cat sleeps\n")
    with pytest.raises(DataError, match="has changed since the run began"):
        session.reopen(Language, RunFolder.open(tmp_path / "run"))


def test_checkpoints_within_an_epoch_change_nothing(tiny: LanguageRecipe, text: str, tmp_path: Path) -> None:
    recipe = dataclasses.replace(tiny, epochs=1)
    often = session.complete(begin(recipe, tmp_path / "often", text), checkpoint_every=0.0)
    never = session.complete(begin(recipe, tmp_path / "never", text), checkpoint_every=math.inf)
    assert timeless(often) == timeless(never)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_run_stopped_on_a_gpu_goes_on(tiny: LanguageRecipe, text: str, tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        session.complete(
            session.begin(TrainingRequest(Language, tiny, source=text, device="cuda"), tmp_path / "run"), StopAt(77)
        )
    resumed = session.complete(session.reopen(Language, RunFolder.open(tmp_path / "run")))
    straight = session.complete(
        session.begin(TrainingRequest(Language, tiny, source=text, device="cuda"), tmp_path / "straight")
    )
    found, expected = (result["metrics"]["test"]["perplexity"] for result in (resumed, straight))
    assert found == pytest.approx(expected, rel=0.02)
