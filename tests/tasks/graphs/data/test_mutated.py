"""Two hundred damaged graph files: each is read as a graph whose every index is in range, or refused in one line."""

import io
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse  # type: ignore[import-untyped]
import torch

from porism.errors import PorismError
from porism.layers.gcn import Graph, SparseFeatures
from porism.layers.gcn.adjacency.csr import Csr
from porism.tasks.graphs.data import load_graph
from porism.tasks.graphs.data.labelled_graph import SPLITS, LabelledGraph

NODES, WIDTH = 12, 9
DTYPES = ("i1", "u1", ">i4", "u8", "f2", ">f8", "c16", "U3", "S2", "?")
VALUES = (-1, -(2**63), 2**31, 2**62, 10**6, 1.5, float("nan"), float("inf"), 1e300, 0)
Draw = np.random.Generator
Arrays = dict[str, Any]


def ring() -> Any:
    ring = np.arange(NODES)
    return scipy.sparse.csr_matrix((np.ones(NODES), (ring, (ring + 1) % NODES)), shape=(NODES, NODES))


def sparse_arrays() -> Arrays:
    x, edges = scipy.sparse.csr_matrix(np.eye(NODES, WIDTH)), ring()
    masks = {f"{split}_mask": np.arange(NODES) % 3 == place for place, split in enumerate(("train", "val", "test"))}
    return {
        "attr_data": x.data,
        "attr_indices": x.indices,
        "attr_indptr": x.indptr,
        "attr_shape": np.array(x.shape),
        "adj_data": edges.data,
        "adj_indices": edges.indices,
        "adj_indptr": edges.indptr,
        "labels": np.arange(NODES) % 2,
        "class_names": np.array(["one", "two"]),
        **masks,
    }


def dense_arrays() -> Arrays:
    return {
        "features": np.linspace(-1, 1, NODES * WIDTH).reshape(NODES, WIDTH),
        "edge_index": np.stack(ring().nonzero()),
        "edge_weight": np.linspace(0.5, 2, NODES),
        "y": np.arange(NODES) % 3,
    }


def with_other_bytes(content: bytes, draw: Draw) -> bytes:
    """Bytes changed, cut off, put in, or taken out."""
    damaged, place = bytearray(content), int(draw.integers(len(content)))
    match int(draw.integers(4)):
        case 0:
            for position in draw.integers(0, len(damaged), draw.integers(1, 5)):
                damaged[position] = draw.integers(256)
        case 1:
            del damaged[place:]
        case 2:
            damaged[place:place] = draw.bytes(int(draw.integers(1, 9)))
        case _:
            del damaged[place : place + int(draw.integers(1, 9))]
    return bytes(damaged)


def converted(array: Any, dtype: Any) -> Any:
    if array.dtype.kind in "US":
        return array.astype("S2")
    with np.errstate(all="ignore"):
        return array.astype(dtype)


def with_other_array(array: Any, draw: Draw) -> Any:
    """Another type, another value, another shape."""
    match int(draw.integers(5)):
        case 0:
            return converted(array, draw.choice(DTYPES))
        case 1:
            array = (
                array.astype(object) if array.dtype.kind in "US" else converted(array, draw.choice(["i8", "f8", "u8"]))
            )
            value = converted(np.array([VALUES[draw.integers(len(VALUES))]]), array.dtype)
            return np.where(np.arange(array.size).reshape(array.shape) == draw.integers(array.size), value, array)
        case 2:
            return array[: draw.integers(0, len(array) + 1)]
        case 3:
            return array[..., None] if draw.random() < 0.5 else array.T[::-1]
        case _:
            return np.concatenate([array, array[:1]])


def npz_bytes(members: dict[str, bytes]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, stored in members.items():
            archive.writestr(f"{name}.npy", stored)
    return content.getvalue()


def npy_bytes(array: Any) -> bytes:
    content = io.BytesIO()
    np.save(content, array, allow_pickle=True)
    return content.getvalue()


def damaged_npz(folder: Path, draw: Draw) -> Path:
    arrays = sparse_arrays() if draw.random() < 0.6 else dense_arrays()
    one, other = draw.choice(list(arrays), 2, replace=False)
    members = {name: npy_bytes(array) for name, array in arrays.items()}
    match int(draw.integers(6)):
        case 0 | 1:
            members[one] = npy_bytes(with_other_array(arrays[one], draw))
        case 2:
            members[one], members[other] = members[other], members[one]
        case 3:
            del members[one]
        case 4:
            members[one] = with_other_bytes(members[one], draw)
        case _:
            (folder / "graph.npz").write_bytes(with_other_bytes(npz_bytes(members), draw))
            return folder / "graph.npz"
    (folder / "graph.npz").write_bytes(npz_bytes(members))
    return folder / "graph.npz"


def planetoid_parts() -> Arrays:
    x = scipy.sparse.csr_matrix(np.eye(NODES, WIDTH, dtype=np.float32))
    labels = np.eye(3, dtype=np.int32)[np.arange(NODES) % 3]
    return {
        "x": x[:4],
        "y": labels[:4],
        "allx": x[:8],
        "ally": labels[:8],
        "tx": x[8:],
        "ty": labels[8:],
        "graph": {node: [(node + 1) % NODES, node - 1] if node else [1] for node in range(NODES)},
    }


def with_other_parts(content: Any, draw: Draw) -> Any:
    """A sparse matrix with one part changed, below scipy's checks, or an array, or a dictionary with another entry."""
    if isinstance(content, dict):
        entry: Any = (None, "a", [2**70], [-1], [[1]], (1, 2), {}, [NODES], 1.5)[draw.integers(9)]
        return content | {(int(draw.integers(NODES)), 2**70, "a", -1)[draw.integers(4)]: entry}
    if isinstance(content, np.ndarray):
        return with_other_array(content, draw)
    part = draw.choice(["data", "indices", "indptr", "_shape"])
    value = with_other_array(np.array(getattr(content, part)), draw)
    content.__dict__[part] = tuple(value.tolist()) if part == "_shape" else value
    return content


def damaged_planetoid(folder: Path, draw: Draw) -> Path:
    parts = planetoid_parts()
    one, other = draw.choice(list(parts), 2, replace=False)
    stored = {part: pickle.dumps(content, protocol=2) for part, content in parts.items()}
    test_index = b"8\n10\n9\n11\n"
    match int(draw.integers(6)):
        case 0 | 1:
            stored[one] = pickle.dumps(with_other_parts(parts[one], draw), protocol=2)
        case 2:
            stored[one], stored[other] = stored[other], stored[one]
        case 3 | 4:
            stored[one] = with_other_bytes(stored[one], draw)
        case _:
            test_index = with_other_bytes(test_index, draw)
    for part, content in {**stored, "test.index": test_index}.items():
        (folder / f"ind.ring.{part}").write_bytes(content)
    return folder


def check_csr(matrix: Csr, height: int, width: int) -> None:
    starts, columns, values = matrix
    assert len(starts) == height + 1
    assert starts[0] == 0
    assert starts[-1] == len(columns) == len(values)
    assert (starts.diff() >= 0).all()
    assert ((columns >= 0) & (columns < width)).all()
    assert values.isfinite().all()


def check_graph(data: LabelledGraph) -> None:
    nodes = data.graph.num_nodes
    assert isinstance(data.graph, Graph)
    there = data.graph.propagation("none").there
    check_csr(there, nodes, nodes)
    assert data.features.shape[0] == nodes
    assert data.labels.dtype == torch.int64
    assert data.labels.min() >= -1
    assert data.labels.max() < len(data.classes) <= 1000
    members = torch.cat([data.splits[split] for split in SPLITS])
    assert len(members.unique()) == len(members)
    assert (data.labels[members] >= 0).all()


@pytest.mark.parametrize(
    ("write", "seed"), [(damaged_npz, 127), (damaged_npz, 129), (damaged_planetoid, 3), (damaged_planetoid, 4)]
)
def test_a_damaged_graph_is_valid_or_refused(
    write: Callable[[Path, Draw], Path], seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, draw = SparseFeatures.__init__, np.random.default_rng(seed)

    def checked(self: SparseFeatures, there: Csr, width: int, *rest: Any) -> None:
        if not rest:
            # What a kernel reads is in range before anything is made of it.
            assert ((there.columns >= 0) & (there.columns < width)).all()
            assert int(there.starts[-1]) == len(there.columns)
        make(self, there, width, *rest)

    monkeypatch.setattr(SparseFeatures, "__init__", checked)
    messages, read = [], 0
    for number in range(50):
        folder = tmp_path / str(number)
        folder.mkdir()
        path = write(folder, draw)
        try:
            data = load_graph(str(path))
        except PorismError as error:
            messages.append((str(path.parent.parent), str(error)))
            continue
        read += 1
        check_graph(data)
        if isinstance(data.features, SparseFeatures):
            check_csr(data.features.there, *data.features.shape)
            check_csr(data.features.back, *data.features.shape[::-1])
    assert read
    assert len(messages) > 20
    assert all("\n" not in message and len(message) < 500 for _, message in messages)
    # A whole graph is named by its name, a file by its path.
    assert all(folder in message or message.startswith("ring:") for folder, message in messages)


def test_what_is_whole_is_read(tmp_path: Path) -> None:
    """The files that are damaged above are good ones."""
    for number, arrays in enumerate((sparse_arrays(), dense_arrays())):
        np.savez(tmp_path / f"{number}.npz", **arrays)
        check_graph(load_graph(str(tmp_path / f"{number}.npz")))
    for part, content in planetoid_parts().items():
        (tmp_path / f"ind.ring.{part}").write_bytes(pickle.dumps(content, protocol=2))
    (tmp_path / "ind.ring.test.index").write_text("8\n10\n9\n11\n")
    data = load_graph(str(tmp_path))
    check_graph(data)
    assert isinstance(data.graph, Graph)
    assert data.graph.num_edges == 2 * NODES
