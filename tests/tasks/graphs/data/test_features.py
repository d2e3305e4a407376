"""Features as a model reads them: as given, standardised over the training graph, or one-hot."""

from dataclasses import replace

import pytest
import torch
from tests.tasks.graphs.conftest import Writer

from porism.errors import DataError
from porism.layers.gcn import Graph, SparseFeatures
from porism.tasks.graphs.data import load_graph
from porism.tasks.graphs.data.features import FeatureScale
from porism.tasks.graphs.recipes import RECIPES, GraphRecipe
from porism.tasks.graphs.task import Graphs

NODES = "node,label,split,age,city\n" + "".join(
    f"p{n},{'red' if n % 2 else 'blue'},{split},{age},{city}\n"
    for n, (split, age, city) in enumerate(
        [
            ("train", 20, "Rome"),
            ("train", 60, "Oslo"),
            ("valid", 40, "Rome"),
            ("test", 30, "Rome"),
            ("test", 50, "Rome"),
        ]
    )
)
EDGES = "source,target\np0,p1\np1,p2\np2,p3\np3,p4\n"


def recipe(features: str = "auto") -> GraphRecipe:
    return replace(RECIPES["gcn"], features=features)  # type: ignore[arg-type]


def test_columns_of_ones_own_have_mean_zero_and_deviation_one(tables: Writer) -> None:
    task = Graphs.load(recipe(), str(tables(NODES, EDGES)))
    x = torch.as_tensor(task._features())
    assert torch.allclose(x.mean(0), torch.zeros(3), atol=1e-6)
    assert torch.allclose(x.std(0, correction=0), torch.ones(3), atol=1e-6)
    assert task.facts()["features"] == "3, standardised"
    again = Graphs.restore(task.recipe, task.assets())
    assert torch.equal(torch.as_tensor(again._features()), x)


def test_a_new_graph_is_scaled_as_the_first_was(tables: Writer, tmp_path_factory: pytest.TempPathFactory) -> None:
    task = Graphs.load(recipe(), str(tables(NODES, EDGES)))
    other = tmp_path_factory.mktemp("other")
    (other / "nodes.csv").write_text("node,city,age\nx,Oslo,40\n")
    (other / "edges.csv").write_text("source,target\n")
    scaled = task._scale
    assert scaled is not None
    net = task.build().eval()
    (answer,) = task.predict(net, [str(other)], {})
    assert answer.details["nodes"] == ["x"]
    # 40 is the mean age of the training graph, and one of five lived in Oslo.
    want = scaled(torch.tensor([[40.0, 1.0, 0.0]]))
    assert torch.allclose(torch.as_tensor(want), torch.tensor([[0.0, 2.0, -2.0]]), atol=1e-6)


@pytest.mark.parametrize("source", [None, "partition"])
def test_known_graphs_stay_as_they_are(source: str | None) -> None:
    assert Graphs.load(recipe(), source)._scale is None


def test_zeros_and_ones_stay_and_sparse_numbers_are_scaled_without_a_mean() -> None:
    dense = torch.zeros(4, 30)
    dense[0, 1], dense[1, 2], dense[2, 2] = 6.0, 1.0, 3.0
    scale = FeatureScale.of(SparseFeatures.from_dense(dense))
    assert scale.mean is None
    scaled = scale(SparseFeatures.from_dense(dense))
    assert isinstance(scaled, SparseFeatures)
    spread = dense.std(0, correction=0)
    assert torch.allclose(scaled.to_dense(), dense / torch.where(spread > 0, spread, 1))


def test_one_hot_nodes_on_request_know_the_training_graph_alone(tables: Writer) -> None:
    folder = str(tables(NODES, EDGES))
    task = Graphs.load(recipe("one-hot"), folder)
    assert task.width == load_graph(folder).graph.num_nodes == 5
    net = task.build().eval()
    assert task.predict(net, ["p3"], {})[0].notes == ("it is red, of the test split",)
    with pytest.raises(DataError, match="one-hot nodes, so it knows those of its training graph alone"):
        task.predict(net, [folder], {})


def test_nodes_answer_to_their_names_and_to_numbers_where_no_name_is_one(tables: Writer) -> None:
    task = Graphs.load(recipe(), str(tables(NODES, EDGES)))
    net = task.build().eval()
    by_name, by_number = task.predict(net, ["p3", "3"], {})
    assert by_name.output == by_number.output
    with pytest.raises(DataError, match=r"has no node 'p33', and there is no such file. Did you mean 'p3'\?"):
        task.predict(net, ["p33"], {})
    numbered = NODES.replace("\np", "\n"), EDGES.replace("p", "")
    task = Graphs.load(recipe(), str(tables(*numbered)))
    assert task.predict(net, ["1"], {})[0].notes[0].startswith("it is red")
    with pytest.raises(DataError, match="has no node '-1', and there is no such file"):
        task.predict(net, ["-1"], {})


@pytest.mark.parametrize("name", ["symmetric-no-loops", "row-no-loops"])
def test_without_self_loops_a_node_does_not_hear_itself(name: str) -> None:
    task = Graphs.load(RECIPES[name], None)
    net = task.build().eval()
    graph = task.data.graph
    assert isinstance(graph, Graph)
    Ahat = graph.to_dense(RECIPES[name].normalization, add_self_loops=False)
    assert (Ahat.diagonal() == 0).all()
    x = torch.randn(graph.num_nodes, task.width)
    first = net.convolution(0)
    assert first.bias is not None
    assert torch.allclose(first(x, graph), Ahat @ x @ first.lin.weight.T + first.bias, atol=1e-5)
    assert task.letters()["E"] == graph.num_edges
