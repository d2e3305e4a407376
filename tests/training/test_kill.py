"""Killed at any moment, also while a checkpoint is written, a run of any task goes on to the same bits."""

import os
import random
import signal
import time
import traceback
from pathlib import Path
from typing import Any

import pytest
from tests.forking import failed, fork, waited
from tests.fuzz.forms import FORMS, packed
from tests.fuzz.mutations import write_tree
from tests.runs.tiny_runs import same_bits

from porism.runs.recipe import Recipe, override
from porism.runs.run import RunFolder
from porism.tasks import TASKS, find
from porism.training import session
from porism.training.progress import NoProgress
from porism.training.request import TrainingRequest

KILLS, SOME_KILLS = 15, 3
"""Of each task: 105 in all with --whole."""
STEPS = 4
"""In one life at most, of the 60 or more of a run: so no machine is fast enough to finish before the last kill."""
LONGEST_LIFE = 0.08
"""Seconds of training until the kill, drawn by --seed. A step with its checkpoint takes some milliseconds."""
FORM = {"language": "file", "words": "file", "images": "medmnist", "graphs": "dense", "speech": "list",
        "sentiment": "csv", "supervised": "npz"}  # fmt: skip
EPOCHS = {"language": 4, "words": 20, "images": 40, "graphs": 80, "speech": 18, "sentiment": 10, "supervised": 14}


class Halting(NoProgress):
    """Says when training begins, and waits to be killed after some steps."""

    def __init__(self, pipe: int) -> None:
        self.pipe, self.left = pipe, STEPS

    def begin(self, title: str, epochs: int, steps: int, done: int, unit: str) -> None:
        assert epochs * steps > KILLS * STEPS, "the run is too short to be killed so often"
        os.write(self.pipe, b"x")

    def step(self, units: int) -> None:
        self.left -= 1
        if self.left == 0:
            signal.pause()


def train(task: str, recipe: Recipe, out: Path, source: Path, progress: NoProgress) -> None:
    """Start or resume the run, with a checkpoint after every step."""
    if (out / "recipe.toml").exists():
        training = session.reopen(find(task), RunFolder.open(out), progress)
    else:
        request = TrainingRequest(
            find(task), recipe, source=str(source), seed=5, device="cpu", threads=1, baselines=False
        )
        training = session.begin(request, out)
    session.complete(training, progress, checkpoint_every=0)


def live(task: str, recipe: Recipe, out: Path, source: Path, progress: NoProgress) -> int:
    """The same in a process of its own, which shares this one's imports."""
    child = fork()
    if child == 0:
        try:
            train(task, recipe, out, source, progress)
            os._exit(0)
        except BaseException:
            os._exit(failed(traceback.format_exc()))
    return child


def timeless(run: Path) -> dict[str, Any]:
    """The results of a run without what a clock or a folder's name put in."""
    found = RunFolder.open(run).metrics()
    assert found is not None
    return {key: value for key, value in found.items() if key not in ("seconds", "run") and "_per_second" not in key}


@pytest.mark.sweep(1)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("task", TASKS)
def test_killed_many_times_a_run_ends_with_the_same_bits(
    task: str, tmp_path: Path, is_whole: bool, pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = FORMS[task]()[FORM[task]]
    files = form.files if form.arrays is None else {form.source: packed(form.arrays)}
    source = write_tree(tmp_path / "data", files) / form.source
    settings = [f"epochs={EPOCHS[task]}", f"patience={EPOCHS[task]}", "precision=fp32"]
    recipe = override(form.recipe, settings)
    # The same for all runs of a recipe, and longer than all else here.
    monkeypatch.setattr(session, "_cost", lambda task, progress: {})
    straight, killed = tmp_path / "straight", tmp_path / "killed"
    # Here, so that what the first step of a process imports is there for all others.
    train(task, recipe, straight, source, NoProgress())
    draw, torn = random.Random(pytestconfig.option.seed), 0
    for number in range(KILLS if is_whole else SOME_KILLS):
        begun, told = os.pipe()
        child = live(task, recipe, killed, source, Halting(told))
        os.close(told)
        # Now and then it has not begun to train yet.
        if number % 5 == 4 or os.read(begun, 1) == b"x":
            time.sleep(draw.uniform(0, LONGEST_LIFE))
        os.close(begun)
        os.kill(child, signal.SIGKILL)
        assert waited(child) == -signal.SIGKILL
        torn += any((killed / f".{name}.writing").exists() for name in ("last", "best"))
    assert waited(live(task, recipe, killed, source, NoProgress())) == 0
    assert same_bits(straight, killed)
    assert timeless(straight) == timeless(killed)
    print(f"{task}: {torn} kills came while a checkpoint was written")
