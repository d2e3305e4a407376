"""GCN and APPNP: dropout that keeps features sparse, the limit of propagation, the consistency loss."""

import numpy as np
import pytest
import torch
from tests.tasks.graphs.conftest import Writer
from torch import Tensor

from porism.costing.breakdown import REST, terms_of
from porism.costing.cost import Cost
from porism.costing.counting.count import count
from porism.errors import DataError, RecipeError
from porism.layers.gcn import Graph, Propagated, SparseFeatures
from porism.runs.recipe import override
from porism.tasks.graphs.data import load_graph
from porism.tasks.graphs.data.labelled_graph import row_normalised
from porism.tasks.graphs.model.base import consistency_loss
from porism.tasks.graphs.model.build import build
from porism.tasks.graphs.model.cost import subject, subject_on_dense
from porism.tasks.graphs.recipes import RECIPES
from porism.tasks.graphs.task import Graphs
from porism.training.loop import answering
from porism.training.recipe_cost import run_cost

N, D, V = 9, 6, 3


@pytest.fixture
def graph() -> Graph:
    edges = torch.randint(N, (2, 20), generator=torch.Generator().manual_seed(0))
    return Graph(torch.cat([edges, edges.flip(0)], 1), num_nodes=N)


@pytest.fixture
def x() -> Tensor:
    return torch.randn(N, D, generator=torch.Generator().manual_seed(1)).relu()


@pytest.mark.parametrize("name", ["kipf", "best"])
def test_sparse_and_dense_features_give_the_same_logits(name: str, graph: Graph, x: Tensor) -> None:
    net = build(RECIPES[name], D, V).eval()
    assert torch.allclose(net(x, graph), net(SparseFeatures.from_dense(x), graph), atol=1e-6)


def test_dropped_sparse_features_stay_sparse(x: Tensor) -> None:
    net, sparse = build(RECIPES["kipf"], D, V).train(), SparseFeatures.from_dense(x)
    dropped = net.drop_features(sparse)
    assert isinstance(dropped, SparseFeatures)
    assert dropped.there.stored == sparse.there.stored
    assert 0 < int((dropped.there.values == 0).sum()) < sparse.there.stored


def test_features_without_dropout_are_propagated_once(graph: Graph, x: Tensor) -> None:
    net = build(override(RECIPES["kipf"], ["input_dropout=0"]), D, V).eval()
    prepared = net.prepare(x, graph)
    assert isinstance(prepared, Propagated)
    assert torch.allclose(net(prepared, graph), net(x, graph), atol=1e-6)
    assert net.prepare(SparseFeatures.from_dense(x), graph) is not prepared
    assert build(RECIPES["kipf"], D, V).prepare(x, graph) is x


def test_appnp_converges_to_its_limit(graph: Graph, x: Tensor) -> None:
    # z = a (I - (1 - a) Ahat)^-1 z[0]
    recipe = override(RECIPES["best"], ["power_iterations=300", "teleport_probability=0.2"])
    net = build(recipe, D, V).double().eval()
    own = build(override(recipe, ["teleport_probability=1"]), D, V).double().eval()
    own.load_state_dict(net.state_dict())
    Ahat = graph.to_dense(dtype=torch.float64)
    expected = 0.2 * torch.linalg.solve(torch.eye(N).double() - 0.8 * Ahat, own(x.double(), graph))
    assert torch.allclose(net(x.double(), graph), expected)


@pytest.mark.parametrize("name", ["kipf", "best"])
def test_copies_are_passes_of_their_own(name: str, graph: Graph, x: Tensor) -> None:
    net = build(RECIPES[name], D, V)
    one, other = net.train().copies(x, graph, 2)
    assert one.shape == other.shape == (N, V)
    assert not torch.equal(one, other)
    for copy in net.eval().copies(x, graph, 3):
        assert torch.allclose(copy, net(x, graph), atol=1e-6)


def test_only_the_first_layer_decays(graph: Graph, x: Tensor) -> None:
    task = Graphs.load(override(RECIPES["kipf"], ["dropout=0", "input_dropout=0"]), None)
    net = task.build()
    batch = task.batches(1, 1)[0]
    plain = Graphs.load(override(task.recipe, ["first_layer_weight_decay=0"]), None)

    def gradients(of: Graphs) -> list[Tensor]:
        return list(torch.autograd.grad(of.loss(net, batch, {})[0], [*net.parameters()]))

    decayed, without = gradients(task), gradients(plain)
    names = [name for name, _ in net.named_parameters()]
    first = names.index("layers.0.lin.weight")
    weight = net.convolution(0).lin.weight
    assert torch.allclose(decayed[first] - without[first], 5e-4 * weight, atol=1e-7)
    assert all(torch.equal(decayed[i], without[i]) for i in range(len(names)) if i != first)


def test_certain_equal_copies_have_no_consistency_loss() -> None:
    sure, other = torch.tensor([[30.0, 0.0]]), torch.tensor([[0.0, 30.0]])
    assert float(consistency_loss([sure, sure], 0.5)) == pytest.approx(0, abs=1e-6)
    # Both are half a unit away from the middle in either of two directions.
    assert float(consistency_loss([sure, other], 0.5)) == pytest.approx(0.5)


def test_a_low_temperature_sharpens_the_mean() -> None:
    unsure = torch.tensor([[0.6, 0.4]]).log()
    q = 0.6**4 / (0.6**4 + 0.4**4)
    assert float(consistency_loss([unsure, unsure], 0.25)) == pytest.approx(2 * (0.6 - q) ** 2)


def test_rows_are_divided_by_their_sum(x: Tensor) -> None:
    dense, sparse = row_normalised(x), row_normalised(SparseFeatures.from_dense(x))
    assert isinstance(sparse, SparseFeatures)
    assert isinstance(dense, Tensor)
    assert torch.allclose(sparse.to_dense(), dense)
    sums = dense.sum(1)
    assert torch.allclose(sums[sums > 0], torch.ones(()))
    assert torch.equal(row_normalised(torch.zeros(2, 2)), torch.zeros(2, 2))  # type: ignore[arg-type]


@pytest.mark.parametrize("assignments", [[], ["hidden_size=5"], ["input_dropout=0"], ["model=appnp"]])
def test_on_dense_features_the_step_is_counted_that_runs(assignments: list[str], graph: Graph, x: Tensor) -> None:
    recipe = override(RECIPES["kipf"], ["hidden_size=2", *assignments])
    net = build(recipe, D, V)
    run = count(net, net.prepare(x, graph), graph)
    sizes = {
        "N": N,
        "E": graph.propagation().there.stored,
        "D": D,
        "H": recipe.hidden_size,
        "V": V,
        "K": recipe.power_iterations,
    }
    found = run_cost(recipe, subject_on_dense(recipe, sizes), sizes).at()
    assert [found.flops, found.backward_flops] == [run.flops, run.backward_flops]


def test_settings_that_exclude_each_other_are_refused() -> None:
    with pytest.raises(
        RecipeError, match="num_neighbors=5 samples neighbours in each layer, and model=appnp propagates after them"
    ):
        override(RECIPES["best"], ["num_neighbors=5"])
    with pytest.raises(
        RecipeError, match="consistency_weight=1 needs two forward passes or more, got num_augmentations=1"
    ):
        override(RECIPES["best"], ["num_augmentations=1"])


def test_a_graph_with_other_features_is_refused_by_its_name() -> None:
    task = Graphs.load(RECIPES["gcn"], None)
    with pytest.raises(DataError, match="partition: nodes have 900 features, and the model was trained on 34."):
        task.predict(task.build().eval(), ["partition"], {})


@pytest.mark.parametrize("assignments", [["input_dropout=0"], ["normalization=rw"], ["model=appnp"]])
def test_what_was_looked_at_can_still_be_trained(npz: Writer, assignments: list[str]) -> None:
    masks = {f"{split}_mask": np.arange(3) == place for place, split in enumerate(("train", "valid", "test"))}
    task = Graphs.load(override(RECIPES["kipf"], assignments), str(npz(**masks)))
    net = task.build()
    with answering(net):
        task.evaluate(net, "valid")
        task.exhibits(net)
    loss, _ = task.loss(net, task.batches(1, 1)[0], {})
    loss.backward()
    assert all(parameter.grad is not None for parameter in net.parameters())


def test_published_numbers_stand_beside_the_published_recipe_alone() -> None:
    assert Graphs.load(RECIPES["kipf"], None).published() == {}


def test_the_limit_of_a_partition_is_told() -> None:
    task = Graphs.load(RECIPES["kipf"], "partition")
    assert task.limit()["test"]["accuracy"] == load_graph("partition").limits["test"]
    assert task.facts()["signal over the detection threshold"] > 1  # type: ignore[operator]
    assert task.facts()["split"] == "10 labels a group 30/217/653"


def test_layers_come_to_the_whole_cost_in_every_branch_of_it() -> None:
    """A layer multiplies in the cheaper order: its formula has branches, which cancel in what no layer does."""
    recipe = RECIPES["kipf"]
    cost = run_cost(recipe, subject(recipe), {"N": 34, "E": 156, "M": 34, "D": 34, "V": 2, "H": 16})
    assert isinstance(cost, Cost)
    assert REST not in terms_of(cost).flops
    assert REST not in terms_of(cost).backward_flops
