"""A tiny text, and sweeps over the smallest recurrent nets on it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from porism.runs.recipe import override
from porism.sweep.plan import Sampler, SweepPlan
from porism.sweep.space import parse_over
from porism.tasks import find

TINY = ["batch_size=4", "seq_len=5", "epochs=2", "embedding_dim=6", "hidden_size=4", "precision=fp32"]
GRID = ["hidden_size=4,8", "learning_rate=0.01,0.1"]
TEXT = "the cat sees the dog\nthe dog hears the cat\n" * 60
Plan = Callable[..., SweepPlan]


@pytest.fixture(scope="session")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text(TEXT)
    return path


@pytest.fixture(scope="session")
def plan(text: Path) -> Plan:
    """Makes plans over the tiny net."""

    def make(
        over: list[str] = GRID, drawn: int | None = None, sampler: Sampler = "grid", seeds: tuple[int, ...] = (1,)
    ) -> SweepPlan:
        kind = find("language")
        recipe = override(kind.recipes["elman"], TINY)
        place = {"source": str(text), "device": "cpu", "threads": 1, "baselines": False}
        return SweepPlan(kind, (recipe,), parse_over(recipe, over), seeds, drawn, sampler, **place)  # type: ignore[arg-type]

    return make


def words(*over: str) -> list[str]:
    """The options of a sweep on the command line."""
    fixed = [word for field in TINY if not field.startswith("hidden_size") for word in ("--set", field)]
    ranges = [word for text in over or GRID for word in ("--over", text)]
    return [*ranges, *fixed, "--device", "cpu", "--threads", "1", "--no-baselines"]
