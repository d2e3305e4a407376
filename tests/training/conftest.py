import random
from pathlib import Path

import pytest

from porism.runs.recipe import override
from porism.tasks.language.recipes import RECIPES, LanguageRecipe
from porism.tasks.language.task import Language

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
