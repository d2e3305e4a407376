"""Sampled parts: within the fan, right in the mean, and the whole where no neighbor is left out."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from porism.layers.gcn import Graph, SparseFeatures
from porism.layers.gcn.adjacency.propagations import Propagation
from porism.runs.recipe import override
from porism.tasks.graphs.data.sampling import NeighborBatch, NeighborBatches, NeighborSampling, sample
from porism.tasks.graphs.model.build import build
from porism.tasks.graphs.recipes import RECIPES
from porism.tasks.graphs.task import Graphs

NODES = 63


@pytest.fixture
def whole() -> Propagation:
    draw = torch.Generator().manual_seed(0)
    edges = torch.randint(NODES, (2, 400), generator=draw)
    whole: Propagation = Graph(edges, num_nodes=NODES).propagation("sym")
    return whole


def batches(whole: Propagation, features: Tensor | SparseFeatures, fan: int, batch: int = 7) -> NeighborBatches:
    labels = torch.arange(NODES) % 3
    sampling = NeighborSampling(passes=2, batch_size=batch, num_layers=2, num_neighbors=fan, seed=5)
    return NeighborBatches(whole, features, labels, torch.arange(20), sampling)


def test_a_part_holds_no_more_than_the_fan_and_the_node_itself(whole: Propagation) -> None:
    chosen = torch.tensor([5, 1, 40])
    nodes, matrix = sample(whole.there, chosen, layers=2, fan=3, generator=torch.Generator().manual_seed(1))
    assert nodes[:3].tolist() == [5, 1, 40]
    assert len(nodes.unique()) == len(nodes) <= 3 * (1 + 3 + 9)
    assert matrix.height == len(nodes)
    assert int(matrix.starts.diff().max()) <= 4
    dense, expected = matrix.to_dense(len(nodes)), whole.there.to_dense(NODES)[nodes][:, nodes]
    assert torch.equal(dense.diagonal(), expected.diagonal())
    assert ((dense > 0) <= (expected > 0)).all()


def test_a_sampled_sum_has_the_whole_sum_as_its_mean(whole: Propagation) -> None:
    x = torch.randn(NODES, generator=torch.Generator().manual_seed(2))
    chosen = torch.arange(10)
    sums = []
    for seed in range(400):
        nodes, matrix = sample(whole.there, chosen, layers=1, fan=2, generator=torch.Generator().manual_seed(seed))
        sums.append((matrix.to_dense(len(nodes)) @ x[nodes])[:10])
    found = torch.stack(sums)
    # Five deviations of a mean over 400 draws.
    scatter = 5 * found.std(0) / 400**0.5
    assert ((found.mean(0) - (whole.there.to_dense(NODES) @ x)[:10]).abs() <= scatter + 1e-6).all()


def test_rows_that_are_read_in_pieces_are_sampled_alike(whole: Propagation, monkeypatch: pytest.MonkeyPatch) -> None:
    features = torch.arange(NODES, dtype=torch.float32)[:, None]
    expected = list(batches(whole, features, fan=3))
    for block in (1, 5, 40):
        monkeypatch.setattr("porism.tasks.graphs.data.sampling.BLOCK", block)
        for one, other in zip(batches(whole, features, fan=3), expected, strict=True):
            assert all(map(torch.equal, one, other))


@pytest.mark.parametrize("sparse", [True, False])
def test_with_all_neighbours_a_part_says_what_the_whole_graph_says(whole: Propagation, sparse: bool) -> None:
    dense = torch.randn(NODES, 5, generator=torch.Generator().manual_seed(3)).relu()
    features = SparseFeatures.from_dense(dense) if sparse else dense
    torch.manual_seed(1)
    net = build(RECIPES["kipf"], 5, 3).eval()
    edges = torch.randint(NODES, (2, 400), generator=torch.Generator().manual_seed(0))
    expected = net(dense, Graph(edges, num_nodes=NODES))
    chosen = batches(whole, features, fan=10_000)
    for batch in chosen:
        sampled = NeighborBatch.of(batch)
        logits = net(sampled.x(5), sampled.graph())[: len(sampled.labels)]
        nearest = (logits[:, None] - expected[None]).abs().amax(2).min(1)
        assert nearest.values.max() < 1e-5
        assert torch.equal(sampled.labels, nearest.indices % 3)


def test_a_pass_meets_every_training_node_once_in_an_order_of_its_own(whole: Propagation) -> None:
    steps = batches(whole, torch.arange(NODES, dtype=torch.float32)[:, None], fan=2)
    assert len(steps) == 6
    met = [
        [int(node) for batch in steps[turn * 3 : turn * 3 + 3] for node in batch[7][: len(batch[0]), 0]]
        for turn in (0, 1)
    ]
    assert sorted(met[0]) == sorted(met[1]) == list(range(20))
    assert met[0] != met[1]


def test_the_sampled_recipe_learns_the_club() -> None:
    recipe = override(RECIPES["sampled"], ["num_neighbors=3", "check_val_every_n_epoch=5", "batch_size=1"])
    task = Graphs.load(recipe, None)
    torch.manual_seed(1)
    net = task.build()
    maker = torch.optim.Adam(net.parameters(), 0.01)
    for epoch in range(1, 16):
        for batch in task.batches(epoch, 1):
            maker.zero_grad()
            task.loss(net, batch, {})[0].backward()
            maker.step()
    assert task.evaluate(net.eval(), "test")["accuracy"] > 0.8


@pytest.mark.parametrize("fan", [2, 10_000])
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_parts_of_a_batch_have_its_logits_and_gradients(fan: int, layers: int) -> None:
    """In float64: the loss of all parts, weighed by their nodes, and its gradients are those of the batch."""
    recipe = override(RECIPES["kipf"], [f"num_layers={layers}", "dropout=0", "input_dropout=0"])
    draw = torch.Generator().manual_seed(0)
    graph = Graph(torch.randint(NODES, (2, 150), generator=draw), num_nodes=NODES)
    x = torch.randn(NODES, 5, generator=draw, dtype=torch.float64)
    there, back = graph.propagation("sym", dtype=torch.float64)
    sampling = NeighborSampling(passes=1, batch_size=7, num_layers=layers, num_neighbors=fan, seed=5)
    labels = torch.arange(NODES) % 3
    steps = NeighborBatches(Propagation(there, back), x, labels, torch.arange(20), sampling)
    torch.manual_seed(1)
    net = build(recipe, 5, 3).double()
    for batch in steps:
        whole = NeighborBatch.of(batch)
        parts = [whole.part(rank, 3, layers, 5) for rank in range(3)]
        found = []
        for some in ([whole], parts):
            losses = [total_loss(net(b.x(5), b.graph())[: len(b.labels)], b.labels) for b in some]
            found.append(with_gradients(torch.stack(losses).sum(), net))
        assert torch.equal(torch.cat([part.labels for part in parts]), whole.labels)
        for one, several in zip(*found, strict=True):
            assert torch.allclose(one, several, rtol=1e-12, atol=1e-12)
        if fan > NODES:
            features = whole.x(5)
            assert isinstance(features, Tensor)
            rows = torch.stack([(x == row).all(1).nonzero()[0, 0] for row in features[: len(whole.labels)]])
            expected = with_gradients(total_loss(net(x, graph)[rows], labels[rows]), net)
            for one, full in zip(found[0], expected, strict=True):
                assert torch.allclose(one, full, rtol=1e-6, atol=1e-6)


def total_loss(logits: Tensor, labels: Tensor) -> Tensor:
    return functional.cross_entropy(logits, labels, reduction="sum")


def with_gradients(loss: Tensor, net: nn.Module) -> list[Tensor]:
    net.zero_grad()
    loss.backward()
    return [loss.detach(), *(p.grad for p in net.parameters() if p.grad is not None)]
