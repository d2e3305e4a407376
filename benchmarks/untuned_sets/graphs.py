"""Graphs: one whose features are chance, one whose edges follow the features, one whose edges join other classes."""

import random
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from untuned_sets.data_set import DataSet, write_table


def people(path: Path) -> None:
    """180 nodes of three classes, edges mostly within a class, columns of age and city drawn by chance."""
    draw = random.Random(4)
    label = [draw.randrange(3) for _ in range(180)]
    nodes = [(f"Person {n}", "abc"[label[n]], draw.randint(20, 60), draw.randint(0, 1)) for n in range(180)]
    edges: set[tuple[str, str]] = set()
    while len(edges) < 570:
        i, j = sorted(draw.sample(range(180), 2))
        if draw.random() < (0.9 if label[i] == label[j] else 0.1):
            edges.add((nodes[i][0], nodes[j][0]))
    _write_graph(path, ("age", "city"), nodes, edges)


def wines(path: Path) -> None:
    """178 wines of three growers, 13 measurements each, joined to the 5 with the nearest measurements."""
    from sklearn.datasets import load_wine
    from sklearn.neighbors import kneighbors_graph
    from sklearn.preprocessing import StandardScaler

    data = load_wine()
    near = kneighbors_graph(StandardScaler().fit_transform(data.data), 5).tocoo()
    nodes = [(n, f"grower {y}", *x) for n, (x, y) in enumerate(zip(data.data, data.target, strict=True))]
    _write_graph(path, data.feature_names, nodes, {(min(e), max(e)) for e in zip(near.row, near.col, strict=True)})


def southern_women(path: Path) -> None:
    """Which of 32 nodes is a woman and which an event, by who attended which: no edge joins two of a class."""
    import networkx as nx  # type: ignore[import-untyped]

    graph = nx.davis_southern_women_graph()
    nodes = [(name, "event" if data["bipartite"] else "woman") for name, data in graph.nodes(data=True)]
    _write_graph(path, (), nodes, graph.edges)


def _write_graph(path: Path, columns: Sequence[str], nodes: Iterable[Sequence[Any]], edges: Iterable[Any]) -> None:
    path.mkdir(parents=True, exist_ok=True)
    columns = [re.sub(r"\W", "_", column) for column in columns]
    write_table(path / "nodes.csv", ("node", "label", *columns), nodes)
    write_table(path / "edges.csv", ("source", "target"), sorted(edges))


SETS = [
    DataSet("graphs", "people", "3 classes, columns by chance", people),
    DataSet("graphs", "wines", "wine's 5 nearest neighbours", wines),
    DataSet("graphs", "southern-women", "bipartite, no features", southern_women),
]
