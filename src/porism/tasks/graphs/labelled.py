"""A graph whose nodes have features, and some of them labels: what the task learns from."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from porism.errors import DataError
from porism.layers.gcn import Graph, SparseFeatures

SPLITS = ("train", "valid", "test")
UNKNOWN = -1
"""The label of a node whose class nobody tells."""

Features = Tensor | SparseFeatures


@dataclass(frozen=True, eq=False)
class LabelledGraph:
    """N nodes, numbered from 0 on.

    Shapes: features (N, D), labels (N) of int64, each split the numbers of its nodes.
    """

    name: str
    graph: Graph
    features: Features
    labels: Tensor
    classes: tuple[str, ...]
    splits: Mapping[str, Tensor] = field(default_factory=dict)
    split_name: str = ""
    """Who drew the split, and how: numbers on different splits do not compare."""
    limits: Mapping[str, float] = field(default_factory=dict)
    """The best accuracy on each split that what is known of the source allows, where that is known."""
    facts: Mapping[str, int | float | str] = field(default_factory=dict)
    """What else is known of the source."""

    def __post_init__(self) -> None:
        nodes, rows = self.graph.nodes, self.features.shape[0]
        if rows != nodes or len(self.labels) != nodes:
            raise DataError(
                f"{self.name}: {nodes} nodes, {rows} rows of features and {len(self.labels)} labels. "
                "Give one row and one label for each node; -1 is the label of a node whose class is unknown."
            )
        values = self.features.there.values if isinstance(self.features, SparseFeatures) else self.features
        if not values.isfinite().all():
            raise DataError(f"{self.name}: a feature is no finite number. Leave such features out, or set them to 0.")
        for split, members in self.splits.items():
            if not len(members):
                raise DataError(f"{self.name}: no node in the {split} split. Put some in it.")
            if (self.labels[members] == UNKNOWN).any():
                unknown = int(members[self.labels[members] == UNKNOWN][0])
                raise DataError(f"{self.name}: node {unknown} is in the {split} split and has no label. Label it.")

    def sizes(self) -> str:
        """
        >>> load_graph("cora").sizes()               # doctest: +SKIP
        'public 140/500/1000'
        """
        return f"{self.split_name} {'/'.join(str(len(self.splits[split])) for split in SPLITS)}"

    def fingerprint(self) -> str:
        """The sha256 of all that a model ever sees."""
        digest = hashlib.sha256(json.dumps([self.graph.nodes, *self.classes]).encode())
        heard, x = self.graph.heard(self_loops=False), self.features
        stored = tuple(x.there) if isinstance(x, SparseFeatures) else (x,)
        parts = [heard.starts, heard.columns, heard.weights, *stored, self.labels, *map(self.splits.get, SPLITS)]
        for part in parts:
            content = torch.empty(0) if part is None else part
            digest.update(f"\n{tuple(content.shape)}\n".encode())
            digest.update(content.contiguous().numpy().tobytes())
        return digest.hexdigest()
