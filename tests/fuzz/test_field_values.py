"""Every field of every recipe with numbers that nobody meant: trained, or refused in one line, in time and in memory.

What is tried is all that comes before the training and its first step, forward and back.
"""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from tests.fuzz.cases import attempt, check_line
from tests.fuzz.test_commands import Said, said
from tests.runs import tiny_runs

from porism.errors import TrainingError
from porism.runs.recipe import Recipe, settings
from porism.tasks import TASKS, choices

VALUES = [
    *("1e30", "1e308", "1e-30", "5e-324", "nan", "inf", "-inf", "-1", "0", "", "none", "1" + "0" * 400, "1e12"),
    *("1000000000000", "9223372036854775807", "2147483647", "1000000000"),
]
"""The largest whole numbers that some field takes are among them. Sizes that a machine can hold are left out:
they train, however long a step takes."""
KINDS = ("model", "encoder", "decoder", "cell", "estimator", "num_neighbors")
"""Fields by which recipes of a task run different code."""


def fields() -> list[tuple[str, str, str]]:
    """Task, recipe and field: what all recipes have with the default, the rest with the first recipe of each kind."""
    found, shared = [], {field.name for field in dataclasses.fields(Recipe)}
    for task in TASKS:
        known, kinds = choices(task), set()
        for name, recipe in known.recipes.items():
            kind = tuple(getattr(recipe, field, None) for field in KINDS)
            own = [field for field in settings(recipe) if field not in shared] if kind not in kinds else []
            kinds.add(kind)
            found += [(task, name, field) for field in own]
        found += [(task, known.default, field) for field in settings(known.recipes[known.default]) if field in shared]
    return found


NOTHING = "here nothing is trained."


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Little data of every task, where what is embedded takes seconds to read."""
    folder = tmp_path_factory.mktemp("data")
    text = tiny_runs.write_text(folder)
    reviews = folder / "reviews.csv"
    reviews.write_text("text,score\n" + "".join(f"a film of {n} {n * n} words,{n % 2}\n" for n in range(60)))
    return {"language": ["--data", text], "words": ["--data", text], "sentiment": ["--data", str(reviews)]}


@pytest.fixture
def speech(tmp_path: Path) -> list[str]:
    soundfile = pytest.importorskip("soundfile")
    noise = np.random.default_rng(1)
    for split, count in (("train", 4), ("valid", 1), ("test", 1)):
        names = [f"{split}{number}.wav" for number in range(count)]
        for name in names:
            soundfile.write(tmp_path / name, 0.1 * noise.standard_normal(8000), 16_000, subtype="PCM_16")
        (tmp_path / f"{split}.tsv").write_text("".join(f"{name}\tsome words\n" for name in names))
    return ["--data", str(tmp_path)]


@pytest.mark.sweep(3)
@pytest.mark.parametrize(("task", "recipe", "field"), fields())
def test_a_value_nobody_meant_is_trained_with_or_refused(
    task: str,
    recipe: str,
    field: str,
    sources: dict[str, list[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("porism.training.loop.Training._train_epoch", _refuse_to_train)
    data = request.getfixturevalue("speech") if task == "speech" else sources.get(task, [])
    common = ["train", task, recipe, *data, "--no-baselines", "--threads=1", "--device=cpu"]
    for number, value in enumerate(VALUES):
        out = tmp_path / f"run{number}"
        found = attempt(lambda: said([*common, "--out", str(out), "--set", f"{field}={value}"]))  # noqa: B023
        assert isinstance(found, Said)
        where = f"{field}={value[:30]}: {found.err}"
        assert found.code == 2, where
        assert "Traceback" not in found.err, where
        line = found.err.splitlines()[-1]
        assert line.startswith("porism: "), where
        check_line(line)


def _refuse_to_train(*_: object) -> None:
    raise TrainingError(NOTHING)
