"""Small graphs in the formats that people have them in."""

import pickle
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests import needs

scipy = needs.lazy("scipy")

Writer = Callable[..., Path]


@pytest.fixture
def planetoid(tmp_path: Path) -> Writer:
    """Writes seven nodes and one that is missing from the test, in the format of Citeseer; parts can be replaced."""

    def write(**replaced: Any) -> Path:
        x = np.eye(5, 3, dtype=np.float32)
        tests = np.array([[5, 0, 1], [7, 0, 0]], dtype=np.float32)
        labels = np.eye(2, dtype=np.int32)[[0, 1, 0, 1, 0]]
        neighbours = defaultdict(list, {0: [1, 7], 1: [0, 2, 2], 2: [1, 2], 3: [], 4: [5], 5: [4], 6: [], 7: [0]})
        parts = {
            "x": scipy.sparse.csr_matrix(x[:2]),
            "y": labels[:2],
            "allx": scipy.sparse.csr_matrix(x),
            "ally": labels,
            "tx": scipy.sparse.csr_matrix(tests),
            "ty": np.eye(2, dtype=np.int32)[[1, 0]],
            "graph": neighbours,
        } | replaced
        for part, content in parts.items():
            (tmp_path / f"ind.tiny.{part}").write_bytes(pickle.dumps(content, protocol=2))
        (tmp_path / "ind.tiny.test.index").write_text("7\n5\n")
        return tmp_path

    return write


@pytest.fixture
def npz(tmp_path: Path) -> Writer:
    """Writes a path of three nodes; arrays can be replaced, or left out by None."""

    def write(**replaced: Any) -> Path:
        arrays = {
            "edge_index": np.array([[0, 1, 1, 2], [1, 0, 2, 1]]),
            "features": np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 2.0]]),
            "labels": np.array([0, 1, 1]),
        } | replaced
        path = tmp_path / "graph.npz"
        np.savez(path, **{name: array for name, array in arrays.items() if array is not None})
        return path

    return write


@pytest.fixture
def tables(tmp_path: Path) -> Writer:
    """Writes the two tables of a graph into a folder."""

    def write(
        nodes: str = "node,label,age,score\nann,red,31,0.5\nbob,,28,0.1\ncarl,blue,7,1\n",
        edges: str = "source,target\nann,bob\nbob,carl\n",
    ) -> Path:
        (tmp_path / "nodes.csv").write_text(nodes)
        (tmp_path / "edges.csv").write_text(edges)
        return tmp_path

    return write
