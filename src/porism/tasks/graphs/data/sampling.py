"""Neighbour sampling: training on a part of a graph at a time, for graphs that outgrow memory.

For a batch of training nodes, each layer draws at most `fan` neighbours of every node it needs, without replacement, so
that the memory of a step depends on the batch, not on the graph. A sampled entry of Ahat is scaled up by the inverse of
its probability: the sampled sum is unbiased. The self-loop of a node is always kept, at its own weight.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from porism.layers.gcn import Graph, SparseFeatures
from porism.layers.gcn.adjacency.csr import Csr, Transposition, starts_of, transpose
from porism.layers.gcn.adjacency.edges import Neighbors
from porism.layers.gcn.adjacency.normalize import Normalization
from porism.layers.gcn.adjacency.propagations import Propagation
from porism.tasks.blocks.batches import LazyBatches
from porism.tasks.graphs.data.labelled_graph import Features
from porism.tasks.graphs.data.mapped import MappedFeatures
from porism.tasks.graphs.data.mapped_graph import MappedPropagation
from porism.training.task import Batch

BLOCK = 2**17
"""Entries of rows that are read at a time."""


class SampledGraph(Graph):
    """A subgraph whose propagation matrices were sampled."""

    def __init__(self, propagation: Propagation) -> None:
        there = propagation.there
        self._set(Neighbors(there.starts, there.columns, there.values))
        self._drawn = propagation

    def normalized(self, how: Normalization, dtype: torch.dtype) -> Propagation:
        return self._drawn


class NeighborBatch(NamedTuple):
    """The sampled subgraph of a step as tensors for the device: the training nodes are the first rows."""

    labels: Tensor
    there_starts: Tensor
    there_columns: Tensor
    there_values: Tensor
    back_starts: Tensor
    back_columns: Tensor
    back_values: Tensor
    features: tuple[Tensor, ...]

    @classmethod
    def of(cls, batch: Batch) -> "NeighborBatch":
        labels, starts, columns, values, back_starts, back_columns, back_values, *features = batch
        return cls(labels, starts, columns, values, back_starts, back_columns, back_values, tuple(features))

    def batch(self) -> Batch:
        *others, features = self
        return *others, *features

    def part(self, rank: int, size: int, layers: int, width: int) -> "NeighborBatch":
        """The training nodes of one of several processes with what their logits depend on: so many hops of the
        subgraph. Where there are fewer nodes than processes, all of it."""
        if len(self.labels) < size:
            return self
        there = Csr(self.there_starts, self.there_columns, self.there_values)
        chosen = torch.arange(len(self.labels)).tensor_split(size)[rank]
        position, nodes, frontier = torch.full((there.height,), -1), chosen, chosen
        position[chosen] = torch.arange(len(chosen))
        for _ in range(layers):
            reached = there.columns[_entries(there.starts, frontier)].long().unique()
            frontier = reached[position[reached] < 0]
            position[frontier] = torch.arange(len(nodes), len(nodes) + len(frontier))
            nodes = torch.cat([nodes, frontier])
        entries, lengths = _entries(there.starts, nodes), there.starts.diff()[nodes]
        rows, columns = torch.arange(len(nodes)).repeat_interleave(lengths), position[there.columns[entries].long()]
        # Rows of the last hop point outside, and no logit depends on them.
        kept = columns >= 0
        rows, columns, values = rows[kept], columns[kept], there.values[entries][kept]
        own = Csr(starts_of(rows, len(nodes)), columns.int(), values)
        back = transpose(own.starts, own.columns, len(nodes)).of(own.values)
        return NeighborBatch(self.labels[chosen], *own, *back, features=_rows(self.x(width), nodes))

    def graph(self) -> SampledGraph:
        there = Csr(self.there_starts, self.there_columns, self.there_values)
        return SampledGraph(Propagation(there, Csr(self.back_starts, self.back_columns, self.back_values)))

    def x(self, width: int) -> Features:
        if len(self.features) == 1:
            return self.features[0]
        return SparseFeatures(Csr(*self.features[:3]), width, Transposition(*self.features[3:]))


@dataclass(frozen=True)
class NeighborSampling:
    """How neighbors are sampled: passes over the training nodes, nodes a step, hops, and neighbors a node."""

    passes: int
    batch_size: int
    num_layers: int
    num_neighbors: int
    seed: int


class NeighborBatches(LazyBatches):
    """Passes over the training nodes, each in an order of its own, `batch_size` of them a step.

    An index always gives the same batch: its generator is seeded with the seed and the index.
    """

    def __init__(
        self,
        propagation: Propagation | MappedPropagation,
        features: Features,
        labels: Tensor,
        nodes: Tensor,
        sampling: NeighborSampling,
    ) -> None:
        self._whole = propagation.there if isinstance(propagation, Propagation) else propagation
        self._features, self._labels, self._nodes = features, labels, nodes
        self._sampling = sampling
        self._steps = -(-len(nodes) // sampling.batch_size)
        """Of one pass."""

    def __len__(self) -> int:
        return self._sampling.passes * self._steps

    def batch(self, number: int) -> Batch:
        turn, step = divmod(number, self._steps)
        how = self._sampling
        order = torch.randperm(len(self._nodes), generator=torch.Generator().manual_seed(how.seed - turn))
        chosen = self._nodes[order[step * how.batch_size : (step + 1) * how.batch_size]]
        generator = torch.Generator().manual_seed(how.seed + 1 + number)
        nodes, there = sample(self._whole, chosen, how.num_layers, how.num_neighbors, generator)
        back = transpose(there.starts, there.columns, len(nodes)).of(there.values)
        return NeighborBatch(self._labels[chosen], *there, *back, features=_rows(self._features, nodes)).batch()


def sample(
    whole: Csr | MappedPropagation, chosen: Tensor, layers: int, fan: int, generator: torch.Generator
) -> tuple[Tensor, Csr]:
    """The nodes within `layers` hops of at most `fan` sampled neighbours, `chosen` first, and the sampled entries.

    Nodes of the last hop have their self-loops alone: no layer uses their neighbours.
    """
    nodes, frontier = chosen, chosen
    position = torch.full((whole.height,), -1)
    position[chosen] = torch.arange(len(chosen))
    sampled: list[tuple[Tensor, Tensor, Tensor]] = []
    for _ in range(layers):
        entries = _sample_entries(whole, frontier, fan, generator)
        sampled.append(entries)
        reached = entries[1].unique()
        fresh = reached[position[reached] < 0]
        position[fresh] = torch.arange(len(nodes), len(nodes) + len(fresh))
        nodes, frontier = torch.cat([nodes, fresh]), fresh
    sampled.append(_sample_entries(whole, frontier, 0, generator))
    rows, columns, values = (torch.cat(parts) for parts in zip(*sampled, strict=True))
    rows, columns = position[rows], position[columns]
    order = (rows * len(nodes) + columns).argsort()
    return nodes, Csr(starts_of(rows, len(nodes)), columns[order].int(), values[order])


def _sample_entries(
    whole: Csr | MappedPropagation, targets: Tensor, fan: int, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """Row, column and value of the entries that are sampled of the targets' rows.

    Some rows at a time: those of a hop may have far more entries than are sampled of them.
    """
    parts = [_sample_rows(whole, some, fan, generator) for some in _pieces(whole.starts, targets)]
    rows, columns, values = (torch.cat(part) for part in zip(*parts, strict=True))
    return rows, columns, values


def _pieces(starts: Tensor, nodes: Tensor) -> tuple[Tensor, ...]:
    """Nodes in order, in pieces whose rows have about as many entries as are read at a time."""
    before = starts.diff()[nodes].cumsum(0) // BLOCK
    pieces: tuple[Tensor, ...] = nodes.split(torch.bincount(before, minlength=1).tolist())
    return pieces


def _sample_rows(
    whole: Csr | MappedPropagation, targets: Tensor, fan: int, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    lengths, columns, values = whole.rows(targets) if isinstance(whole, MappedPropagation) else _rows_of(whole, targets)
    rows = targets.repeat_interleave(lengths)
    loops = rows == columns
    # Entries in random order within their row, loops last: the first `fan` of a row are kept.
    key = torch.rand(len(rows), generator=generator).masked_fill(loops, 2.0)
    owner = torch.arange(len(targets)).repeat_interleave(lengths)
    order = _grouped_order(owner, key)
    starts = lengths.cumsum(0) - lengths
    rank = torch.empty_like(order)
    rank[order] = torch.arange(len(order)) - starts[owner[order]]
    others = lengths - torch.zeros_like(lengths).index_add(0, owner, loops.long())
    kept = loops | (rank < fan)
    scale = torch.where(loops, 1.0, (others / others.clamp(1, max(fan, 1)))[owner])
    return rows[kept], columns[kept], (values * scale)[kept]


def _rows_of(whole: Csr, nodes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The length of each row, and the columns and values of their entries."""
    entries = _entries(whole.starts, nodes)
    return whole.starts.diff()[nodes], whole.columns[entries].long(), whole.values[entries]


def _grouped_order(owner: Tensor, key: Tensor) -> Tensor:
    """The order by owner, and for each owner by key."""
    first = key.argsort()
    return first[owner[first].argsort(stable=True)]


def _entries(starts: Tensor, rows: Tensor) -> Tensor:
    """Indices of the entries of some rows, row after row."""
    lengths = starts.diff()[rows]
    ends = lengths.cumsum(0)
    return torch.arange(int(lengths.sum())) + (starts[rows] - ends + lengths).repeat_interleave(lengths)


def _rows(x: Features, nodes: Tensor) -> tuple[Tensor, ...]:
    """Some nodes' features: one tensor, or the six of a sparse matrix."""
    if isinstance(x, MappedFeatures):
        return (x.rows(nodes),)
    if isinstance(x, Tensor):
        return (x[nodes],)
    entries, lengths = _entries(x.there.starts, nodes), x.there.starts.diff()[nodes]
    starts = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
    columns, values = x.there.columns[entries], x.there.values[entries]
    return starts, columns, values, *transpose(starts, columns, x.width)
