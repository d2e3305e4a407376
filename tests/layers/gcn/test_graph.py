"""A graph is built as it should be from whatever it is given, and each normalisation does what its name says."""

import networkx  # type: ignore[import-untyped]
import pytest
import scipy.sparse  # type: ignore[import-untyped]
import torch
from tests.layers.gcn.graphs import dense, drawn, star

from porism.layers.check import relative_error
from porism.layers.gcn import Graph, GraphConvolution, naive
from porism.layers.gcn.csr import Csr
from porism.layers.gcn.graph import Outline
from porism.layers.gcn.normalise import NORMALISATIONS

EXACT = 1e-12
SIZES = (1, 2, 7, 63, 257)
UNDIRECTED = torch.tensor([[0, 1, 1, 2, 2, 0], [1, 0, 2, 1, 0, 2]])


def undirected(N: int) -> tuple[torch.Tensor, torch.Tensor]:
    edges, weights = drawn(N)
    assert weights is not None
    return torch.cat([edges, edges.flip(0)], 1), torch.cat([weights, weights])


@pytest.mark.parametrize("N", SIZES)
@pytest.mark.parametrize("normalisation", NORMALISATIONS)
@pytest.mark.parametrize("self_loops", [True, False], ids=["loops", "no loops"])
def test_matrix_equals_the_oracle(N: int, normalisation: str, self_loops: bool) -> None:
    for weighted in (True, False):
        edges, weights = drawn(N, weighted)
        graph = Graph.from_edges(edges, N, weights)
        wanted = dense(edges, N, weights, normalisation, self_loops)
        propagation = graph.propagation(normalisation, self_loops, torch.float64)
        assert relative_error(propagation.there.to_dense(N), wanted) <= EXACT
        assert relative_error(propagation.back.to_dense(N), wanted.T) <= EXACT
        assert propagation.there.stored == int(naive.is_edge(edges, N, self_loops).sum())


@pytest.mark.parametrize("N", SIZES)
@pytest.mark.parametrize("normalisation", ["row", "softmax"])
def test_rows_sum_to_one(N: int, normalisation: str) -> None:
    sums = Graph.from_edges(*drawn(N)[:1], N, drawn(N)[1]).dense(normalisation, dtype=torch.float64).sum(1)
    assert (sums - 1).abs().max() <= 1e-15 * N


@pytest.mark.parametrize("leaves", [1, 7, 1000])
def test_symmetric_rows_do_not_sum_to_one_at_a_hub(leaves: int) -> None:
    """The hub has degree n + 1, a leaf 2: its row sums to 1 / (n + 1) + n / sqrt(2 (n + 1))."""
    values = star(leaves).propagation(dtype=torch.float64).there.values
    hub = float(values[: leaves + 1].sum())
    assert hub == pytest.approx(1 / (leaves + 1) + leaves / (2 * (leaves + 1)) ** 0.5, rel=1e-12)
    if leaves == 1000:
        assert round(hub, 1) == 22.4


def test_symmetric_rows_sum_to_one_on_a_regular_graph() -> None:
    assert Graph.from_edges(UNDIRECTED).dense(dtype=torch.float64).sum(1) == pytest.approx([1.0] * 3)


@pytest.mark.parametrize("N", SIZES)
def test_symmetric_spectrum_lies_between_minus_one_and_one(N: int) -> None:
    edges, weights = undirected(N)
    eigenvalues = torch.linalg.eigvalsh(Graph.from_edges(edges, N, weights).dense(dtype=torch.float64))
    assert eigenvalues.max() == pytest.approx(1.0, abs=EXACT)
    assert eigenvalues.min() > -1


@pytest.mark.parametrize("N", SIZES)
@pytest.mark.parametrize("self_loops", [True, False], ids=["loops", "no loops"])
def test_softmax_equals_row_where_no_edge_has_a_weight(N: int, self_loops: bool) -> None:
    # A pair that is there twice would have the weight 2.
    edges = drawn(N)[0].unique(dim=1)
    row, softmax = (Graph.from_edges(edges, N).dense(name, self_loops, torch.float64) for name in ("row", "softmax"))
    assert relative_error(softmax, row) <= EXACT


def test_softmax_of_great_weights_stays_finite() -> None:
    graph = Graph.from_edges(torch.tensor([[0, 1], [1, 1]]), weights=torch.tensor([1000.0, 999.0]))
    assert graph.dense("softmax")[1].tolist() == pytest.approx(torch.tensor([1.0, 0.0]).softmax(0).tolist())


def test_a_loop_that_is_there_is_not_doubled() -> None:
    looped = Graph.from_edges(torch.tensor([[0, 1, 0], [0, 0, 1]]), weights=torch.tensor([5.0, 2.0, 3.0]))
    assert looped.dense("none").tolist() == [[5.0, 2.0], [3.0, 1.0]]
    assert looped.dense("none", self_loops=False).tolist() == [[5.0, 2.0], [3.0, 0.0]]


def test_edges_that_come_twice_add_up() -> None:
    twice = torch.tensor([[0, 0, 1], [1, 1, 0]])
    assert Graph.from_edges(twice).dense("none", self_loops=False).tolist() == [[0.0, 1.0], [2.0, 0.0]]
    weighted = Graph.from_edges(twice, weights=torch.tensor([0.5, 0.25, 4.0]))
    assert weighted.dense("none", self_loops=False).tolist() == [[0.0, 4.0], [0.75, 0.0]]
    assert weighted.edges == 2


@pytest.mark.parametrize("normalisation", NORMALISATIONS)
def test_who_hears_nobody_gets_nothing(normalisation: str) -> None:
    edges = torch.tensor([[0], [1]])
    graph = Graph.from_edges(edges, nodes=3)
    assert graph.dense(normalisation, self_loops=False)[[0, 2]].abs().sum() == 0
    assert graph.dense(normalisation)[2].tolist() == [0.0, 0.0, 1.0]
    assert Graph.from_edges(edges[:, :0], nodes=3).dense(normalisation).tolist() == torch.eye(3).tolist()


def test_weights_of_zero_are_no_division_by_zero() -> None:
    graph = Graph.from_edges(torch.tensor([[0], [1]]), weights=torch.zeros(1))
    for normalisation in ("row", "symmetric"):
        assert graph.dense(normalisation, self_loops=False).tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_an_undirected_graph_holds_its_matrix_once() -> None:
    graph = Graph.from_edges(*undirected(63)[:1], 63)
    there, back = graph.propagation("symmetric")
    assert all(a is b for a, b in zip(there, back, strict=True))
    there, back = graph.propagation("row")
    assert there.columns is back.columns
    assert there.values is not back.values


def test_matrices_are_built_once() -> None:
    graph = Graph.from_edges(UNDIRECTED)
    assert graph.propagation("row") is graph.propagation("row", dtype=torch.bfloat16)
    assert graph.propagation("row") is not graph.propagation("row", dtype=torch.float64)


def test_from_scipy_spreads_as_the_matrix_does() -> None:
    matrix = scipy.sparse.random_array((7, 7), density=0.4, rng=0, format="csr")
    graph = Graph.from_scipy(matrix)
    wanted = torch.as_tensor(matrix.toarray())
    assert relative_error(graph.dense("none", self_loops=False, dtype=torch.float64), wanted) <= EXACT


@pytest.mark.parametrize("kind", [networkx.Graph, networkx.DiGraph])
def test_from_networkx_knows_nodes_by_their_names(kind: type) -> None:
    named = kind()
    named.add_nodes_from(["c", "b", "a"])
    named.add_edge("c", "a", weight=2.0)
    named.add_edge("b", "b")
    wanted = torch.zeros(3, 3)
    wanted[2, 0], wanted[1, 1] = 2.0, 1.0  # a hears c
    wanted[0, 2] = 0.0 if named.is_directed() else 2.0
    assert Graph.from_networkx(named).dense("none", self_loops=False).tolist() == wanted.tolist()


def test_to_takes_along_what_was_built() -> None:
    graph = Graph.from_edges(*undirected(7)[:1], 7)
    there, _ = graph.propagation("symmetric")
    graph.propagation("row")
    assert graph.to("cpu") is graph
    moved = graph.to("meta")
    assert moved.device.type == "meta"
    assert moved.propagation("symmetric").there.values.shape == there.values.shape
    assert moved.propagation("symmetric").back is moved.propagation("symmetric").there
    assert moved.propagation("row").back.values.is_meta


def test_a_matrix_of_rows_is_what_it_says() -> None:
    matrix = Csr(torch.tensor([0, 0, 2]), torch.tensor([2, 0]).int(), torch.tensor([1.0, 2.0]))
    assert (matrix.height, matrix.stored) == (2, 2)
    assert matrix.to_dense(3).tolist() == [[0.0, 0.0, 0.0], [2.0, 0.0, 1.0]]


def test_an_outline_can_be_gone_through() -> None:
    """Sizes are all that is known of it, and none of its memory is left to chance."""
    outline = Outline(63, 400)
    x = torch.randn(63, 5, requires_grad=True)
    y = GraphConvolution(5, 4)(x, outline)
    y.sum().backward()
    assert torch.equal(y, torch.zeros(63, 4))
    assert all(part.count_nonzero() == 0 for part in outline.propagation().there)
