"""Where memory does not suffice, one line says how much was requested."""

from pathlib import Path

import numpy as np
import pytest
import torch
from tests.cli.conftest import TINY, Say

from porism.cli.recipes import RecipesCommand
from porism.errors import RecipeError, out_of_memory
from porism.tasks.language.task import Language


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (torch.OutOfMemoryError("CUDA: Tried to allocate 20.00 GiB."), "the GPU does not suffice: 20.0 GiB"),
        (MemoryError("Unable to allocate 1.50 TiB for an array with shape (9,)"), "memory does not suffice: 1.5 TiB"),
        (RuntimeError("not enough memory: you tried to allocate 1610612736 bytes"), "memory does not suffice: 1.5 GiB"),
        (RuntimeError("CUDA error: out of memory"), "the GPU does not suffice. Use smaller sizes"),
        (MemoryError(), "memory does not suffice. Use smaller sizes"),
    ],
)  # fmt: skip
def test_memory_errors_say_the_size(say: Say, monkeypatch: pytest.MonkeyPatch, raised: Exception, told: str) -> None:
    def run(self: RecipesCommand) -> int:
        raise raised

    monkeypatch.setattr(RecipesCommand, "run", run)
    completed = say("recipes")
    assert (completed.code, completed.err.count("\n")) == (2, 1)
    assert completed.err.startswith(f"porism: {told}")


def test_what_torch_and_numpy_say_is_understood() -> None:
    with pytest.raises(RuntimeError) as of_torch:
        torch.empty(2**50)
    assert "4.0 PiB more were requested" in str(out_of_memory(of_torch.value))
    with pytest.raises(MemoryError) as of_numpy:
        np.empty(2**55)
    with pytest.raises(RuntimeError) as overflow:
        torch.empty(2**40, 2**40)
    assert "memory does not suffice. Use smaller sizes" in str(out_of_memory(overflow.value))
    assert "256.0 PiB more were requested" in str(out_of_memory(of_numpy.value))


def test_another_error_stays_what_it_is(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(self: RecipesCommand) -> int:
        raise RuntimeError("shapes do not fit")

    monkeypatch.setattr(RecipesCommand, "run", run)
    with pytest.raises(RuntimeError, match="shapes do not fit"):
        say("recipes")


@pytest.mark.parametrize("refusal", [MemoryError("Unable to allocate 1.50 TiB"), RecipeError("no such size.")])
def test_a_model_that_cannot_be_made_leaves_no_run(
    say: Say, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusal: Exception
) -> None:
    def build(self: Language) -> None:
        raise refusal

    words = ["train", "language", "--data", text, TINY, "--out=run", "--no-baselines"]
    with monkeypatch.context() as patch:
        patch.setattr(Language, "build", build)
        refused = say(*words)
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert [path.name for path in (tmp_path / "run").iterdir()] == [".lock"]
    assert say(*words).code == 0
