"""Graphs from every source: what comes in is what was meant, and what is wrong gets one clear line."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import networkx  # type: ignore[import-untyped]
import numpy as np
import pytest
import scipy.sparse  # type: ignore[import-untyped]
import torch
from tests.tasks.graphs.conftest import Writer
from torch.nn import functional

from porism.errors import DataError
from porism.layers.gcn import SparseFeatures
from porism.runs.recipe import override
from porism.tasks.graphs import data as data_module
from porism.tasks.graphs.catalogue import CATALOGUE
from porism.tasks.graphs.data import from_object, load_graph, read_graph
from porism.tasks.graphs.data.columns import FeatureColumn
from porism.tasks.graphs.data.labelled_graph import SPLITS
from porism.tasks.graphs.recipes import RECIPES
from porism.tasks.graphs.task import Graphs

PATH = torch.tensor([[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]])


def test_the_club_is_zacharys() -> None:
    club, data = networkx.karate_club_graph(), read_graph("karate")
    adjacency = networkx.to_numpy_array(club, weight=None)
    assert np.array_equal(data.graph.to_dense("none", add_self_loops=False).numpy(), adjacency)
    assert [data.classes[label] == "Mr. Hi" for label in data.labels.tolist()] == [
        club.nodes[member]["club"] == "Mr. Hi" for member in club
    ]
    assert data.labels[data.splits["train"]].tolist() == [0, 1]


@pytest.mark.parametrize("name", ["karate", "partition"])
def test_splits_do_not_touch(name: str) -> None:
    data = load_graph(name)
    members = torch.cat([data.splits[split] for split in SPLITS])
    assert len(members.unique()) == len(members)


def test_a_graph_of_arrays(npz: Writer) -> None:
    data = read_graph(str(npz()))
    assert torch.equal(data.graph.to_dense("none", add_self_loops=False), PATH)
    assert data.labels.tolist() == [0, 1, 1]


def test_an_adjacency_matrix_in_parts_says_whom_each_node_hears(npz: Writer) -> None:
    matrix = scipy.sparse.csr_matrix(np.array([[0, 0, 2], [0, 0, 0], [0, 5, 0]]))
    parts = {"adj_data": matrix.data, "adj_indices": matrix.indices, "adj_indptr": matrix.indptr}
    data = read_graph(str(npz(edge_index=None, **parts)))
    assert data.graph.to_dense("none", add_self_loops=False).tolist() == matrix.toarray().tolist()


def test_masks_are_a_split(npz: Writer) -> None:
    masks = {f"{split}_mask": np.arange(3) == place for place, split in enumerate(("train", "val", "test"))}
    data = load_graph(str(npz(**masks)))
    assert [data.splits[split].tolist() for split in SPLITS] == [[0], [1], [2]]


def test_sparse_features_stay_sparse(npz: Writer) -> None:
    x = scipy.sparse.csr_matrix(np.eye(3, 20))
    parts = {"attr_data": x.data, "attr_indices": x.indices, "attr_indptr": x.indptr, "attr_shape": x.shape}
    for data in (read_graph(str(npz(features=None, **parts))), read_graph(str(npz(features=x.toarray())))):
        assert isinstance(data.features, SparseFeatures)
        assert data.features.to_dense().tolist() == x.toarray().tolist()


@pytest.mark.parametrize(
    ("replaced", "message"),
    [
        ({"edge_index": np.array([[0, 7], [1, 0]])}, "runs from 0 to 7, and 3 nodes are numbered 0 to 2"),
        ({"edge_index": None}, "no edges in it. Add an array edge_index"),
        ({"features": None}, "no features in it. Add an array features"),
        ({"features": np.zeros((0, 4))}, r"features are \(0, 4\) of float64, expected \(N, D\) of numbers"),
        (
            {"features": np.array([[1.0], [np.nan], [2.0]])},
            r"the feature of \[node, column\] \[1, 0\] is nan, expected",
        ),
        ({"features": np.ones((2, 4))}, "runs from 0 to 2, and 2 nodes are numbered 0 to 1"),
        ({"edge_weight": np.array([1, np.nan, 1, 1])}, "the weight of edge 1 is nan, expected a number"),
        ({"labels": np.array([0, 1])}, "2 labels, and 3 rows of features"),
        ({"labels": np.array([0.5, 1, 1])}, "labels are float64, expected whole numbers"),
        ({"labels": np.array([-1, -1, -1])}, "no node has a label, so no model can be trained"),
        ({"labels": None}, "no node has a label, so no model can be trained"),
        ({"train_mask": np.ones(3, bool)}, "train_mask, and none for valid. Give all three, or none."),
        ({"features": np.array([{}, [], 1], dtype=object)}, "not a whole .npz of plain arrays"),
        ({"class_names": np.array(["one"])}, "1 class_names, and labels run to 1"),
    ],
)
def test_arrays_that_are_no_graph_get_a_line_with_the_file(
    npz: Writer, replaced: dict[str, np.ndarray], message: str
) -> None:
    path = npz(**replaced)
    with pytest.raises(DataError, match=message) as caught:
        load_graph(str(path))
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_two_tables_are_a_graph(tables: Writer) -> None:
    data = read_graph(str(tables()))
    assert torch.equal(data.graph.to_dense("none", add_self_loops=False), PATH)
    assert data.classes == ("blue", "red")
    assert data.labels.tolist() == [1, -1, 0]
    assert torch.as_tensor(data.features).tolist() == [[31, 0.5], [28, pytest.approx(0.1)], [7, 1]]


def test_texts_become_columns_of_categories_and_nodes_without_features_are_one_hot(tables: Writer) -> None:
    data = read_graph(str(tables("node,city,age\nann,Rome,31\nbob,Paris,28\ncarl,,7\n")))
    assert torch.as_tensor(data.features).tolist() == [[0, 1, 31], [1, 0, 28], [0, 0, 7]]
    assert data.names == ("ann", "bob", "carl")
    assert data.columns == (FeatureColumn("city", ("Paris", "Rome")), FeatureColumn("age"))
    bare = read_graph(str(tables("node,label\nann,red\nbob,\ncarl,blue\n")))
    assert isinstance(bare.features, SparseFeatures)
    assert torch.equal(bare.features.to_dense(), torch.eye(3))


def test_another_graph_has_the_columns_of_the_training_in_its_order(tables: Writer) -> None:
    columns = (FeatureColumn("age"), FeatureColumn("city", ("Paris", "Rome")))
    data = read_graph(str(tables("node,city,age\nann,Rome,31\nbob,Rome,28\ncarl,,7\n")), columns)
    assert torch.as_tensor(data.features).tolist() == [[31, 0, 1], [28, 0, 1], [7, 0, 0]]
    for nodes, message in (
        ("node,age\nann,31\n", "line 1: no column 'city', and the model was trained on it"),
        ("node,age,city,f\nann,31,Rome,1\n", "line 1: a column 'f', and the model was trained without it"),
        ("node,age,city\nann,31,Oslo\n", "line 2: city is 'Oslo', expected one that training had: Paris, Rome"),
    ):
        with pytest.raises(DataError, match=message):
            read_graph(str(tables(nodes, "source,target\n")), columns)


def test_a_list_of_edges_alone_gets_a_line(tables: Writer) -> None:
    folder = tables()
    (folder / "nodes.csv").unlink()
    with pytest.raises(DataError, match=r"edges.csv alone has no labels to learn. Give a folder with nodes.csv"):
        read_graph(str(folder))
    with pytest.raises(DataError, match=r"edges.csv: one table, and a graph takes two. Give a folder with nodes.csv"):
        read_graph(str(folder / "edges.csv"))


def test_edges_can_lead_one_way_and_have_weights(tables: Writer) -> None:
    data = read_graph(str(tables(edges="from,to,weight\nann,bob,2\n\nbob,carl,0.5\n")))
    # Who is written to hears.
    assert data.graph.to_dense("none", add_self_loops=False).tolist() == [[0, 0, 0], [2, 0, 0], [0, 0.5, 0]]


def test_a_split_in_the_table_is_kept(tables: Writer) -> None:
    data = read_graph(str(tables("node,split,label,f\na,valid,x,1\nb,train,y,1\nc,test,x,2\n", "source,target\na,b\n")))
    assert [data.splits[split].tolist() for split in SPLITS] == [[1], [0], [2]]


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ({"nodes": "node,f\na,1\na,2\n"}, "nodes.csv, line 3: node 'a' a second time"),
        ({"nodes": "node,f\na,1,2\n"}, "nodes.csv, line 2: 3 cells, expected 2"),
        ({"nodes": "node,f\na,1\nb,one\n"}, "nodes.csv, line 3: f is 'one', expected a number"),
        ({"nodes": "node,f\na,one\nb,1\n"}, "nodes.csv, line 2: f is 'one', expected a number"),
        ({"nodes": "node,f\na,\n"}, "nodes.csv, line 2: f is '', expected a number"),
        ({"nodes": "node,f\na,nan\n"}, "nodes.csv, line 2: f is 'nan', expected a number"),
        ({"nodes": "name,f\na,1\n"}, "nodes.csv, line 1: no column 'node' among name, f"),
        ({"nodes": "node,f\n"}, "nodes.csv: no node in it"),
        ({"nodes": ""}, "nodes.csv: empty. Its first line names the columns."),
        ({"nodes": "node,split,f\na,trian,1\n"}, r"nodes.csv, line 2: there is no split 'trian'. Did you mean train\?"),
        ({"nodes": "node,split,f\na,train,1\n"}, "nodes.csv: no node in the split valid"),
        ({"edges": "ann,bob\n"}, "edges.csv, line 1: 'ann,bob', expected source,target"),
        (
            {"edges": "source,target\nann,bib\n"},
            r"edges.csv, line 2: there is no node 'bib' in nodes.csv. Did you mean",
        ),
        ({"edges": "source,target,weight\nann,bob,\n"}, "edges.csv, line 2: weight is '', expected a number"),
    ],
)
def test_tables_that_are_no_graph_get_a_line_with_file_and_line(
    tables: Writer, written: dict[str, str], message: str
) -> None:
    folder = tables(**written)
    with pytest.raises(DataError, match=message):
        read_graph(str(folder))


def test_a_folder_without_a_graph_and_a_name_that_is_none(tmp_path_factory: pytest.TempPathFactory) -> None:
    with pytest.raises(DataError, match="no graph in this folder. Put nodes.csv and edges.csv into it"):
        read_graph(str(tmp_path_factory.mktemp("empty")))
    with pytest.raises(DataError, match=r"no graph of that name. Did you mean cora\?"):
        read_graph("corra")


def test_a_random_split_is_drawn_from_its_seed_and_named() -> None:
    one, again, other = (load_graph("partition", "random", seed) for seed in (1, 1, 2))
    assert one.fingerprint() == again.fingerprint() != other.fingerprint()
    assert one.sizes() == "random (1) 60/280/560"
    assert torch.bincount(one.labels[one.splits["train"]]).tolist() == [20, 20, 20]
    # What was worked out for other labels does not hold for these.
    assert not one.limits


def test_a_graph_too_small_to_split_is_a_clear_error(npz: Writer) -> None:
    with pytest.raises(
        DataError, match="graph.npz: 3 nodes with a label are too few for a random split: 2 to train leave 1"
    ):
        load_graph(str(npz()))
    path = npz(features=np.ones((6, 1)), labels=np.array([0, 1, 1, 1, 0, -1]))
    assert load_graph(str(path)).sizes() == "random (0) 3/1/1"


def test_the_fingerprint_is_of_edges_features_labels_and_split(npz: Writer) -> None:
    changes = {
        "edge_index": np.array([[0, 1, 0, 2], [1, 0, 2, 1]]),
        "features": np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 3.0]]),
        "labels": np.array([1, 0, 1]),
        "edge_weight": np.array([1.0, 1, 1, 2]),
    }
    found = {read_graph(str(npz(**{name: array}))).fingerprint() for name, array in changes.items()}
    assert len(found | {read_graph(str(npz())).fingerprint()}) == 5


def test_graphs_of_other_libraries() -> None:
    data = SimpleNamespace(  # as a Data of PyTorch Geometric has them
        num_nodes=3,
        x=torch.eye(3),
        y=torch.tensor([0, 1, 1]),
        edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]),
        train_mask=torch.tensor([True, False, False]),
        val_mask=torch.tensor([False, True, False]),
        test_mask=torch.tensor([False, False, True]),
    )
    geometric = from_object(data)
    assert geometric.splits["valid"].tolist() == [1]
    for made in (
        geometric,
        from_object(networkx.path_graph(3), labels=[0, 1, 1]),
        from_object(scipy.sparse.csr_matrix(PATH.numpy()), scipy.sparse.eye(3), [0, 1, 1]),
    ):
        assert torch.equal(made.graph.to_dense("none", add_self_loops=False), PATH)
        assert made.labels.tolist() == [0, 1, 1]
        assert made.features.shape == (3, 3)
    with pytest.raises(DataError, match="graph: a list is not a graph."):
        from_object([1, 2])


def test_a_graph_that_does_not_fit_into_memory(npz: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    path = npz(features=np.zeros((10**6, 1), np.int8), labels=None)
    for left, message in ((11e6, "features in 32 bits takes"), (90e6, "a graph of 1000000 nodes and 4 edges takes")):
        monkeypatch.setattr("porism.tasks.blocks.memory.available_bytes", lambda left=left: left)
        with pytest.raises(DataError, match=f"graph.npz: {message} .* of memory are free"):
            read_graph(str(path))


@pytest.mark.parametrize("dtype", ["u1", "u8", ">i4", ">i8", ">u2"])
def test_whole_numbers_of_every_type_are_edges_and_labels(npz: Writer, dtype: str) -> None:
    edges, labels = np.array([[0, 1, 1, 2], [1, 0, 2, 1]], dtype), np.array([0, 1, 1], dtype)
    features = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 2.0]], ">f4")
    data = read_graph(str(npz(edge_index=edges, labels=labels, features=features, edge_weight=np.full(4, 2, dtype))))
    assert torch.equal(data.graph.to_dense("none", add_self_loops=False), 2 * PATH)
    assert data.labels.tolist() == [0, 1, 1]
    assert torch.equal(torch.as_tensor(data.features), torch.tensor(features.tolist()))


def test_a_stored_zero_is_no_edge(npz: Writer) -> None:
    matrix = scipy.sparse.csr_matrix(np.array([[3, 0, 2], [0, 3, 0], [0, 5, 3]]))
    matrix.setdiag(0)
    matrix.data[matrix.data == 5] = 0
    parts = {"adj_data": matrix.data, "adj_indices": matrix.indices, "adj_indptr": matrix.indptr}
    graph = read_graph(str(npz(edge_index=None, **parts))).graph
    assert graph.num_edges == 1
    assert graph.to_dense("none").tolist() == [[1, 0, 2], [0, 1, 0], [0, 0, 1]]


def test_names_of_classes_and_arrays_of_no_concern(npz: Writer) -> None:
    data = read_graph(str(npz(class_names=np.array([b"cat", "größer".encode(), b"dog"]))))
    assert data.classes == ("cat", "größer", "dog")
    read_graph(str(npz(titles=np.array([{}, []], dtype=object))))
    few = read_graph(str(npz(labels=np.array([0, 1, 1999]), class_names=np.arange(2000).astype(str))))
    assert few.labels.tolist() == [0, 1, 1999]


def test_weights_below_zero_are_for_normalizations_that_do_not_divide_by_their_sum(npz: Writer) -> None:
    nodes = {"features": np.ones((6, 1)), "labels": np.array([0, 1, 1, 1, 0, -1])}
    path = str(npz(edge_weight=np.array([-1.0, 1, 2, 3]), **nodes))
    for name in ("rw", "sym"):
        with pytest.raises(DataError, match=f"1 of 4 edges have a weight below 0, and {name} divides by the sum"):
            Graphs.load(override(RECIPES["gcn"], [f"normalization={name}"]), path)
    for recipe in (replace(RECIPES["gcn"], normalization="softmax"), replace(RECIPES["gcn"], normalization="none")):
        Graphs.load(recipe, path)


def broken(kind: str) -> Any:
    """A sparse matrix with an index beyond it, which scipy does not look at."""
    matrix = scipy.sparse.csr_matrix(np.eye(4)).asformat(kind)
    matrix.indices = matrix.indices + 10**6
    return matrix


@pytest.mark.parametrize("kind", ["csr", "csc", "bsr"])
def test_a_matrix_of_scipy_with_parts_that_do_not_fit(kind: str) -> None:
    whole = scipy.sparse.csr_matrix(np.eye(4)).asformat(kind)
    assert from_object(whole, whole).features.shape == (4, 4)
    for graph, features in ((broken(kind), None), (whole, broken(kind))):
        with pytest.raises(
            DataError, match="^mine: (indices run from 1000000 to|a sparse matrix whose parts do not fit)"
        ):
            from_object(graph, features, name="mine")


def test_nodes_without_features_have_one_each_however_many() -> None:
    features = from_object(scipy.sparse.identity(200_000, format="csr")).features
    assert features.shape == (200_000, 200_000)
    few = from_object(networkx.path_graph(3)).features
    assert isinstance(few, SparseFeatures)
    assert torch.equal(few.to_dense(), torch.eye(3))


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0.5, 1, 1], "mine: labels are float32, expected whole numbers"),
        ([0, -2, 1], "mine: label -2 of example 1"),
        ([0, 1, 10**9], "mine: labels run to 1000000000, so 1,000,000,001 classes for 3 labelled examples"),
        ([0, 1], "mine: 3 nodes, 3 rows of features and 2 labels"),
    ],
)
def test_labels_of_objects_are_checked_as_those_of_files(labels: list[float], message: str) -> None:
    with pytest.raises(DataError, match=message):
        from_object(networkx.path_graph(3), labels=labels, name="mine")
    assert from_object(networkx.path_graph(3), labels=[[0], [1], [1]]).labels.tolist() == [0, 1, 1]


def test_masks_of_objects_do_not_overlap() -> None:
    data = SimpleNamespace(num_nodes=3, x=torch.eye(3), y=torch.tensor([0, 1, 1]), edge_index=torch.tensor([[0], [1]]))
    data.train_mask = data.val_mask = data.test_mask = torch.tensor([True, False, True])
    with pytest.raises(DataError, match="graph: 2 nodes are in train and valid, 0 for instance"):
        from_object(data)
    data.val_mask, data.test_mask = torch.tensor([False, True, False]), torch.tensor([False] * 5 + [True])
    with pytest.raises(DataError, match="graph: the test split runs from node 5 to 5, and nodes are numbered 0 to 2"):
        from_object(data)


def test_every_public_file_has_an_address_and_a_sha256() -> None:
    for name in ("cora", "citeseer"):
        files = CATALOGUE[name].files
        assert len(files) == 8
        assert all(file.url.endswith(f"ind.{name}.{part}") and len(file.sha256) == 64 for part, file in files.items())


def test_a_graph_that_was_read_to_predict_can_be_trained_on() -> None:
    data_module._read_named.cache_clear()
    with torch.inference_mode():
        read_graph("karate")
    data = read_graph("karate")
    logits = torch.zeros(len(data.labels), len(data.classes), requires_grad=True)
    nodes = data.splits["train"]
    functional.cross_entropy(logits[nodes], data.labels[nodes]).backward()
    assert logits.grad is not None
