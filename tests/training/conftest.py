import random
from pathlib import Path

import pytest
from tests.runs import tiny_runs

from porism.runs.recipe import override
from porism.tasks.language.recipes import RECIPES, LanguageRecipe
from porism.tasks.language.task import Language
from porism.training import session

TINY = (
    "hidden_size=9",
    "embedding_dim=7",
    "batch_size=4",
    "seq_len=5",
    "epochs=3",
    "learning_rate=0.01",
    "dropout=0.3",
    "precision=fp32",
)


@pytest.fixture(scope="session")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A small text with some order in it."""
    words = ["the", "a", "cat", "dog", "sees", "hears", "likes", "and", "sleeps", "runs"]
    draw = random.Random(1)
    lines = [" ".join(draw.choices(words, k=draw.randint(3, 9))) for _ in range(300)]
    path: Path = tmp_path_factory.mktemp("text") / "animals.txt"
    path.write_text("\n".join(lines) + "\n")
    return str(path)


@pytest.fixture
def tiny() -> LanguageRecipe:
    """A recipe that trains in about a second."""
    return override(RECIPES["elman"], TINY)


@pytest.fixture
def task(text: str, tiny: LanguageRecipe) -> Language:
    return Language.load(tiny, text)


@pytest.fixture(scope="module")
def tiny_text(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The text of runs that train in a few milliseconds."""
    return tiny_runs.write_text(tmp_path_factory.mktemp("text"))


@pytest.fixture(scope="module")
def straight(tiny_text: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run on it, every epoch saved, as small checkpoints are; the second of three is the best."""
    out = tmp_path_factory.mktemp("straight") / "run"
    assert session.complete(tiny_runs.begin(out, tiny_text))["best_epoch"] == 2
    return out
