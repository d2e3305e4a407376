"""Neighbour sampling: training on a part of a graph at a time, for graphs that outgrow memory.

Some nodes are to be learned from. Each layer asks for at most `fan` neighbours of every node it needs, drawn without
return, so what a step holds depends on the batch, not on the graph. A kept entry of Ahat is scaled up by how many it
stands for: the sampled sum has the whole sum as its mean. A node always hears itself, at its own weight.
"""

from collections.abc import Sequence
from typing import NamedTuple, overload

import torch
from torch import Tensor

from porism.layers.gcn import Graph, SparseFeatures
from porism.layers.gcn.adjacency.csr import Csr, Transposition, starts_of, transpose
from porism.layers.gcn.adjacency.edges import Neighbours
from porism.layers.gcn.adjacency.propagations import Propagation
from porism.tasks.graphs.data.labelled_graph import Features
from porism.training.task import Batch


class SampledGraph(Graph):
    """A part of a graph whose matrices were drawn, not derived."""

    def __init__(self, propagation: Propagation) -> None:
        there = propagation.there
        super().__init__(Neighbours(there.starts, there.columns, there.values))
        self._drawn = propagation

    def propagation(
        self, normalisation: str = "symmetric", self_loops: bool = True, dtype: torch.dtype = torch.float32
    ) -> Propagation:
        return self._drawn


class Part(NamedTuple):
    """What a step needs, as tensors that go to the device together: the nodes to learn from are the first rows."""

    labels: Tensor
    there_starts: Tensor
    there_columns: Tensor
    there_values: Tensor
    back_starts: Tensor
    back_columns: Tensor
    back_values: Tensor
    features: tuple[Tensor, ...]

    @classmethod
    def of(cls, batch: Batch) -> "Part":
        labels, starts, columns, values, back_starts, back_columns, back_values, *features = batch
        return cls(labels, starts, columns, values, back_starts, back_columns, back_values, tuple(features))

    def batch(self) -> Batch:
        *others, features = self
        return *others, *features

    def graph(self) -> SampledGraph:
        there = Csr(self.there_starts, self.there_columns, self.there_values)
        return SampledGraph(Propagation(there, Csr(self.back_starts, self.back_columns, self.back_values)))

    def x(self, width: int) -> Features:
        if len(self.features) == 1:
            return self.features[0]
        return SparseFeatures(Csr(*self.features[:3]), width, Transposition(*self.features[3:]))


class Parts(Sequence[Batch]):
    """Passes over the training nodes, each in an order of its own, `batch` of them a step.

    An index always gives the same part: its draws start from the seed and the index.
    """

    def __init__(
        self, propagation: Propagation, features: Features, labels: Tensor, nodes: Tensor, *,
        batch: int, passes: int, layers: int, fan: int, seed: int,
    ) -> None:  # fmt: skip
        self._whole, self._features, self._labels, self._nodes = propagation, features, labels, nodes
        self._batch, self._passes, self._layers, self._fan, self._seed = batch, passes, layers, fan, seed
        self._steps = -(-len(nodes) // batch)
        """Of one pass."""

    def __len__(self) -> int:
        return self._passes * self._steps

    @overload
    def __getitem__(self, index: int) -> Batch: ...
    @overload
    def __getitem__(self, index: slice) -> list[Batch]: ...
    def __getitem__(self, index: int | slice) -> Batch | list[Batch]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        place = range(len(self))[index]
        turn, step = divmod(place, self._steps)
        order = torch.randperm(len(self._nodes), generator=torch.Generator().manual_seed(self._seed - turn))
        chosen = self._nodes[order[step * self._batch : (step + 1) * self._batch]]
        draw = torch.Generator().manual_seed(self._seed + 1 + place)
        nodes, there = sample(self._whole.there, chosen, self._layers, self._fan, draw)
        back = transpose(there.starts, there.columns, len(nodes)).of(there.values)
        return Part(self._labels[chosen], *there, *back, features=_rows(self._features, nodes)).batch()


def sample(whole: Csr, chosen: Tensor, layers: int, fan: int, draw: torch.Generator) -> tuple[Tensor, Csr]:
    """The nodes that `layers` rounds of asking at most `fan` neighbours reach, `chosen` first, and who hears whom.

    Nodes that only the last round reached ask nobody but themselves: nothing they would hear is ever used.
    """
    nodes, asking = chosen, chosen
    place = torch.full((whole.height,), -1)
    place[chosen] = torch.arange(len(chosen))
    found: list[tuple[Tensor, Tensor, Tensor]] = []
    for _ in range(layers):
        heard = _drawn_entries(whole, asking, fan, draw)
        found.append(heard)
        reached = heard[1].unique()
        fresh = reached[place[reached] < 0]
        place[fresh] = torch.arange(len(nodes), len(nodes) + len(fresh))
        nodes, asking = torch.cat([nodes, fresh]), fresh
    found.append(_drawn_entries(whole, asking, 0, draw))
    rows, columns, values = (torch.cat(parts) for parts in zip(*found, strict=True))
    rows, columns = place[rows], place[columns]
    order = (rows * len(nodes) + columns).argsort()
    return nodes, Csr(starts_of(rows, len(nodes)), columns[order].int(), values[order])


def _drawn_entries(whole: Csr, asking: Tensor, fan: int, draw: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Row, column and value of the entries that the asking nodes keep."""
    entries = _entries(whole.starts, asking)
    lengths = whole.starts.diff()[asking]
    rows = asking.repeat_interleave(lengths)
    columns, values = whole.columns[entries].long(), whole.values[entries]
    loops = rows == columns
    # Entries in random order within their row, loops last: the first `fan` of a row are kept.
    lot = torch.rand(len(rows), generator=draw).masked_fill(loops, 2.0)
    owner = torch.arange(len(asking)).repeat_interleave(lengths)
    order = _by_lot(owner, lot)
    starts = lengths.cumsum(0) - lengths
    rank = torch.empty_like(order)
    rank[order] = torch.arange(len(order)) - starts[owner[order]]
    others = lengths - torch.zeros_like(lengths).index_add(0, owner, loops.long())
    kept = loops | (rank < fan)
    scale = torch.where(loops, 1.0, (others / others.clamp(1, max(fan, 1)))[owner])
    return rows[kept], columns[kept], (values * scale)[kept]


def _by_lot(owner: Tensor, lot: Tensor) -> Tensor:
    """Sorted by owner, and each owner's by lot."""
    first = lot.argsort()
    return first[owner[first].argsort(stable=True)]


def _entries(starts: Tensor, rows: Tensor) -> Tensor:
    """Where the entries of some rows stand, row after row."""
    lengths = starts.diff()[rows]
    ends = lengths.cumsum(0)
    return torch.arange(int(ends[-1])) + (starts[rows] - ends + lengths).repeat_interleave(lengths)


def _rows(x: Features, nodes: Tensor) -> tuple[Tensor, ...]:
    """Some nodes' features: one tensor, or the six of a sparse matrix."""
    if isinstance(x, Tensor):
        return (x[nodes],)
    entries, lengths = _entries(x.there.starts, nodes), x.there.starts.diff()[nodes]
    starts = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
    columns, values = x.there.columns[entries], x.there.values[entries]
    return starts, columns, values, *transpose(starts, columns, x.width)
