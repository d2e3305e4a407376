"""A graph, prepared once: its edges in rows, and for each normalization its adjacency matrix and the transposed."""

from typing import Any, Self

import torch
from torch import Tensor

from porism.errors import ShapeError
from porism.layers.gcn.adjacency import scipy
from porism.layers.gcn.adjacency.csr import Csr
from porism.layers.gcn.adjacency.edges import Neighbors, check_edge_index, check_edges, neighbors
from porism.layers.gcn.adjacency.modes import check_numbers, outside_modes
from porism.layers.gcn.adjacency.normalize import Normalization
from porism.layers.gcn.adjacency.propagations import Propagation, Propagations
from porism.layers.operands import FLOATS


class Graph:
    """A graph that is prepared once for the products of every layer and every epoch.

    >>> path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])            # 0 - 1 - 2, each edge both ways
    >>> graph = Graph(path)
    >>> graph
    Graph(num_nodes=3, num_edges=4)
    >>> graph.to_dense("rw")
    tensor([[0.5000, 0.5000, 0.0000],
            [0.3333, 0.3333, 0.3333],
            [0.0000, 0.5000, 0.5000]])

    An edge (j, i) leads from j to i: row i of A has its weight in column j. Weights of edges between the same two nodes
    add up, a node may have no edge at all, and a node that has a self-loop gets no second one. An edge that is listed
    is an edge whatever its weight, 0 too; in a matrix of scipy a zero is none. Matrices are built when first needed.
    """

    def __init__(self, edge_index: Tensor, edge_weight: Tensor | None = None, num_nodes: int | None = None) -> None:
        """Edges (2, E), from the node in the first row to the node in the second; weights (E), 1 where left out.

        Without num_nodes the nodes are those up to the largest that an edge names.
        """
        check_edge_index(edge_index, edge_weight)
        check_numbers("edge_index", edge_index)
        if edge_weight is not None:
            check_numbers("edge_weight", edge_weight)
        self._set(outside_modes(_neighbors, edge_index.long(), num_nodes, edge_weight))

    @classmethod
    def from_neighbors(cls, neighbors: Neighbors) -> Self:
        """Of sorted rows of neighbors."""
        graph = cls.__new__(cls)
        graph._set(neighbors)
        return graph

    def _set(self, neighbors: Neighbors) -> None:
        neighbors.check()
        self._propagations = Propagations(neighbors)

    @classmethod
    def from_scipy(cls, matrix: Any) -> "Graph":
        """A sparse matrix or array of scipy, A: row i holds the weights of the edges to node i."""
        if len(matrix.shape) != 2 or matrix.shape[0] != matrix.shape[1]:
            raise ShapeError(f"gcn: the matrix is {matrix.shape}, expected as many rows as columns: one for each node.")
        starts, columns, weights = (torch.from_numpy(part) for part in scipy.read(matrix))
        rows = torch.repeat_interleave(torch.arange(matrix.shape[0]), starts.diff())
        return cls(torch.stack([columns, rows]), weights, num_nodes=matrix.shape[0])

    @classmethod
    def from_networkx(cls, graph: Any, weight: str = "weight") -> "Graph":
        """A graph of networkx, its nodes numbered in the order it lists them; an edge without `weight` has 1."""
        number = {node: index for index, node in enumerate(graph.nodes)}
        edges = [(number[a], number[b], w) for a, b, w in graph.edges(data=weight, default=1.0)]
        if not graph.is_directed():
            edges += [(b, a, w) for a, b, w in edges if a != b]
        edge_index = torch.tensor([(a, b) for a, b, _ in edges], dtype=torch.int64).view(-1, 2).T
        return cls(edge_index, torch.tensor([_number(w, weight) for *_, w in edges]).double(), num_nodes=len(number))

    @classmethod
    def from_data(cls, data: Any) -> "Graph":
        """A `Data` of PyTorch Geometric: its edge_index, its edge_weight where it has one."""
        return cls(data.edge_index, getattr(data, "edge_weight", None), num_nodes=data.num_nodes)

    @property
    def num_nodes(self) -> int:
        return self._propagations.neighbors.nodes

    @property
    def num_edges(self) -> int:
        """Different pairs of nodes with an edge from the first to the second, loops among them."""
        return len(self._propagations.neighbors.columns)

    @property
    def device(self) -> torch.device:
        return self._propagations.neighbors.starts.device

    @property
    def digest(self) -> Tensor:
        """32 bytes on the CPU that are the same for graphs of the same edges and weights, and for no others."""
        self._propagations.build("digest")
        digest: Tensor = self._propagations.digest
        return digest

    def neighbors(self, add_self_loops: bool = True) -> Neighbors:
        """The rows of A + I, or of A."""
        rows: Neighbors = self._propagations.neighbors_plus_1 if add_self_loops else self._propagations.neighbors
        return rows

    def propagation(
        self,
        normalization: str | None = "sym",
        add_self_loops: bool = True,
        dtype: torch.dtype = torch.float32,
        *,
        improved: bool = False,
        flow: str = "source_to_target",
    ) -> Propagation:
        """Ahat and its transposed, in float32 or float64: what a lower precision is summed in."""
        return self.normalized(Normalization.of(normalization, add_self_loops, improved, flow=flow), dtype)

    def normalized(self, how: Normalization, dtype: torch.dtype) -> Propagation:
        """The same by options that were checked."""
        if dtype not in FLOATS:
            raise ShapeError(f"gcn: dtype is {dtype}, expected floating numbers. Convert the features with x.float().")
        name = how.matrix_name(dtype)
        self._propagations.build(name)
        built: Propagation = getattr(self._propagations, name)
        return built

    def to_dense(
        self,
        normalization: str | None = "sym",
        add_self_loops: bool = True,
        dtype: torch.dtype = torch.float32,
        *,
        improved: bool = False,
        flow: str = "source_to_target",
    ) -> Tensor:
        """Ahat as a matrix (N, N), to look at."""
        propagation = self.propagation(normalization, add_self_loops, dtype, improved=improved, flow=flow)
        return propagation.there.to_dense(self.num_nodes)

    def to(self, device: torch.device | str) -> "Graph":
        """The same graph on another device, with all that was built."""
        if torch.device(device) == self.device:
            return self
        if type(self).normalized is not Graph.normalized:
            raise ShapeError(
                f"gcn: a {type(self).__name__} has matrices that are not made of its edges, and cannot be moved. "
                f"Make it on {str(device)!r}."
            )
        moved = Graph.__new__(Graph)
        moved._propagations = outside_modes(self._propagations.to, device)
        return moved

    def __repr__(self) -> str:
        return f"{type(self).__name__}(num_nodes={self.num_nodes}, num_edges={self.num_edges})"


class Outline(Graph):
    """A graph of which only the sizes are known: N nodes, E stored entries with all self-loops. To count with.

    Its entries are zeros, all of them in the last row.
    """

    def __init__(self, nodes: int, stored: int, device: torch.device | str | None = None) -> None:
        starts = torch.zeros(nodes + 1, dtype=torch.int64, device=device)
        starts[-1] = stored
        self._set(Neighbors(starts, torch.zeros(stored, dtype=torch.int32, device=device), None))

    def normalized(self, how: Normalization, dtype: torch.dtype) -> Propagation:
        starts, columns, _ = self.neighbors(add_self_loops=False)
        values = columns.new_zeros(columns.shape, dtype=torch.promote_types(dtype, torch.float32))
        return Propagation(Csr(starts, columns, values), Csr(starts, columns, values))

    def to(self, device: torch.device | str) -> "Outline":
        return self if torch.device(device) == self.device else Outline(self.num_nodes, self.num_edges, device)


class GraphCache:
    """The graph of the last call, prepared, for calls with the same edges and weights."""

    def __init__(self) -> None:
        self._graph: Graph | None = None
        self._edges: tuple[Tensor, Tensor | None] | None = None

    def clear(self) -> None:
        self._graph = self._edges = None

    def graph(self, edge_index: Tensor, edge_weight: Tensor | None, nodes: int) -> Graph:
        if self._graph is None or self._graph.num_nodes != nodes or not self._is_last(edge_index, edge_weight):
            self._graph = Graph(edge_index, edge_weight, nodes)
            # Copies: whoever changes the edges in place has another graph.
            self._edges = edge_index.clone(), None if edge_weight is None else edge_weight.clone()
        return self._graph

    def _is_last(self, edge_index: Tensor, edge_weight: Tensor | None) -> bool:
        assert self._edges is not None
        kept_index, kept_weight = self._edges
        if (edge_weight is None) != (kept_weight is None) or edge_index.device != kept_index.device:
            return False
        return torch.equal(edge_index, kept_index) and (
            edge_weight is None or kept_weight is None or torch.equal(edge_weight, kept_weight)
        )


def _neighbors(edge_index: Tensor, nodes: int | None, weights: Tensor | None) -> Neighbors:
    if nodes is None:
        if edge_index.numel() == 0:
            raise ShapeError("gcn: the graph has no edges, so that num_nodes cannot be read from them. Give num_nodes.")
        nodes = int(edge_index.max()) + 1
    check_edges(edge_index, nodes, weights)
    # Weights that are all 1 are those that are left out.
    return neighbors(edge_index, int(nodes), None if weights is None or (weights == 1).all() else weights)


def _number(weight: Any, name: str) -> float:
    try:
        return float(weight)
    except (TypeError, ValueError):
        kind = type(weight).__name__
        raise ShapeError(
            f"gcn: an edge has a {kind} for its {name!r}, expected a number. Name another attribute."
        ) from None
