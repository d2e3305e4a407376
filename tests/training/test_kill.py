"""Killed at any moment, a run goes on to the same result."""

import os
import random
import signal
import time
from pathlib import Path

import pytest
from tests.runs.tiny_runs import fork
from tests.training.test_loop import begin, timeless

from porism.runs.recipe import override
from porism.runs.run import RunFolder
from porism.tasks.language.recipes import LanguageRecipe
from porism.tasks.language.task import Language
from porism.training import session
from porism.training.progress import NoProgress, Progress

KILLS, SOME_KILLS = 20, 6
STEPS = 20
"""In one life, of the 560 or so of a run."""


class Halting(NoProgress):
    """Waits to be killed after a number of steps, so that no machine is fast enough to finish before."""

    def __init__(self) -> None:
        self.left = STEPS

    def step(self, units: int) -> None:
        self.left -= 1
        if self.left == 0:
            signal.pause()


def in_a_child(recipe: LanguageRecipe, out: Path, text: str, progress: Progress) -> int:
    """Start or resume the run in a process of its own, which shares this one's imports."""
    child = fork()
    if child == 0:
        try:
            started = (out / "recipe.toml").exists()
            training = session.reopen(Language, RunFolder.open(out)) if started else begin(recipe, out, text)
            session.complete(training, progress, checkpoint_every=0.02)
            os._exit(0)
        except BaseException:
            os._exit(1)
    return child


@pytest.mark.sweep(0)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_killed_many_times_and_resumed_gives_the_same_metrics(
    tiny: LanguageRecipe, text: str, tmp_path: Path, is_whole: bool
) -> None:
    recipe = override(tiny, ["epochs=8", "patience=8"])
    straight = session.complete(begin(recipe, tmp_path / "straight", text))
    draw, out = random.Random(4), tmp_path / "killed"
    for _ in range(KILLS if is_whole else SOME_KILLS):
        child = in_a_child(recipe, out, text, Halting())
        time.sleep(draw.uniform(0.01, 0.25))
        os.kill(child, signal.SIGKILL)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert os.waitpid(in_a_child(recipe, out, text, NoProgress()), 0)[1] == 0
    resumed = RunFolder.open(out).metrics()
    assert resumed is not None
    assert timeless(resumed) == timeless(straight)
