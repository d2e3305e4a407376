"""A graph, made once: who hears whom, and for each normalisation the matrix that spreads features over it."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from porism.errors import ShapeError
from porism.layers.gcn.csr import Csr, transpose
from porism.layers.gcn.edges import Neighbours, check_edges, neighbours, with_loops
from porism.layers.gcn.normalise import check_normalisation, normalise


class Propagation(NamedTuple):
    """Ahat, and its transposed for the way back. A symmetric one is its own."""

    there: Csr
    back: Csr


class Graph:
    """Who hears whom, ready for the products of every layer and every epoch.

    >>> path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])            # 0 - 1 - 2, each edge both ways
    >>> graph = Graph.from_edges(path)
    >>> graph
    Graph(nodes=3, edges=4)
    >>> graph.dense("row")
    tensor([[0.5000, 0.5000, 0.0000],
            [0.3333, 0.3333, 0.3333],
            [0.0000, 0.5000, 0.5000]])

    An edge (j, i) leads from j to i, so that i hears j: row i of A. Edges between the same two nodes add up, a node may
    have no edge at all, and a loop that is there is not added a second time. Matrices are built when first asked for.
    """

    def __init__(self, heard: Neighbours) -> None:
        self._heard = {False: heard}
        self._propagations: dict[tuple[str, bool, torch.dtype], Propagation] = {}

    @classmethod
    def from_edges(cls, edge_index: Tensor, nodes: int | None = None, weights: Tensor | None = None) -> "Graph":
        """Edges (2, E), from the node in the first row to the node in the second; weights (E), 1 where left out.

        Without their number the nodes are those up to the largest that an edge names.
        """
        if nodes is None:
            if edge_index.numel() == 0:
                raise ShapeError("gcn: the graph has no edges, so they do not tell how many nodes. Give nodes too.")
            nodes = int(edge_index.max()) + 1
        check_edges(edge_index, nodes, weights)
        return cls(neighbours(edge_index, nodes, weights))

    @classmethod
    def from_scipy(cls, matrix: Any) -> "Graph":
        """A sparse matrix or array of scipy whose row i holds what node i hears: this graph spreads x as A x does."""
        if len(matrix.shape) != 2 or matrix.shape[0] != matrix.shape[1]:
            raise ShapeError(f"gcn: the matrix is {matrix.shape}, wanted as many rows as columns: one for each node.")
        entries = matrix.tocoo()
        row, column, weights = (torch.as_tensor(part) for part in (entries.row, entries.col, entries.data))
        return cls.from_edges(torch.stack([column, row]), matrix.shape[0], _unless_ones(weights))

    @classmethod
    def from_networkx(cls, graph: Any, weight: str = "weight") -> "Graph":
        """A graph of networkx, its nodes numbered in the order it lists them; an edge without `weight` has 1."""
        number = {node: place for place, node in enumerate(graph.nodes)}
        edges = [(number[a], number[b], w) for a, b, w in graph.edges(data=weight, default=1.0)]
        if not graph.is_directed():
            edges += [(b, a, w) for a, b, w in edges if a != b]
        edge_index = torch.tensor([(a, b) for a, b, _ in edges], dtype=torch.int64).view(-1, 2).T
        weights = torch.tensor([w for *_, w in edges], dtype=torch.float64)
        return cls.from_edges(edge_index, len(number), _unless_ones(weights))

    @classmethod
    def from_pyg(cls, data: Any) -> "Graph":
        """A `Data` of PyTorch Geometric: its edge_index, its edge_weight where it has one."""
        return cls.from_edges(data.edge_index, data.num_nodes, getattr(data, "edge_weight", None))

    @property
    def nodes(self) -> int:
        return self._heard[False].nodes

    @property
    def edges(self) -> int:
        """Different pairs of nodes with an edge from the first to the second, loops among them."""
        return len(self._heard[False].columns)

    @property
    def device(self) -> torch.device:
        return self._heard[False].starts.device

    def heard(self, self_loops: bool = True) -> Neighbours:
        """The rows of A + I, or of A."""
        if self_loops not in self._heard:
            self._heard[self_loops] = with_loops(self._heard[False])
        return self._heard[self_loops]

    # The compiler runs this as it is, once, and takes what comes out for granted.
    @torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
    def propagation(
        self, normalisation: str = "symmetric", self_loops: bool = True, dtype: torch.dtype = torch.float32
    ) -> Propagation:
        """Ahat and its transposed, in float32 or float64: what a lower precision is summed in."""
        key = normalisation, self_loops, torch.promote_types(dtype, torch.float32)
        if key not in self._propagations:
            check_normalisation(normalisation)
            self._propagations[key] = self._built(*key)
        return self._propagations[key]

    def _built(self, normalisation: str, self_loops: bool, dtype: torch.dtype) -> Propagation:
        heard = self.heard(self_loops)
        there = Csr(heard.starts, heard.columns, normalise(heard, normalisation, dtype))
        back = transpose(there.starts, there.columns, self.nodes).of(there.values)
        # In an undirected graph everybody is heard by whom he hears: the same numbers need no memory twice.
        if torch.equal(there.starts, back.starts) and torch.equal(there.columns, back.columns):
            values = there.values if torch.equal(there.values, back.values) else back.values
            back = Csr(there.starts, there.columns, values)
        return Propagation(there, back)

    def dense(
        self, normalisation: str = "symmetric", self_loops: bool = True, dtype: torch.dtype = torch.float32
    ) -> Tensor:
        """Ahat as a matrix (N, N), to look at."""
        built: Propagation = self.propagation(normalisation, self_loops, dtype)
        return built.there.to_dense(self.nodes)

    def to(self, device: torch.device | str) -> "Graph":
        """The same graph on another device, with all that was built."""
        if torch.device(device) == self.device:
            return self
        moved = Graph(self._heard[False].to(device))
        moved._heard |= {key: heard.to(device) for key, heard in self._heard.items()}
        for key, (there, back) in self._propagations.items():
            on_device = there.to(device)
            shared = back is there or all(a is b for a, b in zip(there, back, strict=True))
            moved._propagations[key] = Propagation(on_device, on_device if shared else back.to(device))
        return moved

    def __repr__(self) -> str:
        return f"{type(self).__name__}(nodes={self.nodes}, edges={self.edges})"


class Outline(Graph):
    """A graph of which only the sizes are known: N nodes, E stored entries with all loops. To count with.

    Its rows are empty, so that whoever goes through them reads nothing.
    """

    def __init__(self, nodes: int, stored: int, device: torch.device | str | None = None) -> None:
        starts = torch.zeros(nodes + 1, dtype=torch.int64, device=device)
        super().__init__(Neighbours(starts, torch.zeros(stored, dtype=torch.int32, device=device), None))

    def propagation(
        self, normalisation: str = "symmetric", self_loops: bool = True, dtype: torch.dtype = torch.float32
    ) -> Propagation:
        starts, columns, _ = self._heard[False]
        values = columns.new_zeros(columns.shape, dtype=torch.promote_types(dtype, torch.float32))
        return Propagation(Csr(starts, columns, values), Csr(starts, columns, values))


def _unless_ones(weights: Tensor) -> Tensor | None:
    return None if (weights == 1).all() else weights
