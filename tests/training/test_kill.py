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

KILLS = 20


def in_a_child(recipe: LanguageRecipe, out: Path, text: str) -> int:
    """Start or resume the run in a process of its own, which shares this one's imports."""
    child = fork()
    if child == 0:
        try:
            started = (out / "recipe.toml").exists()
            training = session.reopen(Language, RunFolder.open(out)) if started else begin(recipe, out, text)
            session.complete(training, checkpoint_every=0.02)
            os._exit(0)
        except BaseException:
            os._exit(1)
    return child


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_killed_twenty_times_and_resumed_gives_the_same_metrics(
    tiny: LanguageRecipe, text: str, tmp_path: Path
) -> None:
    recipe = override(tiny, ["epochs=8", "patience=8"])
    straight = session.complete(begin(recipe, tmp_path / "straight", text))
    draw, out, killed = random.Random(4), tmp_path / "killed", 0
    while killed < KILLS:
        child = in_a_child(recipe, out, text)
        time.sleep(draw.uniform(0.01, 0.25))
        finished, status = os.waitpid(child, os.WNOHANG)
        if finished:
            assert status == 0
            break
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        killed += 1
    assert killed >= KILLS
    assert os.waitpid(in_a_child(recipe, out, text), 0)[1] == 0
    resumed = RunFolder.open(out).metrics()
    assert resumed is not None
    assert timeless(resumed) == timeless(straight)
