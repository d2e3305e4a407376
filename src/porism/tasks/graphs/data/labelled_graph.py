"""A graph whose nodes have features, and some of them labels: the data of the task."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import cast

import torch
from torch import Tensor

from porism.errors import DataError, shown
from porism.layers.gcn import SparseFeatures
from porism.layers.gcn.adjacency.csr import Csr, rows_of
from porism.tasks.blocks.finite import check_finite
from porism.tasks.blocks.labels import UNKNOWN, check_class_count
from porism.tasks.blocks.splits import check_disjoint
from porism.tasks.graphs.data.columns import FeatureColumn
from porism.tasks.graphs.data.mapped import FeatureSums, MappedFeatures
from porism.tasks.graphs.data.mapped_graph import AnyGraph, MappedGraph, MappedNumbers

__all__ = ["SPLITS", "UNKNOWN", "Features", "LabelledGraph", "numbered_classes", "one_hot_features"]

SPLITS = ("train", "valid", "test")

SPARSE_BELOW = 0.1
"""The share of features that are not zero below which the sparse product is the faster one."""

Features = Tensor | SparseFeatures | MappedFeatures


@dataclass(frozen=True, eq=False)
class LabelledGraph:
    """N nodes, numbered from 0 on.

    Shapes: features (N, D), labels (N) of int64, each split the numbers of its nodes. No node is in two splits.
    """

    name: str
    graph: AnyGraph
    features: Features
    labels: Tensor
    classes: tuple[str, ...]
    splits: Mapping[str, Tensor] = field(default_factory=dict)
    split_name: str = ""
    """Where the split comes from: results on different splits are not comparable."""
    limits: Mapping[str, float] = field(default_factory=dict)
    """The best possible accuracy on each split, where the source of the graph is known well enough."""
    facts: Mapping[str, int | float | str] = field(default_factory=dict)
    """Further facts about the source."""
    own_features: bool = False
    """Whether the features are a user's own columns, which may be of any size."""
    names: tuple[str, ...] = ()
    """Of the nodes, where they have any."""
    columns: tuple[FeatureColumn, ...] = ()
    """Of the table that the features come from."""
    sums: FeatureSums | None = None
    """Of features that stay in their file, which are read once."""

    def __post_init__(self) -> None:
        nodes, rows = self.graph.num_nodes, self.features.shape[0]
        if rows != nodes or len(self.labels) != nodes:
            raise DataError(
                f"{self.name}: {nodes} nodes, {rows} rows of features and {len(self.labels)} labels. "
                "Give one row and one label for each node; -1 is the label of a node whose class is unknown."
            )
        _check_finite(self.features, self.name)
        if not ((self.labels >= UNKNOWN) & (self.labels < len(self.classes))).all():
            least, most = (int(end) for end in self.labels.aminmax())
            raise DataError(
                f"{self.name}: labels run from {least} to {most}, and {len(self.classes)} classes are numbered from 0 "
                "on. Name every class; -1 is the label of a node whose class is unknown."
            )
        if len(set(self.classes)) < len(self.classes):
            twice = next(name for name in self.classes if self.classes.count(name) > 1)
            raise DataError(f"{self.name}: two classes are called {shown(twice)}. Give each a name of its own.")
        self._check_splits()

    def _check_splits(self) -> None:
        for split, members in self.splits.items():
            if not len(members):
                raise DataError(f"{self.name}: no node in the {split} split. Put some in it.")
            least, most = (int(end) for end in members.aminmax())
            if least < 0 or most >= self.graph.num_nodes:
                raise DataError(
                    f"{self.name}: the {split} split runs from node {least} to {most}, and nodes are numbered 0 to "
                    f"{self.graph.num_nodes - 1}."
                )
            if (self.labels[members] == UNKNOWN).any():
                unknown = int(members[self.labels[members] == UNKNOWN][0])
                raise DataError(f"{self.name}: node {unknown} is in the {split} split and has no label. Label it.")
        check_disjoint(self.name, {split: members.tolist() for split, members in self.splits.items()}, "node")

    def replaced_features(self, features: Features) -> "LabelledGraph":
        """The same graph with other features, that belong to no column."""
        return replace(self, features=features, columns=(), sums=None)

    def sizes(self) -> str:
        """
        >>> load_graph("cora").sizes()               # doctest: +SKIP
        'public 140/500/1000'
        """
        return f"{self.split_name} {'/'.join(str(len(self.splits[split])) for split in SPLITS)}"

    def fingerprint(self) -> str:
        """The sha256 of all that a model is trained on."""
        digest = hashlib.sha256(json.dumps([self.graph.num_nodes, *self.classes]).encode())
        x = self.features
        stored = tuple(x.there) if isinstance(x, SparseFeatures) else (x,)
        for part in (*_edges(self.graph), *stored, self.labels, *map(self.splits.get, SPLITS)):
            content = torch.empty(0) if part is None else part
            digest.update(f"\n{tuple(content.shape)}\n".encode())
            for block in (content,) if isinstance(content, Tensor) else content.blocks():
                digest.update(block.contiguous().numpy().tobytes())
        return digest.hexdigest()


def _edges(graph: AnyGraph) -> tuple[Tensor | MappedNumbers | None, ...]:
    """Where rows of neighbours start, their columns, and their weights where not all are 1."""
    if isinstance(graph, MappedGraph):
        return graph.starts, graph.column_numbers, graph.weight_numbers
    return tuple(graph.neighbors(add_self_loops=False))


def numbered_classes(name: str, labels: Tensor) -> tuple[str, ...]:
    """Names for the classes of labels (N) that have none of their own.

    >>> numbered_classes("club", torch.tensor([0, 1, -1]))
    ('class 0', 'class 1')
    """
    count = int(labels.max()) + 1 if len(labels) else 0
    check_class_count(name, count, int((labels != UNKNOWN).sum()))
    return tuple(f"class {number}" for number in range(count))


def one_hot_features(nodes: int) -> SparseFeatures:
    """For nodes without features: (N, N), 1 on the diagonal."""
    there = Csr(torch.arange(nodes + 1), torch.arange(nodes, dtype=torch.int32), torch.ones(nodes))
    return SparseFeatures(there, nodes)


def row_normalised(x: Features) -> Features:
    """Each node's features divided by the sum of their sizes; a node without any stays.

    >>> row_normalised(torch.tensor([[1.0, 3.0], [0.0, 0.0], [-1.0, 1.0]]))
    tensor([[ 0.2500,  0.7500],
            [ 0.0000,  0.0000],
            [-0.5000,  0.5000]])

    Of counts that is the sum itself. Numbers of both signs may have a sum near 0, by which one must not divide.
    """
    if isinstance(x, MappedFeatures):
        return x.transformed(lambda rows: cast(Tensor, row_normalised(rows)))
    if isinstance(x, Tensor):
        sums = x.abs().sum(1, keepdim=True)
        return x / torch.where(sums == 0, 1, sums)
    values, rows = x.there.values, rows_of(x.there.starts)
    sums = values.new_zeros(x.there.height).index_add(0, rows, values.abs())
    return x.with_values(values / torch.where(sums == 0, 1, sums)[rows])


def _check_finite(features: Features, name: str) -> None:
    """Refuse a feature that is NaN or infinite, by its node and column."""
    if isinstance(features, MappedFeatures):  # checked as they were read
        return None
    if not isinstance(features, SparseFeatures):
        return check_finite(features, name, "feature of [node, column]")
    there = features.there
    bad = (~there.values.isfinite()).nonzero()
    if len(bad):
        first = int(bad[0])
        place = [int(rows_of(there.starts)[first]), int(there.columns[first])]
        raise DataError(
            f"{name}: the feature of [node, column] {place} is {there.values[first].item():g}, expected finite "
            f"numbers. Remove or replace it: {len(bad):,} of {len(there.values):,} are not finite."
        )
    return None
