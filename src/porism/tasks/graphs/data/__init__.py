"""The graphs of the task, from all their sources.

>>> load_graph("karate").graph
Graph(num_nodes=34, num_edges=156)
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from porism.errors import DataError, advise, fields, nearest
from porism.layers.gcn import Graph, SparseFeatures
from porism.tasks.blocks.download import data_folder
from porism.tasks.blocks.labels import whole_labels
from porism.tasks.graphs.catalogue import CATALOGUE
from porism.tasks.graphs.data.columns import FeatureColumn
from porism.tasks.graphs.data.csv import EDGES, NODES, read_tables
from porism.tasks.graphs.data.embedded import karate
from porism.tasks.graphs.data.labelled_graph import (
    SPLITS,
    UNKNOWN,
    Features,
    LabelledGraph,
    numbered_classes,
    one_hot_features,
)
from porism.tasks.graphs.data.mapped_graph import MappedGraph
from porism.tasks.graphs.data.npz import read_npz
from porism.tasks.graphs.data.partition import partition
from porism.tasks.graphs.data.planetoid import planetoid_files, read_planetoid, read_public
from porism.tasks.graphs.data.sparse import checked_scipy
from porism.tasks.graphs.data.splits import split_randomly

__all__ = [
    "SPLITS",
    "Features",
    "LabelledGraph",
    "check_weights",
    "from_object",
    "load_graph",
    "read_graph",
    "ready",
]


def load_graph(
    source: str | None = None, split: str = "public", seed: int = 0, most_mib: int | None = None
) -> LabelledGraph:
    """The graph of a name (`karate`, `partition`, `cora`, `citeseer`) or of a path, ready to learn from.

    split: `public` as the data says, where it says so, or `random` from the seed.
    most_mib: dense features and edges of an .npz that would take more stay in the file.
    """
    return ready(read_graph(source, most_mib=most_mib), split, seed)


def ready(data: LabelledGraph, split: str = "public", seed: int = 0) -> LabelledGraph:
    """A graph with its split, to learn from."""
    if not data.classes:
        raise DataError(f"{data.name}: no node has a label, so no model can be trained. Add labels to some.")
    return split_randomly(data, seed) if split == "random" or not data.splits else data


def read_graph(
    source: str | None = None, columns: Sequence[FeatureColumn] | None = None, most_mib: int | None = None
) -> LabelledGraph:
    """The graph as it is: perhaps without a split, perhaps without labels.

    columns: of tables, those that a model was trained on.
    most_mib: dense features and edges of an .npz that would take more stay in the file.
    """
    source = "karate" if source is None else source
    if source in CATALOGUE:
        return _read_named(source, data_folder())
    path = Path(source).expanduser()
    if not path.exists():
        raise DataError(
            f"{source}: no such file or folder, and no graph of that name. {nearest(source.lower(), list(CATALOGUE))}"
        )
    if path.is_dir():
        return _read_folder(path, columns)
    if path.suffix in (".csv", ".txt", ".tsv", ".edges"):
        raise DataError(f"{source}: one table, and a graph takes two. {TABLES}")
    return read_npz(path, most_mib)


TABLES = (
    f"Give a folder with {NODES} (columns node and label, then features if there are any) and {EDGES} (source,target)."
)


def check_weights(data: LabelledGraph, normalization: str) -> None:
    """Refuses negative weights under a normalization that divides by their sum, which may then be 0 or less."""
    if isinstance(data.graph, MappedGraph):
        negative = data.graph.num_negative
    else:
        weights = data.graph.neighbors(add_self_loops=False).weights
        negative = 0 if weights is None else int((weights < 0).sum())
    if negative and normalization in ("rw", "sym"):
        raise DataError(
            f"{data.name}: {negative} of {data.graph.num_edges} edges have a weight below 0, and {normalization} "
            "divides by the sum of weights.",
            advise("Use {}, or leave them out.", fields(normalization="softmax")),
        )


# The runs of a comparison share one graph, and building it takes as long as some of them.
@lru_cache(maxsize=4)
def _read_named(name: str, _folder: Path) -> LabelledGraph:
    embedded = {"karate": karate, "partition": partition}
    # It is kept, and may be read first by somebody who only predicts: a backward pass must be able to save it.
    with torch.inference_mode(False):
        return embedded[name]() if name in embedded else read_public(name)


def _read_folder(folder: Path, columns: Sequence[FeatureColumn] | None) -> LabelledGraph:
    if (folder / NODES).exists():
        return read_tables(folder, columns)
    if (folder / EDGES).exists():
        raise DataError(f"{folder}: {EDGES} alone has no labels to learn. {TABLES}")
    graphs = planetoid_files(folder)
    if len(graphs) > 1:
        raise DataError(f"{folder}: files of {' and '.join(graphs)}. Put each graph into a folder of its own.")
    if not graphs:
        raise DataError(
            f"{folder}: no graph in this folder. Put nodes.csv and edges.csv into it, or Planetoid's files."
        )
    name, files = next(iter(graphs.items()))
    return read_planetoid(files, name)


def from_object(graph: Any, features: Any = None, labels: Any = None, name: str = "graph") -> LabelledGraph:
    """A graph of PyTorch Geometric, networkx or scipy, to train on or to label.

    >>> from_object(networkx.karate_club_graph(), torch.eye(34)).graph           # doctest: +SKIP
    Graph(num_nodes=34, num_edges=156)

    A `Data` of PyTorch Geometric brings its own features, labels and masks. Features are a tensor, an array or a sparse
    matrix of scipy, (N, D); without any, they are one-hot. Labels (N) are whole numbers, -1 where unknown.
    """
    splits: dict[str, torch.Tensor] = {}
    if isinstance(graph, Graph):
        own = graph
    elif hasattr(graph, "edge_index"):
        own = Graph.from_data(graph)
        features = graph.x if features is None else features
        labels = getattr(graph, "y", None) if labels is None else labels
        masks = {split: getattr(graph, f"{'val' if split == 'valid' else split}_mask", None) for split in SPLITS}
        splits = {split: mask.nonzero()[:, 0] for split, mask in masks.items() if mask is not None}
    elif hasattr(graph, "tocoo"):
        own = Graph.from_scipy(checked_scipy(graph, name))
    elif hasattr(graph, "is_directed"):
        own = Graph.from_networkx(graph)
    else:
        raise DataError(
            f"{name}: a {type(graph).__name__} is not a graph. Give a Graph, a Data of PyTorch Geometric, a graph of "
            "networkx or a sparse matrix of scipy."
        )
    known = torch.full((own.num_nodes,), UNKNOWN) if labels is None else _as_labels(labels, name)
    data = LabelledGraph(name, own, _as_features(features, own.num_nodes, name), known, numbered_classes(name, known))
    return replace(data, splits=splits, split_name="as it came") if len(splits) == len(SPLITS) else data


def _as_labels(labels: Any, name: str) -> torch.Tensor:
    return torch.from_numpy(whole_labels(name, torch.as_tensor(labels).cpu().numpy(), least=UNKNOWN))


def _as_features(features: Any, nodes: int, name: str) -> Features:
    if features is None:
        return one_hot_features(nodes)
    if isinstance(features, SparseFeatures):
        return features
    if hasattr(features, "tocsr"):
        return SparseFeatures.from_scipy(checked_scipy(features, name))
    return torch.as_tensor(features).float()
