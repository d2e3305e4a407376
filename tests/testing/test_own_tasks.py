"""Porism's own tasks keep the contract that `check_task` offers to users."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from tests import needs

from porism.runs.recipe import override
from porism.tasks import TASKS, find
from porism.testing import check_task

soundfile = needs.lazy("soundfile")

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
GIVEN = ("language", "sentiment", "speech")
"""Tasks that get small data: to load theirs, or to evaluate all of it again and again, takes seconds."""
SKIPPED: Mapping[str, set[str]] = {
    "language": {"splits", "embedded"},  # a text that is cut into splits has no examples
    "words": {"splits"},
    "sentiment": {"splits", "embedded"},  # the same sentence may come twice
    "speech": {"embedded"},
}
WORDS = ("the", "object", "is", "a", "function", "it", "not", "bad", "camera", "okay", "good", "very")


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """A text of 300 lines, and 300 reviews."""
    folder, draw = tmp_path_factory.mktemp("given"), np.random.default_rng(0)
    lines = [" ".join(draw.choice(WORDS, 8)) for _ in range(300)]
    (folder / "text.txt").write_text("".join(f"{line}\n" for line in lines))
    rows = [f"{line},{5 if ' good' in line else 1 if ' bad' in line else 3}\n" for line in lines]
    (folder / "reviews.csv").write_text("content,score\n" + "".join(rows))
    return {"language": folder / "text.txt", "sentiment": folder / "reviews.csv"}


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


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", TASKS)
def test_a_task_keeps_the_contract(name: str, request: pytest.FixtureRequest) -> None:
    kind, data = find(name), None
    if name in GIVEN:
        data = request.getfixturevalue("recordings") if name == "speech" else request.getfixturevalue("given")[name]
    recipe, assignments = SMALL[name]
    report = check_task(
        kind,
        recipes=[override(kind.recipes[recipe], assignments)],
        data=data,
        inputs=INPUTS[name],
    )
    assert {result.name for result in report.skipped} == SKIPPED.get(name, set()), str(report)


@pytest.mark.parametrize("name", GIVEN)
def test_the_embedded_data_need_no_network(name: str) -> None:
    if name == "speech":
        pytest.importorskip("espeakng_loader", reason="the embedded recordings are spoken by it")
        pytest.importorskip("soundfile", reason="recordings are read with it")
    check_task(name, checks=["embedded"])
