"""Features that stay in their file: the logits, losses and fingerprint of those in memory, and none of the memory."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from porism.errors import DataError
from porism.runs.recipe import override
from porism.tasks.blocks.arrays import open_npz
from porism.tasks.graphs.data.mapped import MappedFeatures
from porism.tasks.graphs.data.npz import read_npz
from porism.tasks.graphs.recipes import RECIPES
from porism.tasks.graphs.task import Graphs
from porism.training.request import TrainingRequest
from porism.training.session import begin, complete

NODES, WIDTH = 300, 1000
"""1.2 MB in 32 bits: more than the least that max_memory_mib can be."""
MAPPED, HELD = "max_memory_mib=1", "max_memory_mib=2"


def graph(kind: str = "<f4") -> dict[str, NDArray[Any]]:
    draw = np.random.default_rng(1)
    labels = np.arange(NODES) % 3
    features = draw.normal(labels[:, None] * 2.0, 5.0, (NODES, WIDTH)) + 20 * np.arange(WIDTH)
    source = draw.integers(0, NODES, 1200)
    edges = np.stack([source, (source + 3 * draw.integers(0, NODES, 1200)) % NODES])  # within a class
    return {"features": features.astype(kind), "edge_index": edges, "labels": labels}


def save(path: Path, arrays: dict[str, NDArray[Any]]) -> None:
    np.savez(path, **arrays)  # type: ignore[arg-type]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    save(tmp_path / "graph.npz", graph())
    return tmp_path / "graph.npz"


def task(path: Path, *fields: str) -> Graphs:
    return Graphs.load(override(RECIPES["sampled"], ["batch_size=16", "num_neighbors=4", *fields]), str(path))


@pytest.mark.parametrize("kind", ["<f4", ">f8", "<i2", "<f2"])
def test_what_is_read_is_what_an_array_in_memory_holds(tmp_path: Path, kind: str) -> None:
    save(tmp_path / "graph.npz", graph(kind))
    mapped, held = (read_npz(tmp_path / "graph.npz", most) for most in (1, 2))
    assert isinstance(mapped.features, MappedFeatures)
    assert isinstance(held.features, torch.Tensor)
    nodes = torch.tensor([5, 299, 0, 5])
    assert torch.equal(mapped.features.rows(nodes), held.features[nodes])
    assert torch.equal(torch.cat(list(mapped.features.blocks())), held.features)


@pytest.mark.parametrize(
    "fields", [["features=auto"], ["features=given"], ["features=given", "normalize_features=false"]]
)
@pytest.mark.parametrize("blocks", [2**24, 50_000])
def test_logits_are_those_of_the_whole_graph_in_memory(
    file: Path, fields: list[str], blocks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("porism.tasks.graphs.data.mapped.BLOCK", blocks)
    mapped, held = task(file, MAPPED, *fields), task(file, HELD, *fields)
    torch.manual_seed(1)
    net = held.build().eval().double()
    x = held._features()
    assert isinstance(x, torch.Tensor)
    expected = net(x.double(), held.data.graph).detach()
    found = mapped._logits(net)
    # Features are scaled in 64 bits and rounded to 32 by both: the rest is rounding of sums in 64 bits.
    assert torch.allclose(found, expected, rtol=1e-6, atol=1e-6 * float(expected.abs().max()))
    assert mapped.fingerprint() == held.fingerprint()


def test_losses_are_those_of_features_in_memory(file: Path) -> None:
    tasks = [task(file, most, "dropout=0", "input_dropout=0") for most in (MAPPED, HELD)]
    for number in range(3):
        losses = []
        for one in tasks:
            torch.manual_seed(1)
            loss, _ = one.loss(one.build(), one.batches(1, seed=3)[number], {})
            losses.append(float(loss.detach()))
        assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_a_run_trains_evaluates_and_labels(file: Path, tmp_path: Path) -> None:
    fields = [MAPPED, "epochs=20", "batch_size=16", "num_neighbors=4", "dropout=0", "input_dropout=0"]
    request = TrainingRequest(Graphs, override(RECIPES["sampled"], fields), source=str(file), device="cpu", threads=1)
    training = begin(request, tmp_path / "run")
    result = complete(training)
    assert result["metrics"]["test"]["accuracy"] > 0.6
    assert any("stay in their file" in note for note in result["baseline_notes"])
    assert "nearest mean of features" not in result["baselines"]
    restored = Graphs.restore(training.task.recipe, training.task.assets())
    by_number, of_file = restored.predict(training.model.eval(), ["7", str(file)], {})
    assert by_number.output.startswith("-> class")
    assert of_file.output.startswith(f"-> {NODES} nodes")
    assert isinstance(restored.data.features, MappedFeatures)


def test_few_that_are_not_zero_keep_their_zeros_as_in_memory(tmp_path: Path) -> None:
    arrays = graph()
    arrays["features"][np.random.default_rng(2).random((NODES, WIDTH)) < 0.95] = 0
    save(tmp_path / "graph.npz", arrays)
    mapped, held = task(tmp_path / "graph.npz", MAPPED), task(tmp_path / "graph.npz", HELD)
    assert mapped._scale is not None
    assert held._scale is not None
    assert mapped._scale.mean is held._scale.mean is None
    assert torch.allclose(mapped._scale.std, held._scale.std, rtol=1e-9)


def test_a_step_over_the_whole_graph_has_features_in_memory(file: Path) -> None:
    whole = Graphs.load(override(RECIPES["kipf"], [MAPPED]), str(file))
    assert isinstance(whole.data.features, torch.Tensor)


def compressed(path: Path) -> str:
    np.savez_compressed(path, **graph())  # type: ignore[arg-type]
    return "more than max_memory_mib=1, and cannot stay in the file: it is compressed"


def columns_first(path: Path) -> str:
    save(path, {**graph(), "features": np.asfortranarray(graph()["features"])})
    return "cannot stay in the file"


def not_finite(path: Path) -> str:
    arrays = graph()
    arrays["features"][250, 7] = np.nan
    save(path, arrays)
    return r"\[node, column\] \[250, 7\] is nan"


def of_three_dimensions(path: Path) -> str:
    save(path, {**graph(), "features": graph()["features"].reshape(NODES, 10, 100)})
    return "expected \\(N, D\\) of numbers"


def damaged(path: Path) -> str:
    save(path, graph())
    with open_npz(path) as file:
        stored = file.stored("features")
    assert stored is not None
    content = bytearray(path.read_bytes())
    content[stored.offset + 500_000] ^= 1
    path.write_bytes(content)
    return "its features are damaged"


@pytest.mark.parametrize("write", [compressed, columns_first, not_finite, of_three_dimensions, damaged])
def test_a_file_that_cannot_be_mapped_is_refused(tmp_path: Path, write: Any) -> None:
    message = write(tmp_path / "graph.npz")
    with pytest.raises(DataError, match=message):
        task(tmp_path / "graph.npz", MAPPED)


MEASURED = """
import re, sys, threading, time
from pathlib import Path
from porism.cli import main

highest = 0

def watch():
    # Pages of a mapped file are the kernel's to drop: what a process itself holds is its anonymous memory.
    global highest
    while True:
        kib = re.search(r"RssAnon:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]
        highest = max(highest, int(kib) / 1024)
        time.sleep(0.005)

threading.Thread(target=watch, daemon=True).start()

small, path, out, most = sys.argv[1:]
common = ["--no-baselines", "--threads=1", "--device=cpu", "--quiet", "--epochs=2", "--check-val-every-n-epoch=1"]
# What a training takes by itself: kernels, cost, report.
assert main(["train", "graphs", "sampled", "--data", small, "--out", out + "/first", *common]) == 0
before = highest
words = ["--data", path, "--out", out + "/run", "--max-memory-mib=" + most]
assert main(["train", "graphs", "sampled", *words, *common]) == 0
print(highest - before)
"""


@pytest.mark.sweep(0)  # two processes of half a minute
@pytest.mark.skipif(sys.platform != "linux", reason="peaks of memory are read as Linux counts them")
def test_a_graph_in_its_file_takes_less_memory_than_its_features(tmp_path: Path) -> None:
    nodes, width, size = 50_000, 1024, 195  # MiB of features
    draw = np.random.default_rng(1)
    features = draw.standard_normal((nodes, width), dtype=np.float32)
    assert features.nbytes // 2**20 == size
    edges = draw.integers(0, nodes, (2, 100_000))
    np.savez(tmp_path / "graph.npz", features=features, edge_index=edges, labels=np.arange(nodes) % 3)
    few: dict[str, np.ndarray[Any, Any]] = {
        "features": features[:1000],
        "edge_index": edges[:, :2000] % 1000,
        "labels": np.arange(1000) % 3,
    }
    save(tmp_path / "small.npz", few)
    del features, few
    peaks = []
    for most in ("16", "4096"):
        files = [str(tmp_path / name) for name in ("small.npz", "graph.npz", most)]
        words = [sys.executable, "-c", MEASURED, *files, most]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        peaks.append(float(done.stdout.splitlines()[-1]))
    mapped, held = peaks
    print(f"peak beside a small training: {mapped:.0f} MiB with features in the file, {held:.0f} MiB in memory")
    assert mapped < size / 2
    assert held > size
