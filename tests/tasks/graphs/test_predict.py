"""Labels for new graphs and for single nodes."""

import numpy as np
import pytest
import torch
from tests.tasks.graphs.conftest import Writer

from porism.errors import DataError, RecipeError
from porism.tasks.graphs.model.base import GraphModel
from porism.tasks.graphs.recipes import RECIPES
from porism.tasks.graphs.task import Graphs

Trained = tuple[Graphs, GraphModel]
MASKS = {f"{split}_mask": np.arange(3) == place for place, split in enumerate(("train", "valid", "test"))}


@pytest.fixture
def trained(npz: Writer) -> Trained:
    task = Graphs.load(RECIPES["gcn"], str(npz(class_names=np.array(["red", "blue"]), **MASKS)))
    net = task.build().eval()
    with torch.no_grad():  # says blue of every node
        for parameter in net.parameters():
            parameter.zero_()
        last = net.convolution(-1).bias
        assert last is not None
        last[1] = 3.0
    return task, net


def test_every_node_of_a_new_graph_gets_a_label(trained: Trained, npz: Writer) -> None:
    task, net = trained
    path = str(npz(labels=None, features=np.ones((9, 2))))
    (sample,) = Graphs.restore(task.recipe, task.assets()).predict(net, [path], {})
    assert sample.prompt == path
    assert sample.output == "-> 9 nodes: 9 blue"
    assert sample.notes == (
        "; ".join(f"node {node}: blue" for node in range(8)) + "; and 1 more, all of them in the details (--json)",
    )
    assert sample.details["labels"] == ["blue"] * 9
    assert sample.details["probabilities"] == pytest.approx([1 / (1 + np.exp(-3))] * 9, abs=1e-6)


def test_where_the_labels_are_known_they_are_compared(trained: Trained, npz: Writer) -> None:
    task, net = trained
    (sample,) = task.predict(net, [str(npz(class_names=np.array(["blue", "red"]), labels=np.array([0, -1, 1])))], {})
    assert sample.notes[1] == "50.0% right of 2 with a label"


def test_a_node_of_the_graph_that_was_trained_on(trained: Trained) -> None:
    task, net = trained
    (sample,) = task.predict(net, ["0"], {})
    assert sample.output == "-> blue (95.3%)"
    assert sample.notes[0].startswith("it is red, of the train split")


@pytest.mark.parametrize("node", ["3", "-1", "99"])
def test_a_node_that_is_not_there(trained: Trained, node: str) -> None:
    task, net = trained
    with pytest.raises(DataError, match=rf"graph.npz has no node {node}. Its nodes are numbered 0 to 2."):
        task.predict(net, [node], {})


def test_a_training_graph_that_has_changed_is_not_taken_for_the_old_one(trained: Trained, npz: Writer) -> None:
    task, net = trained
    restored = Graphs.restore(task.recipe, task.assets())
    npz(class_names=np.array(["red", "blue"]), features=np.ones((3, 2)), **MASKS)
    with pytest.raises(DataError, match="graph.npz: no longer the graph of the training"):
        restored.predict(net, ["0"], {})


def test_there_are_no_options(trained: Trained) -> None:
    task, net = trained
    with pytest.raises(RecipeError, match="labelling nodes has no option 'temperature'. It takes none."):
        task.predict(net, ["0"], {"temperature": 1})


def test_a_digit_that_is_no_number_is_no_node(trained: Trained) -> None:
    task, net = trained
    with pytest.raises(DataError, match="²: no such file or folder, and no graph of that name"):
        task.predict(net, ["²"], {})


def test_a_new_graph_is_checked_as_the_first_was(trained: Trained, npz: Writer) -> None:
    task, net = trained
    with pytest.raises(DataError, match="graph.npz: 1 of 4 edges have a weight below 0"):
        task.predict(net, [str(npz(edge_weight=np.array([1.0, -1, 2, 3])))], {})
