"""Sister folders hold the same files, and the tests mirror the source."""

from collections import Counter
from pathlib import Path

import pytest
from tests.house.conftest import Plant

LAYER = ("README.md", "__init__.py", "naive.py", "layer.py", "gradient.py", "cost.py", "check.py")
TASK = ("README.md", "__init__.py", "data.py", "model.py", "metric.py", "predict.py", "recipes.py")
# A kernel is written where it pays.
KERNELS = ("triton.py", "numba.py")
# One chooses among layers, one is what kernels share: no layers themselves.
GUESTS = ("mechanism", "kernels")


def folders(parent: Path) -> list[Path]:
    return sorted(path for path in parent.glob("*/") if path.is_dir() and path.name != "__pycache__")


def missing_files(
    family: Path, required: tuple[str, ...], optional: tuple[str, ...] = (), guests: tuple[str, ...] = ()
) -> list[str]:
    """What a sister lacks: a required file, or one that has become a habit. Guests are no sisters.

    A habit is a file that two sisters or more have and at least half of them. What one sister alone has is her own.
    """
    sisters = [sister for sister in folders(family) if sister.name not in guests]
    held = {sister.name: {path.name for path in sister.iterdir() if path.is_file()} for sister in sisters}
    counts = Counter(name for files in held.values() for name in files)
    habits = {name for name, count in counts.items() if count >= max(2, len(held) / 2)}
    wanted = (habits | set(required)) - set(optional)
    return [f"{sister}/{name}" for sister, files in held.items() for name in sorted(wanted - files)]


def rooms_without_tests(package: Path, tests: Path) -> list[str]:
    """The rooms of the package that no test file stands for."""
    rooms = [room for room in folders(package) if any(room.rglob("*.py"))]
    return [room.name for room in rooms if not any((tests / room.name).rglob("test_*.py"))]


def test_every_layer_has_the_same_files(repository: Path) -> None:
    layers = repository / "src/porism/layers"
    assert folders(layers)
    assert missing_files(layers, LAYER, KERNELS, GUESTS) == []


def test_every_task_has_the_same_files(repository: Path) -> None:
    tasks = repository / "src/porism/tasks"
    assert folders(tasks)
    assert missing_files(tasks, TASK) == []


def test_the_tests_mirror_the_source(repository: Path) -> None:
    assert rooms_without_tests(repository / "src/porism", repository / "tests") == []


@pytest.mark.parametrize("lost", LAYER)
def test_a_required_file_is_missed(plant: Plant, lost: str) -> None:
    root = plant({f"elman/{name}": "" for name in LAYER if name != lost})
    assert missing_files(root, LAYER) == [f"elman/{lost}"]


def test_a_habit_of_half_the_sisters_binds_the_rest(plant: Plant) -> None:
    files = ["elman/fast.py", "grid/fast.py", "window/own.py", "gcn/triton.py", "grid/triton.py"]
    root = plant(dict.fromkeys(files, ""))
    assert missing_files(root, (), KERNELS) == ["gcn/fast.py", "window/fast.py"]


def test_a_room_without_tests_is_missed(plant: Plant) -> None:
    files = ["porism/cost/formula.py", "porism/train/loop.py", "tests/train/test_loop.py", "tests/cost/notes.md"]
    root = plant(dict.fromkeys(files, ""))
    assert rooms_without_tests(root / "porism", root / "tests") == ["cost"]
