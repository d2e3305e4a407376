"""Edges that stay in their file: matrices, batches, logits and fingerprint of those in memory, without the memory."""

import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests.forking import need_fork
from tests.tasks.graphs.data.test_mapped import MEASURED
from tests.training.test_distributed import Run, alone, train, work

from porism.errors import DataError
from porism.layers.gcn import Graph
from porism.runs.recipe import override
from porism.tasks.blocks.arrays import open_npz
from porism.tasks.graphs.data.mapped_graph import MappedGraph
from porism.tasks.graphs.data.npz import read_npz
from porism.tasks.graphs.recipes import RECIPES
from porism.tasks.graphs.task import Graphs
from porism.training.request import TrainingRequest
from porism.training.session import begin, complete

NODES, EDGES = 700, 15_000
MAPPED, HELD = "max_memory_mib=1", "max_memory_mib=100"
"""Edges take 1.4 MiB by what a graph is counted with."""

Arrays = dict[str, NDArray[Any]]


def graph(weights: str = "none") -> Arrays:
    """Rows of neighbours, mostly of a node's own class; some nodes have a self-loop, the last ones nobody."""
    draw = np.random.default_rng(1)
    source, target = draw.integers(0, NODES, EDGES), draw.integers(0, NODES - 5, EDGES)
    source = np.where(draw.random(EDGES) < 0.8, (target + 3 * draw.integers(0, NODES, EDGES)) % 699, source)
    target[:40] = source[:40] % (NODES - 5)
    source[:40] = target[:40]
    keys = np.unique(target * NODES + source)
    features = draw.normal((np.arange(NODES) % 3)[:, None] * 2.0, 3.0, (NODES, 8))
    found: Arrays = {
        "adj_indptr": np.searchsorted(keys, np.arange(NODES + 1) * NODES),
        "adj_indices": (keys % NODES).astype(np.int32),
        "features": features.astype(np.float32),
        "labels": np.arange(NODES) % 3,
    }
    if weights == "ones":
        found["adj_data"] = np.ones(len(keys), dtype=np.int8)
    if weights == "some":
        found["adj_data"] = draw.uniform(0.1, 3, len(keys))
    return found


def save(path: Path, arrays: Arrays) -> Path:
    np.savez(path, **arrays)  # type: ignore[arg-type]
    return path


@pytest.fixture(params=["none", "ones", "some"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return save(tmp_path / "graph.npz", graph(request.param))


@pytest.fixture(params=[2**17, 500])
def _blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("porism.tasks.graphs.data.mapped_graph.BLOCK", request.param)


def task(path: Path, *fields: str) -> Graphs:
    return Graphs.load(override(RECIPES["sampled"], ["batch_size=16", "num_neighbors=4", *fields]), str(path))


@pytest.mark.sweep(3, each="normalization")
@pytest.mark.usefixtures("_blocks")
@pytest.mark.parametrize("normalization", ["sym", "rw", "softmax", "none"])
@pytest.mark.parametrize("add_self_loops", [True, False])
def test_entries_are_those_of_a_graph_in_memory(file: Path, normalization: str, add_self_loops: bool) -> None:
    mapped, held = (read_npz(file, most).graph for most in (1, 100))
    assert isinstance(mapped, MappedGraph)
    assert isinstance(held, Graph)
    assert mapped.num_edges == held.num_edges
    whole = held.propagation(normalization, add_self_loops).there
    own = mapped.propagation(normalization, add_self_loops)
    assert mapped.num_entries(add_self_loops) == whole.stored
    lengths, columns, values = (torch.cat(parts) for parts in zip(*map(own.rows, mapped.ranges()), strict=True))
    assert torch.equal(lengths, whole.starts.diff())
    assert torch.equal(columns.int(), whole.columns)
    # Sums of a row are added in another order.
    assert torch.allclose(values, whole.values, rtol=1e-6, atol=0)
    nodes = torch.tensor([NODES - 1, 5, 0, 5, 39])
    for row, node in enumerate(nodes.tolist()):
        _, *found = own.rows(nodes[row : row + 1])
        part = slice(int(whole.starts[node]), int(whole.starts[node + 1]))
        assert torch.equal(found[0].int(), whole.columns[part])
        assert torch.allclose(found[1], whole.values[part], rtol=1e-6, atol=0)
    dense = mapped.to_dense(normalization, add_self_loops, torch.float64)
    expected = held.to_dense(normalization, add_self_loops, torch.float64)
    assert torch.allclose(dense, expected, rtol=1e-12, atol=0)


@pytest.mark.sweep(1, each="_blocks")
@pytest.mark.usefixtures("_blocks")
def test_batches_logits_and_fingerprint_are_those_of_edges_in_memory(file: Path) -> None:
    mapped, held = task(file, MAPPED), task(file, HELD)
    assert isinstance(mapped.data.graph, MappedGraph)
    assert isinstance(held.data.graph, Graph)
    assert mapped.fingerprint() == held.fingerprint()
    for one, other in zip(mapped.batches(2, seed=3), held.batches(2, seed=3), strict=True):
        for ours, theirs in zip(one, other, strict=True):
            assert torch.allclose(ours, theirs, rtol=1e-6, atol=0)
    torch.manual_seed(1)
    net = held.build().eval()
    expected = held._logits(net)
    assert torch.allclose(mapped._logits(net), expected, rtol=1e-5, atol=1e-5 * float(expected.abs().max()))
    assert mapped.letters() == held.letters()


@pytest.mark.sweep(1)
def test_a_run_trains_evaluates_labels_and_says_what_is_left_out(file: Path, tmp_path: Path) -> None:
    fields = [MAPPED, "epochs=20", "batch_size=16", "num_neighbors=4", "dropout=0", "input_dropout=0"]
    request = TrainingRequest(Graphs, override(RECIPES["sampled"], fields), source=str(file), device="cpu", threads=1)
    training = begin(request, tmp_path / "run")
    result = complete(training)
    assert result["metrics"]["test"]["accuracy"] > 0.6
    assert any(note.startswith("Without label propagation") for note in result["baseline_notes"])
    assert "label propagation" not in result["baselines"]
    assert any("edges would take more than max_memory_mib=1" in note for note in training.task.notes())
    restored = Graphs.restore(training.task.recipe, training.task.assets())
    by_number, of_file = restored.predict(training.model.eval(), ["7", str(file)], {})
    assert by_number.output.startswith("-> class")
    assert of_file.output.startswith(f"-> {NODES} nodes")
    assert isinstance(restored.data.graph, MappedGraph)


def test_with_features_in_the_file_too(tmp_path: Path) -> None:
    arrays = graph() | {"features": np.random.default_rng(2).normal(size=(NODES, 500)).astype(np.float32)}
    path = save(tmp_path / "graph.npz", arrays)
    mapped, held = task(path, MAPPED), task(path, HELD)
    torch.manual_seed(1)
    net = held.build().eval()
    expected = held._logits(net)
    assert torch.allclose(mapped._logits(net), expected, rtol=1e-5, atol=1e-5 * float(expected.abs().max()))
    assert mapped.fingerprint() == held.fingerprint()


@pytest.mark.sweep(0)  # 10 s
def test_two_processes_with_all_in_the_file_have_the_losses_of_one_with_all_in_memory(tmp_path: Path) -> None:
    need_fork()
    arrays = graph() | {"features": np.random.default_rng(2).normal(size=(NODES, 500)).astype(np.float32)}
    path = save(tmp_path / "graph.npz", arrays)
    fields = ["precision=fp32", "epochs=500", "patience=500", "dropout=0", "input_dropout=0"]
    sets = [word for field in [*fields, "batch_size=15", "num_neighbors=4"] for word in ("--set", field)]
    words = ["train", "graphs", "sampled", "--data", str(path), *sets, "--threads", "1", "--no-baselines"]
    one = alone([*words, "--set", HELD, "--out", str(tmp_path / "one")], stop_after=200)
    two = train([*words, "--set", MAPPED, "--out", str(tmp_path / "two")], 200)
    assert work(tmp_path, {"two": two}, size=2) == [0, 0]
    found = Run(tmp_path / "job two")
    assert found[0]["losses"] == pytest.approx(one, abs=1e-5)
    assert "features would take" in found.printed(0)
    assert "edges would take" in found.printed(0)


def compressed(path: Path) -> str:
    np.savez_compressed(path, **graph())  # type: ignore[arg-type]
    return "edges would take 1 MiB, more than max_memory_mib=1, and cannot stay in the file: it is compressed"


def a_list(path: Path) -> str:
    arrays = graph()
    starts, sources = arrays.pop("adj_indptr"), arrays.pop("adj_indices")
    save(path, arrays | {"edge_index": np.stack([sources, np.repeat(np.arange(NODES), np.diff(starts))])})
    return "edge_index is a list, which is sorted in memory.*csr_matrix.*max_memory_mib=2"


def changed(name: str, change: Callable[[NDArray[Any]], object], message: str) -> Callable[[Path], str]:
    def write(path: Path) -> str:
        arrays = graph("some")
        change(arrays[name])
        save(path, arrays)
        return message

    return write


def unsorted(columns: NDArray[Any]) -> None:
    columns[30], columns[31] = columns[31], columns[30]


def damaged(name: str) -> Callable[[Path], str]:
    def write(path: Path) -> str:
        save(path, graph("some"))
        with open_npz(path) as file:
            stored = file.stored(name)
        assert stored is not None
        content = bytearray(path.read_bytes())
        # The lowest byte of the last weight, or the highest column, less one.
        place = stored.offset + stored.dtype.itemsize * (stored.shape[0] - 1)
        content[place] ^= 1
        path.write_bytes(content)
        return f"its {name} are damaged"

    return write


def sparse_features(path: Path) -> str:
    arrays = graph()
    del arrays["features"]
    entries = NODES * 400
    parts: Arrays = {
        "attr_data": np.ones(entries, dtype=np.float32),
        "attr_indices": np.tile(np.arange(400), NODES),
        "attr_indptr": np.arange(NODES + 1) * 400,
        "attr_shape": np.array([NODES, 500]),
    }
    save(path, arrays | parts)
    return "sparse features would take 2 MiB, more than max_memory_mib=1.*max_memory_mib=3"


REFUSED: dict[str, Callable[[Path], str]] = {
    "compressed": compressed,
    "a list": a_list,
    "unsorted": changed("adj_indices", unsorted, "is not sorted, or names a neighbour twice"),
    "twice": changed("adj_indices", lambda x: x.__setitem__(31, x[30]), "is not sorted, or names a neighbour twice"),
    "a column beyond": changed("adj_indices", lambda x: x.__setitem__(31, NODES), f"run from 0 to {NODES}, and"),
    "falling": changed("adj_indptr", lambda x: x.__setitem__(9, x[12]), "never falling"),
    "zero": changed("adj_data", lambda x: x.__setitem__(600, 0), r"adj_data\[600\] is 0.*eliminate_zeros"),
    "not finite": changed("adj_data", lambda x: x.__setitem__(7, np.nan), r"adj_data\[7\] is nan"),
    "below 0": changed("adj_data", lambda x: x.__setitem__(7, -1), "1 of .* edges have a weight below 0"),
    "damaged weights": damaged("adj_data"),
    "sparse features": sparse_features,
}


@pytest.mark.usefixtures("_blocks")
@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_mapped_is_refused(tmp_path: Path, name: str) -> None:
    message = REFUSED[name](tmp_path / "graph.npz")
    with pytest.raises(DataError, match=message):
        task(tmp_path / "graph.npz", MAPPED)


def test_a_byte_that_is_another_is_refused_or_changes_nothing(tmp_path: Path) -> None:
    path = save(tmp_path / "graph.npz", graph("some"))
    right, content = task(path, MAPPED).fingerprint(), path.read_bytes()
    draw, refused = random.Random(3), 0
    for _ in range(60):
        changed = bytearray(content)
        changed[draw.randrange(len(content))] ^= draw.randrange(1, 256)
        path.write_bytes(changed)
        try:
            assert task(path, MAPPED).fingerprint() == right
        except DataError:
            refused += 1
    assert refused > 50


@pytest.mark.sweep(0)  # two processes of half a minute
@pytest.mark.skipif(sys.platform != "linux", reason="peaks of memory are read as Linux counts them")
def test_a_graph_in_its_file_takes_less_memory_than_its_edges(tmp_path: Path) -> None:
    nodes, each = 20_000, 400  # 8 million edges: 61 MiB of columns in the file
    size = 8 * nodes * each // 2**20
    draw = np.random.default_rng(1)
    columns = np.sort(draw.integers(0, nodes // each, (nodes, each)) + np.arange(each) * (nodes // each), axis=1)
    arrays: Arrays = {
        "adj_indptr": np.arange(nodes + 1) * each,
        "adj_indices": columns.reshape(-1),
        "features": draw.standard_normal((nodes, 8), dtype=np.float32),
        "labels": np.arange(nodes) % 3,
    }
    save(tmp_path / "graph.npz", arrays)
    few = {name: arrays[name][:1000] for name in ("features", "labels")}
    small: Arrays = {"adj_indptr": np.arange(1001) * 4, "adj_indices": np.tile(np.arange(4), 1000), **few}
    save(tmp_path / "small.npz", small)
    del columns, arrays
    peaks = []
    for most in ("16", "4096"):
        files = [str(tmp_path / name) for name in ("small.npz", "graph.npz", most)]
        words = [sys.executable, "-c", MEASURED, *files, most]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        peaks.append(float(done.stdout.splitlines()[-1]))
    mapped, held = peaks
    print(f"peak beside a small training: {mapped:.0f} MiB with edges in the file, {held:.0f} MiB in memory")
    assert mapped < size
    assert held > 5 * size
