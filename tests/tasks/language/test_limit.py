"""On the synthetic source a model's distance from the limit can be read off: it comes close, and never gets beyond."""

from pathlib import Path

import pytest

from porism.runs.recipe import override
from porism.tasks.language.recipes import RECIPES
from porism.tasks.language.task import Language
from porism.training.request import TrainingRequest
from porism.training.session import begin, complete

SETTINGS = [
    "dropout=0",
    "batch_size=64",
    "seq_len=10",
    "embedding_dim=32",
    "hidden_size=96",
    "learning_rate=0.02",
    "epochs=6",
    "precision=fp32",
]


@pytest.mark.sweep(0)
def test_perplexity_comes_within_two_percent_of_the_true_entropy_and_never_beats_it(tmp_path: Path) -> None:
    training = begin(
        TrainingRequest(Language, override(RECIPES["elman"], SETTINGS), source="synthetic", device="cpu"),
        tmp_path / "run",
    )
    result = complete(training)
    for split in ("valid", "test"):
        measured, limit = result["metrics"][split]["perplexity"], result["limit"][split]["perplexity"]
        assert limit <= measured <= 1.02 * limit
