"""A graph, made once: who hears whom, and for each normalisation the matrix that spreads features over it."""

from typing import Any, Self

import torch
from torch import Tensor

from porism.errors import ShapeError
from porism.layers.gcn.adjacency import scipy
from porism.layers.gcn.adjacency.csr import Csr
from porism.layers.gcn.adjacency.edges import Neighbours, check_edge_index, check_edges, neighbours
from porism.layers.gcn.adjacency.modes import outside_modes
from porism.layers.gcn.adjacency.normalize import check_normalisation
from porism.layers.gcn.adjacency.propagations import PROPAGATIONS, Propagation, Propagations, name_of
from porism.layers.operands import FLOATS


class Graph:
    """Who hears whom, ready for the products of every layer and every epoch.

    >>> path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])            # 0 - 1 - 2, each edge both ways
    >>> graph = Graph(path)
    >>> graph
    Graph(num_nodes=3, num_edges=4)
    >>> graph.to_dense("row")
    tensor([[0.5000, 0.5000, 0.0000],
            [0.3333, 0.3333, 0.3333],
            [0.0000, 0.5000, 0.5000]])

    An edge (j, i) leads from j to i, so that i hears j: row i of A. Edges between the same two nodes add up, a node may
    have no edge at all, and a loop that is there is not added a second time. An edge that is listed is an edge whatever
    its weight, 0 too; in a matrix of scipy a zero is none. Matrices are built when first asked for.
    """

    def __init__(self, edge_index: Tensor, edge_weight: Tensor | None = None, num_nodes: int | None = None) -> None:
        """Edges (2, E), from the node in the first row to the node in the second; weights (E), 1 where left out.

        Without their number the nodes are those up to the largest that an edge names.
        """
        check_edge_index(edge_index)
        self._set(outside_modes(_neighbours, edge_index.long(), num_nodes, edge_weight))

    @classmethod
    def from_neighbours(cls, neighbours: Neighbours) -> Self:
        """Rows of neighbours that are at hand already."""
        graph = cls.__new__(cls)
        graph._set(neighbours)
        return graph

    def _set(self, neighbours: Neighbours) -> None:
        neighbours.check()
        self._propagations = Propagations(neighbours)

    @classmethod
    def from_scipy(cls, matrix: Any) -> "Graph":
        """A sparse matrix or array of scipy whose row i holds what node i hears: this graph spreads x as A x does."""
        if len(matrix.shape) != 2 or matrix.shape[0] != matrix.shape[1]:
            raise ShapeError(f"gcn: the matrix is {matrix.shape}, wanted as many rows as columns: one for each node.")
        starts, columns, weights = (torch.from_numpy(part) for part in scipy.read(matrix))
        rows = torch.repeat_interleave(torch.arange(matrix.shape[0]), starts.diff())
        return cls(torch.stack([columns, rows]), weights, num_nodes=matrix.shape[0])

    @classmethod
    def from_networkx(cls, graph: Any, weight: str = "weight") -> "Graph":
        """A graph of networkx, its nodes numbered in the order it lists them; an edge without `weight` has 1."""
        number = {node: place for place, node in enumerate(graph.nodes)}
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
        return self._propagations.neighbours.nodes

    @property
    def num_edges(self) -> int:
        """Different pairs of nodes with an edge from the first to the second, loops among them."""
        return len(self._propagations.neighbours.columns)

    @property
    def device(self) -> torch.device:
        return self._propagations.neighbours.starts.device

    @property
    def digest(self) -> Tensor:
        """32 bytes on the CPU that are the same for graphs of the same edges and weights, and for no others."""
        if torch.compiler.is_compiling():
            self._propagations.build("digest")
        digest: Tensor = self._propagations.digest
        return digest

    def heard(self, self_loops: bool = True) -> Neighbours:
        """The rows of A + I, or of A."""
        heard: Neighbours = self._propagations.neighbours_with_loops if self_loops else self._propagations.neighbours
        return heard

    def propagation(
        self, normalisation: str = "symmetric", self_loops: bool = True, dtype: torch.dtype = torch.float32
    ) -> Propagation:
        """Ahat and its transposed, in float32 or float64: what a lower precision is summed in."""
        name = name_of(normalisation, self_loops, dtype)
        if name not in PROPAGATIONS:
            check_normalisation(normalisation)
        if dtype not in FLOATS:
            raise ShapeError(f"gcn: dtype is {dtype}, wanted floating numbers. Convert the features with x.float().")
        if torch.compiler.is_compiling():
            self._propagations.build(name)
        else:
            self._propagations.check(name)
        built: Propagation = getattr(self._propagations, name)
        return built

    def to_dense(
        self, normalisation: str = "symmetric", self_loops: bool = True, dtype: torch.dtype = torch.float32
    ) -> Tensor:
        """Ahat as a matrix (N, N), to look at."""
        return self.propagation(normalisation, self_loops, dtype).there.to_dense(self.num_nodes)

    def to(self, device: torch.device | str) -> "Graph":
        """The same graph on another device, with all that was built."""
        if torch.device(device) == self.device:
            return self
        if type(self).propagation is not Graph.propagation:
            raise ShapeError(
                f"gcn: a {type(self).__name__} has matrices of its own, which its edges do not tell. "
                f"Make it on {str(device)!r}."
            )
        moved = Graph.__new__(Graph)
        moved._propagations = outside_modes(self._propagations.to, device)
        return moved

    def __repr__(self) -> str:
        return f"{type(self).__name__}(num_nodes={self.num_nodes}, num_edges={self.num_edges})"


class Outline(Graph):
    """A graph of which only the sizes are known: N nodes, E stored entries with all loops. To count with.

    Its entries are zeros, all of them in the last row.
    """

    def __init__(self, nodes: int, stored: int, device: torch.device | str | None = None) -> None:
        starts = torch.zeros(nodes + 1, dtype=torch.int64, device=device)
        starts[-1] = stored
        self._set(Neighbours(starts, torch.zeros(stored, dtype=torch.int32, device=device), None))

    def propagation(
        self, normalisation: str = "symmetric", self_loops: bool = True, dtype: torch.dtype = torch.float32
    ) -> Propagation:
        starts, columns, _ = self.heard(self_loops=False)
        values = columns.new_zeros(columns.shape, dtype=torch.promote_types(dtype, torch.float32))
        return Propagation(Csr(starts, columns, values), Csr(starts, columns, values))

    def to(self, device: torch.device | str) -> "Outline":
        return self if torch.device(device) == self.device else Outline(self.num_nodes, self.num_edges, device)


def _neighbours(edge_index: Tensor, nodes: int | None, weights: Tensor | None) -> Neighbours:
    if nodes is None:
        if edge_index.numel() == 0:
            raise ShapeError("gcn: the graph has no edges, so they do not tell how many nodes. Give num_nodes too.")
        nodes = int(edge_index.max()) + 1
    check_edges(edge_index, nodes, weights)
    # Weights that are all 1 are those that are left out.
    return neighbours(edge_index, int(nodes), None if weights is None or (weights == 1).all() else weights)


def _number(weight: Any, name: str) -> float:
    try:
        return float(weight)
    except (TypeError, ValueError):
        kind = type(weight).__name__
        raise ShapeError(
            f"gcn: an edge has a {kind} for its {name!r}, wanted a number. Name another attribute."
        ) from None
