"""Sister folders hold the same files, and the tests mirror the source."""

from pathlib import Path

import pytest
from tests.house.conftest import Plant

from porism.layers.cases import LAYERS
from porism.tasks import TASKS

LAYER = (*("README.md", "__init__.py", "naive.py", "layer.py", "functional.py", "gradient.py", "cost.py", "check.py"),)
TASK = (
    *("README.md", "__init__.py", "task.py", "recipes.py", "tuning.py", "metric.py", "predict.py", "catalogue.py"),
    *("data/__init__.py", "data/embedded.py", "model/__init__.py", "model/base.py", "exhibits/__init__.py"),
)
# What one layer or task has at its top beside the others, each for a reason that its name tells.
OWN = {
    "speech": {"error_kinds.py", "baselines.py"},
    "gcn": {"graph.py", "features.py"},
    "skipgram": {"noise.py", "estimators.py"},
    "softmax": {"method.py", "cache.py"},
    "window": {"method.py"},
    "taylor": {"method.py", "feature_maps.py", "error.py", "state.py", "dense.py", "sequence_parallel.py"},
    "hybrid": {"method.py", "state.py"},
    "graphs": {"baselines.py"},
    "images": {"baselines.py"},
    "language": {"baselines.py", "published.py"},
    "sentiment": {"baselines.py"},
    "supervised": {"baselines.py"},
    "words": {"baselines.py"},
}


def folders(parent: Path) -> list[Path]:
    return sorted(path for path in parent.glob("*/") if path.is_dir() and path.name != "__pycache__")


def missing_files(sister: Path, required: tuple[str, ...]) -> list[str]:
    """What a sister lacks of the files that all have."""
    return [f"{sister.name}/{name}" for name in required if not (sister / name).is_file()]


def other_files(sister: Path, known: tuple[str, ...], own: frozenset[str] | set[str] = frozenset()) -> list[str]:
    """What a sister has at her top that the others have not, and that is not known to be her own."""
    found = {path.name for path in sister.iterdir() if path.is_file()}
    return [f"{sister.name}/{name}" for name in sorted(found - set(known) - own)]


def rooms_without_tests(package: Path, tests: Path) -> list[str]:
    """The rooms of the package that no test file stands for."""
    rooms = [room for room in folders(package) if any(room.rglob("*.py"))]
    return [room.name for room in rooms if not any((tests / room.name).rglob("test_*.py"))]


@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
def test_every_layer_has_the_same_files(repository: Path, layer: str) -> None:
    folder = repository / "src" / layer.replace(".", "/")
    assert missing_files(folder, LAYER) == []
    assert other_files(folder, LAYER, OWN.get(folder.name, set())) == []


@pytest.mark.parametrize("task", TASKS)
def test_every_task_has_the_same_files(repository: Path, task: str) -> None:
    folder = repository / "src/porism/tasks" / task
    assert missing_files(folder, TASK) == []
    assert other_files(folder, TASK, OWN.get(task, set())) == []


def test_every_layer_is_in_the_table(repository: Path) -> None:
    layers = (repository / "src/porism/layers").rglob("layer.py")
    found = {".".join(file.parent.relative_to(repository / "src").parts) for file in layers}
    assert found == set(LAYERS.values())


def test_the_tests_mirror_the_source(repository: Path) -> None:
    assert rooms_without_tests(repository / "src/porism", repository / "tests") == []


@pytest.mark.parametrize("lost", LAYER)
def test_a_required_file_is_missed(plant: Plant, lost: str) -> None:
    root = plant({f"elman/{name}": "" for name in LAYER if name != lost})
    assert missing_files(root / "elman", LAYER) == [f"elman/{lost}"]


def test_a_further_file_is_found_unless_it_is_the_layers_own(plant: Plant) -> None:
    root = plant(dict.fromkeys(["gcn/graph.py", "gcn/fast.py", "gcn/layer.py"], ""))
    assert other_files(root / "gcn", LAYER, {"graph.py"}) == ["gcn/fast.py"]


def test_a_room_without_tests_is_missed(plant: Plant) -> None:
    files = ["porism/costing/terms.py", "porism/runs/run.py", "tests/runs/test_run.py", "tests/costing/notes.md"]
    root = plant(dict.fromkeys(files, ""))
    assert rooms_without_tests(root / "porism", root / "tests") == ["costing"]
