"""Edges that stay in their file: rows of neighbours are mapped when they are needed.

For a sparse matrix of an .npz that is not compressed: row i holds the neighbours that send to node i, sorted. In memory
is what there is one of for each node: where its row starts, the sum of its weights, whether it has a self-loop. A step
reads the rows of the nodes it samples; an evaluation reads all, a contiguous range of nodes at a time. The entries of
Ahat are those of `Graph`, in the same order, so that the same nodes and neighbours are sampled.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from porism.errors import DataError
from porism.layers.gcn import Graph
from porism.layers.gcn.adjacency.csr import Csr
from porism.layers.gcn.functional import multiply
from porism.tasks.blocks.mapped_array import MappedArray
from porism.tasks.graphs.data.sparse import check_parts

BLOCK = 2**17
"""Entries that are read at a time; a row with more of them is read as a whole."""


class Rows(NamedTuple):
    """Rows of some nodes, one after another: the length of each, and the columns and weights of their entries."""

    lengths: Tensor
    columns: Tensor
    weights: Tensor | None

    @property
    def owners(self) -> Tensor:
        """The row of every entry, counted from the first of these."""
        return torch.arange(len(self.lengths)).repeat_interleave(self.lengths)


@dataclass(frozen=True, eq=False)
class MappedGraph:
    """A graph of N nodes whose E edges stay in a file. On the CPU, whatever the device of the model."""

    path: Path
    starts: Tensor
    """(N + 1)"""
    columns: MappedArray
    weights: MappedArray | None
    """None where all are 1."""
    sums: Tensor
    """Of the weights of a row (N), in 64 bits."""
    has_loop: Tensor
    """(N)"""
    num_negative: int
    """Edges with a weight below 0."""

    @classmethod
    def of(cls, starts: NDArray[Any], columns: MappedArray, weights: MappedArray | None, shape: Any) -> Self:
        """Read all of it once: refuse what is damaged, unsorted or not finite, and sum up the rest."""
        path, entries = columns.path, columns.stored.shape
        # Without weights, a view of a single 1: nothing of the size of the edges is made.
        values = np.broadcast_to(np.ones(1), entries) if weights is None else weights.map()
        nodes, width = check_parts(
            str(path), values, columns.map(), starts, shape, prefix="adj_", most_columns=2**31 - 1
        )
        if nodes != width:
            raise DataError(f"{path}: adj_shape is {(nodes, width)}, expected as many rows as columns.")
        kept = torch.from_numpy(starts.astype(np.int64))
        graph = cls(path, kept, columns, weights, torch.zeros(nodes).double(), torch.zeros(nodes, dtype=torch.bool), 0)
        return graph._summed_up()

    def _summed_up(self) -> Self:
        columns_of = self.columns.checked(self.raw(self.columns), "adj_indices")
        weights_of: Iterator[NDArray[Any] | None] = (None for _ in self._ranges())
        if self.weights is not None:
            weights_of = self.weights.checked(self.raw(self.weights), "adj_data")
        negative, all_one = 0, True
        # Strict: what is read to its end is compared with its checksum.
        for (begin, end), raw_columns, raw_weights in zip(self._ranges(), columns_of, weights_of, strict=True):
            rows = Rows(self.starts[begin : end + 1].diff(), _whole_numbers(raw_columns), None)
            owners = rows.owners
            if ((owners * self.num_nodes + rows.columns).diff() <= 0).any():
                raise DataError(
                    f"{self.path}: a row of adj_indices of nodes {begin} to {end - 1} is not sorted, or names a "
                    "neighbour twice. Call matrix.sum_duplicates() before it is written."
                )
            self.has_loop[begin:end].index_fill_(0, owners[rows.columns == owners + begin], 1)
            if raw_weights is None:
                self.sums[begin:end] = rows.lengths.double()
                continue
            weights = _numbers(raw_weights)
            self._check_weights(weights, int(self.starts[begin]))
            self.sums[begin:end].index_add_(0, owners, weights)
            negative, all_one = negative + int((weights < 0).sum()), all_one and bool((weights == 1).all())
        return replace(self, weights=None if all_one else self.weights, num_negative=negative)

    def _check_weights(self, weights: Tensor, first: int) -> None:
        bad = (~weights.float().isfinite() | (weights == 0)).nonzero()
        if len(bad):
            entry = int(bad[0])
            raise DataError(
                f"{self.path}: adj_data[{first + entry}] is {float(weights[entry]):g}, expected a number below 3e38 "
                "that is not 0. Call matrix.eliminate_zeros() before it is written."
            )

    @property
    def num_nodes(self) -> int:
        return len(self.starts) - 1

    @property
    def num_edges(self) -> int:
        return int(self.starts[-1])

    def num_entries(self, add_self_loops: bool) -> int:
        """Of A + I, or of A."""
        return self.num_edges + (int((~self.has_loop).sum()) if add_self_loops else 0)

    def to(self, device: torch.device | str) -> Self:
        """Itself: rows are moved once they are read."""
        return self

    def propagation(
        self, normalization: str = "sym", add_self_loops: bool = True, dtype: torch.dtype = torch.float32
    ) -> "MappedPropagation":
        """Ahat, some rows at a time."""
        return MappedPropagation(self, normalization, add_self_loops, dtype)

    def to_dense(
        self, normalization: str = "sym", add_self_loops: bool = True, dtype: torch.dtype = torch.float32
    ) -> Tensor:
        """Ahat as a matrix (N, N), to look at."""
        identity = torch.eye(self.num_nodes, dtype=dtype)
        return self.propagation(normalization, add_self_loops, dtype).propagate(identity)

    def rows(self, nodes: Tensor) -> Rows:
        """The rows of A of some nodes, in memory."""
        lengths = self.starts.diff()[nodes]
        firsts = (self.starts[nodes] - lengths.cumsum(0) + lengths).repeat_interleave(lengths)
        entries = (torch.arange(len(firsts)) + firsts).numpy()
        weights = None if self.weights is None else _numbers(self.weights.map()[entries])
        return Rows(lengths, _whole_numbers(self.columns.map()[entries]), weights)

    def rows_with_loops(self, nodes: Tensor) -> Rows:
        """The same of A + I: a self-loop of weight 1, where a node has none, in its place among the columns."""
        rows, lacking = self.rows(nodes), (~self.has_loop[nodes]).nonzero()[:, 0]
        owners, columns = torch.cat([rows.owners, lacking]), torch.cat([rows.columns, nodes[lacking]])
        order = (owners * self.num_nodes + columns).argsort()
        lengths = rows.lengths.index_add(0, lacking, torch.ones_like(lacking))
        if rows.weights is None:
            return Rows(lengths, columns[order], None)
        return Rows(lengths, columns[order], torch.cat([rows.weights, torch.ones(len(lacking)).double()])[order])

    def ranges(self) -> Iterator[Tensor]:
        """All nodes, a contiguous range at a time."""
        for begin, end in self._ranges():
            yield torch.arange(begin, end)

    @property
    def column_numbers(self) -> "MappedNumbers":
        return MappedNumbers(self, self.columns, np.int32)

    @property
    def weight_numbers(self) -> "MappedNumbers | None":
        return None if self.weights is None else MappedNumbers(self, self.weights, np.float64)

    def _ranges(self) -> Iterator[tuple[int, int]]:
        begin = 0
        while begin < self.num_nodes:
            within = int(torch.searchsorted(self.starts, self.starts[begin] + BLOCK, right=True)) - 1
            # Nodes without an edge are limited too: there may be many.
            end = max(begin + 1, min(within, begin + BLOCK, self.num_nodes))
            yield begin, end
            begin = end

    def raw(self, array: MappedArray) -> Iterator[NDArray[Any]]:
        """The columns or the weights of each range."""
        for begin, end in self._ranges():
            yield array.map()[int(self.starts[begin]) : int(self.starts[end])]


AnyGraph = Graph | MappedGraph


class MappedNumbers(NamedTuple):
    """The columns or the weights of a mapped graph (E), as `Graph.neighbors` holds them."""

    graph: MappedGraph
    array: MappedArray
    dtype: type[np.int32 | np.float64]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.stored.shape

    def blocks(self) -> Iterator[Tensor]:
        """All of them in order, some at a time."""
        for raw in self.graph.raw(self.array):
            yield torch.from_numpy(np.array(raw, dtype=self.dtype))


@dataclass(frozen=True, eq=False)
class MappedPropagation:
    """Ahat of a mapped graph, by the normalizations of the layer: the values of some rows at a time."""

    graph: MappedGraph
    normalization: str
    add_self_loops: bool
    dtype: torch.dtype

    @property
    def height(self) -> int:
        return self.graph.num_nodes

    @property
    def starts(self) -> Tensor:
        """Of the rows of A: self-loops that are added come on top."""
        return self.graph.starts

    def rows(self, nodes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The rows of some nodes: the length of each, and the columns and values of their entries."""
        rows = self.graph.rows_with_loops(nodes) if self.add_self_loops else self.graph.rows(nodes)
        values = self._values(nodes, rows).to(self.dtype)
        if not values.isfinite().all():
            raise DataError(
                f"{self.graph.path}: {self.normalization} makes a weight of an edge that is beyond {self.dtype}. "
                "Scale the weights."
            )
        return rows.lengths, rows.columns, values

    def propagate(self, x: Tensor) -> Tensor:
        """Ahat x, without a gradient. (N, H) -> (N, H)"""
        out, end = torch.empty_like(x), 0
        for nodes in self.graph.ranges():
            begin, end = end, end + len(nodes)
            lengths, columns, values = self.rows(nodes)
            starts = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
            out[begin:end] = multiply(Csr(starts, columns.int(), values).to(x.device), x)
        return out

    def _values(self, nodes: Tensor, rows: Rows) -> Tensor:
        """As `normalize` has them: what is computed for each node is exact, and rounded once."""
        weights, kind = rows.weights, self.normalization
        if kind == "none":
            return torch.ones(len(rows.columns)) if weights is None else weights
        owners = rows.owners
        if kind == "softmax" and weights is not None:
            largest = weights.new_full((len(nodes),), -torch.inf).scatter_reduce_(0, owners, weights, "amax")
            weights = torch.exp(weights - largest[owners])
            return weights / weights.new_zeros(len(nodes)).index_add_(0, owners, weights)[owners]
        if kind == "sym":
            values = self._degrees(nodes).rsqrt()[owners].mul_(self._degrees(rows.columns).rsqrt())
        else:
            values = self._degrees(nodes).reciprocal()[owners]
        return values if weights is None else values.mul_(weights)

    def _degrees(self, nodes: Tensor) -> Tensor:
        """Sums of rows; infinite where there is nothing to divide by."""
        sums = self.graph.sums[nodes]
        if self.add_self_loops:
            sums = sums + (~self.graph.has_loop[nodes]).double()
        return torch.where(sums > 0, sums, torch.inf)


def _whole_numbers(raw: NDArray[Any]) -> Tensor:
    return torch.from_numpy(np.array(raw, dtype=np.int64))


def _numbers(raw: NDArray[Any]) -> Tensor:
    return torch.from_numpy(np.array(raw, dtype=np.float64))
