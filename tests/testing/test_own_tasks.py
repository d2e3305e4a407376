"""Porism's own tasks keep the contract that `check_task` offers to users."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import soundfile

from porism.runs.recipe import override
from porism.tasks import TASKS, find
from porism.testing import check_task

FILES = Path(__file__).parents[1] / "tasks"
SMALL: Mapping[str, tuple[str, list[str]]] = {
    "language": ("elman", ["hidden_size=8", "embedding_dim=8", "batch_size=4", "seq_len=5"]),
    "images": ("grid-4", ["hidden_size=8", "batch_size=16"]),
    "graphs": ("gcn", ["hidden_size=8"]),
    "words": ("full", ["vector_size=32", "batch_size=500"]),
    "speech": ("joint", ["hidden_size=8", "num_heads=2", "dim_feedforward=8", "num_layers=1", "batch_size=2"]),
    "sentiment": ("attention", ["hidden_size=32", "num_layers=1", "batch_size=16"]),
    "supervised": ("mlp", ["hidden_size=8"]),
}
"""For each task a recipe, and the assignments that make it small."""
INPUTS: Mapping[str, list[str]] = {
    "language": ["the object", "zzzz"],
    "images": [str(FILES / "images" / "seven.pgm")],
    "graphs": ["5", "karate"],
    "words": ["function", "the"],
    "speech": [str(FILES / "speech" / "glide.wav")],
    "sentiment": ["it is not bad", "the camera is okay"],
    "supervised": ["0.5,-0.1", "0,0"],
}
SKIPPED: Mapping[str, set[str]] = {
    "language": {"splits"},  # a text that is cut into splits has no examples
    "words": {"splits"},
    "sentiment": {"splits"},  # the same sentence may come twice
    "speech": {"embedded"},  # the recordings below were given
}


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Noise of half a second, ten times: the embedded recordings take seconds to make."""
    folder, draw = tmp_path_factory.mktemp("recordings"), np.random.default_rng(0)
    lines = []
    for number in range(10):
        soundfile.write(folder / f"{number}.wav", draw.normal(size=8000) / 10, 16_000)
        lines.append(f"{number}.wav\tword {'abcdefghij'[number]}\n")
    (folder / "all.tsv").write_text("".join(lines))
    return folder / "all.tsv"


@pytest.mark.parametrize("name", TASKS)
def test_a_task_keeps_the_contract(name: str, request: pytest.FixtureRequest) -> None:
    kind = find(name)
    data = request.getfixturevalue("recordings") if name == "speech" else None
    recipe, assignments = SMALL[name]
    report = check_task(
        kind,
        recipes=[override(kind.recipes[recipe], assignments)],
        data=data,
        inputs=INPUTS[name],
    )
    assert {result.name for result in report.skipped} == SKIPPED.get(name, set()), str(report)


def test_the_embedded_recordings_need_no_network() -> None:
    pytest.importorskip("espeakng_loader", reason="the embedded recordings are spoken by it")
    check_task("speech", checks=["embedded"])
