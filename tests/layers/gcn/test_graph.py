"""A graph is built as it should be from whatever it is given, and each normalization does what its name says."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import networkx  # type: ignore[import-untyped]
import numpy as np
import pytest
import torch
from tests import needs
from tests.layers.gcn.graphs import dense, drawn, star

from porism.errors import ShapeError
from porism.layers.gcn import Graph, GraphConvolution, SparseFeatures, naive
from porism.layers.gcn.adjacency.csr import Csr
from porism.layers.gcn.adjacency.normalize import NORMALIZATIONS, Normalization
from porism.layers.gcn.adjacency.propagations import Propagation
from porism.layers.gcn.graph import Outline
from porism.testing.gradients import relative_error

scipy = needs.lazy("scipy")

EXACT = 1e-12
SIZES = (1, 2, 7, 63, 257)
UNDIRECTED = torch.tensor([[0, 1, 1, 2, 2, 0], [1, 0, 2, 1, 0, 2]])


def undirected(N: int) -> tuple[torch.Tensor, torch.Tensor]:
    edges, weights = drawn(N)
    assert weights is not None
    return torch.cat([edges, edges.flip(0)], 1), torch.cat([weights, weights])


@pytest.mark.parametrize("N", SIZES)
@pytest.mark.parametrize("normalization", NORMALIZATIONS)
@pytest.mark.parametrize("self_loops", [True, False], ids=["loops", "no loops"])
def test_matrix_equals_the_oracle(N: int, normalization: str, self_loops: bool) -> None:
    for weighted in (True, False):
        edges, weights = drawn(N, weighted)
        graph = Graph(edges, weights, num_nodes=N)
        expected = dense(edges, N, weights, normalization, self_loops)
        propagation = graph.propagation(normalization, self_loops, torch.float64)
        assert relative_error(propagation.there.to_dense(N), expected) <= EXACT
        assert relative_error(propagation.back.to_dense(N), expected.T) <= EXACT
        assert propagation.there.stored == int(naive.is_edge(edges, N, self_loops).sum())


@pytest.mark.parametrize("N", SIZES)
@pytest.mark.parametrize("normalization", ["rw", "softmax"])
def test_rows_sum_to_one(N: int, normalization: str) -> None:
    sums = (
        Graph(*drawn(N)[:1], edge_weight=drawn(N)[1], num_nodes=N).to_dense(normalization, dtype=torch.float64).sum(1)
    )
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
    assert Graph(UNDIRECTED).to_dense(dtype=torch.float64).sum(1) == pytest.approx([1.0] * 3)


@pytest.mark.parametrize("N", SIZES)
def test_symmetric_spectrum_lies_between_minus_one_and_one(N: int) -> None:
    edges, weights = undirected(N)
    eigenvalues = torch.linalg.eigvalsh(Graph(edges, weights, num_nodes=N).to_dense(dtype=torch.float64))
    assert eigenvalues.max() == pytest.approx(1.0, abs=EXACT)
    assert eigenvalues.min() > -1


@pytest.mark.parametrize("N", SIZES)
@pytest.mark.parametrize("self_loops", [True, False], ids=["loops", "no loops"])
def test_softmax_equals_row_where_no_edge_has_a_weight(N: int, self_loops: bool) -> None:
    # A pair that is there twice would have the weight 2.
    edges = drawn(N)[0].unique(dim=1)
    row, softmax = (Graph(edges, num_nodes=N).to_dense(name, self_loops, torch.float64) for name in ("rw", "softmax"))
    assert relative_error(softmax, row) <= EXACT


def test_softmax_of_great_weights_stays_finite() -> None:
    graph = Graph(torch.tensor([[0, 1], [1, 1]]), torch.tensor([1000.0, 999.0]))
    assert graph.to_dense("softmax")[1].tolist() == pytest.approx(torch.tensor([1.0, 0.0]).softmax(0).tolist())


def test_a_loop_that_is_there_is_not_doubled() -> None:
    looped = Graph(torch.tensor([[0, 1, 0], [0, 0, 1]]), torch.tensor([5.0, 2.0, 3.0]))
    assert looped.to_dense("none").tolist() == [[5.0, 2.0], [3.0, 1.0]]
    assert looped.to_dense("none", add_self_loops=False).tolist() == [[5.0, 2.0], [3.0, 0.0]]


def test_edges_that_come_twice_add_up() -> None:
    twice = torch.tensor([[0, 0, 1], [1, 1, 0]])
    assert Graph(twice).to_dense("none", add_self_loops=False).tolist() == [[0.0, 1.0], [2.0, 0.0]]
    weighted = Graph(twice, torch.tensor([0.5, 0.25, 4.0]))
    assert weighted.to_dense("none", add_self_loops=False).tolist() == [[0.0, 4.0], [0.75, 0.0]]
    assert weighted.num_edges == 2


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_a_node_without_neighbors_has_a_row_of_zeros(normalization: str) -> None:
    edges = torch.tensor([[0], [1]])
    graph = Graph(edges, num_nodes=3)
    assert graph.to_dense(normalization, add_self_loops=False)[[0, 2]].abs().sum() == 0
    assert graph.to_dense(normalization)[2].tolist() == [0.0, 0.0, 1.0]
    assert Graph(edges[:, :0], num_nodes=3).to_dense(normalization).tolist() == torch.eye(3).tolist()


def test_weights_of_zero_are_no_division_by_zero() -> None:
    graph = Graph(torch.tensor([[0], [1]]), torch.zeros(1))
    for normalization in ("rw", "sym"):
        assert graph.to_dense(normalization, add_self_loops=False).tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_an_undirected_graph_holds_its_matrix_once() -> None:
    graph = Graph(*undirected(63)[:1], num_nodes=63)
    there, back = graph.propagation("sym")
    assert all(a is b for a, b in zip(there, back, strict=True))
    there, back = graph.propagation("rw")
    assert there.columns is back.columns
    assert there.values is not back.values


def test_matrices_are_built_once() -> None:
    graph = Graph(UNDIRECTED)
    assert graph.propagation("rw") is graph.propagation("rw", dtype=torch.bfloat16)
    assert graph.propagation("rw") is not graph.propagation("rw", dtype=torch.float64)


def test_from_scipy_spreads_as_the_matrix_does() -> None:
    matrix = scipy.sparse.random_array((7, 7), density=0.4, rng=0, format="csr")
    graph = Graph.from_scipy(matrix)
    expected = torch.as_tensor(matrix.toarray())
    assert relative_error(graph.to_dense("none", add_self_loops=False, dtype=torch.float64), expected) <= EXACT


def of_the_zeros_of(dense: np.ndarray[Any, Any], normalization: str, self_loops: bool) -> torch.Tensor:
    """Ahat of a matrix in which a zero is no edge, by the oracle."""
    A, is_edge = torch.as_tensor(dense, dtype=torch.float64), torch.as_tensor(dense != 0)
    if self_loops:
        lacking = ~is_edge.diagonal()
        A, is_edge = A + torch.diag(lacking.double()), is_edge | torch.diag(lacking)
    return naive.normalized(A, is_edge, normalization)


def test_the_diagonal_that_setdiag_took_out_is_that_of_a_matrix_without_loops() -> None:
    matrix = scipy.sparse.csr_matrix(np.array([[1.0, 1, 0], [1, 1, 1], [0, 1, 1]]))
    matrix.setdiag(0)
    assert matrix.nnz == 7
    graph = Graph.from_scipy(matrix)
    assert graph.to_dense("none").tolist() == [[1.0, 1.0, 0.0], [1.0, 1.0, 1.0], [0.0, 1.0, 1.0]]
    assert graph.num_edges == 4
    assert matrix.nnz == 7


@pytest.mark.sweep(3, each="form")
@pytest.mark.parametrize("form", ["csr", "csc", "coo", "bsr", "lil", "dok", "dia"])
@pytest.mark.parametrize("normalization", NORMALIZATIONS)
@pytest.mark.parametrize("self_loops", [True, False], ids=["loops", "no loops"])
def test_from_scipy_means_what_the_dense_matrix_means(form: str, normalization: str, self_loops: bool) -> None:
    """Stored zeros on the diagonal and off it, entries that are there twice and may cancel, unsorted columns."""
    draw = np.random.default_rng(0)
    for N in (1, 2, 7, 12):
        rows, columns = draw.integers(N, size=(2, 4 * N))
        values = draw.integers(0, 3, 4 * N).astype(float)
        matrix = scipy.sparse.coo_array((values, (rows, columns)), shape=(N, N)).asformat(form)
        if form == "csr":
            matrix.data[:2], matrix.has_sorted_indices = 0.0, False
        expected = of_the_zeros_of(matrix.toarray(), normalization, self_loops)
        for given in (matrix, matrix.astype(np.float32), matrix.astype(np.int8)):
            actual = Graph.from_scipy(given).to_dense(normalization, self_loops, torch.float64)
            assert relative_error(actual, expected) <= EXACT


def test_entries_of_scipy_that_cancel_are_no_edge_and_small_whole_numbers_do_not_run_over() -> None:
    twice = scipy.sparse.coo_array(([1, -1, 100, 100], ([0, 0, 1, 1], [1, 1, 0, 0])), shape=(2, 2), dtype=np.int8)
    graph = Graph.from_scipy(twice)
    assert graph.num_edges == 1
    assert graph.to_dense("none", add_self_loops=False).tolist() == [[0.0, 0.0], [200.0, 0.0]]


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_an_edge_that_is_listed_is_an_edge_whatever_its_weight(normalization: str) -> None:
    """A loop of weight 0 is a loop, so none is added; softmax counts an edge of weight 0 with e^0."""
    edges, weights = torch.tensor([[0, 1, 0, 2], [1, 0, 0, 1]]), torch.tensor([0.0, 2.0, 0.0, 1.0])
    expected = dense(edges, 3, weights, normalization)
    if normalization == "none":
        assert expected.tolist() == [[0.0, 2.0, 0.0], [0.0, 1.0, 1.0], [0.0, 0.0, 1.0]]
    if normalization == "softmax":
        assert expected[1, 0] > 0
    named = networkx.DiGraph()
    named.add_nodes_from(range(3))
    named.add_weighted_edges_from((*edge, weight) for edge, weight in zip(edges.T.tolist(), weights, strict=True))
    data = SimpleNamespace(edge_index=edges, edge_weight=weights, num_nodes=3)
    for graph in (Graph(edges, weights, num_nodes=3), Graph.from_networkx(named), Graph.from_data(data)):
        assert graph.num_edges == 4
        assert relative_error(graph.to_dense(normalization, dtype=torch.float64), expected) <= EXACT


DAMAGE: dict[str, Callable[[Any], Any]] = {
    "a column beyond": lambda matrix: matrix.indices.__setitem__(1, 40_000_000),
    "a column below": lambda matrix: matrix.indices.__setitem__(1, -1),
    "a start beyond": lambda matrix: matrix.indptr.__setitem__(2, 10**6),
    "starts that fall": lambda matrix: matrix.indptr.__setitem__(3, 0),
    "an end beyond": lambda matrix: matrix.indptr.__setitem__(-1, 10**6),
    "a start below": lambda matrix: matrix.indptr.__setitem__(0, -1),
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("form", ["csr", "csc"])
def test_a_damaged_matrix_of_scipy_is_refused(damage: str, form: str) -> None:
    matrix = scipy.sparse.random_array((7, 7), density=0.4, rng=0, format=form)
    DAMAGE[damage](matrix)
    for make in (Graph.from_scipy, SparseFeatures.from_scipy):
        with pytest.raises(ShapeError, match=r"the matrix is damaged: .*\. Make a new one\."):
            make(matrix)


@pytest.mark.parametrize("place", [-1, 7])
def test_damaged_coordinates_of_scipy_are_refused(place: int) -> None:
    for axis in (0, 1):
        matrix = scipy.sparse.random_array((7, 7), density=0.4, rng=0, format="coo")
        matrix.coords[axis][1] = place
        for make in (Graph.from_scipy, SparseFeatures.from_scipy):
            with pytest.raises(ShapeError, match=r"the matrix is damaged: .*\. Make a new one\."):
                make(matrix)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.uint16, torch.int32, torch.uint32])
def test_nodes_may_be_numbered_in_any_whole_numbers(dtype: torch.dtype) -> None:
    actual = Graph(UNDIRECTED.to(dtype))
    assert torch.equal(actual.to_dense(), Graph(UNDIRECTED).to_dense())


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_weights_below_zero_are_taken_where_they_leave_something_to_divide_by(normalization: str) -> None:
    edges, weights = torch.tensor([[0, 1, 2], [2, 2, 0]]), torch.tensor([-0.5, 2.0, -0.25])
    actual = Graph(edges, weights, num_nodes=3).to_dense(normalization, dtype=torch.float64)
    assert relative_error(actual, dense(edges, 3, weights, normalization)) <= EXACT


@pytest.mark.parametrize("normalization", ["rw", "sym"])
@pytest.mark.parametrize("weights", [(-2.0, 1.0, 0.5), (1.0, -0.5, -0.5), (0.1, 0.2, -0.3)], ids=str)
def test_weights_that_leave_nothing_to_divide_by_are_refused(
    normalization: str, weights: tuple[float, float, float]
) -> None:
    """0.1 + 0.2 - 0.3 is what rounding leaves of it, and no sum."""
    edges = torch.tensor([[0, 1, 2], [3, 3, 3]])
    graph = Graph(edges, torch.tensor(weights, dtype=torch.float64), num_nodes=4)
    with pytest.raises(
        ShapeError, match=f"the weights of the edges to node 3 sum to .*, and {normalization} divides by"
    ):
        graph.propagation(normalization, add_self_loops=False)


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_weights_beyond_the_numbers_they_are_kept_in_are_refused_or_right(normalization: str) -> None:
    edges = torch.tensor([[0, 1, 0], [2, 2, 1]])
    graph = Graph(edges, torch.tensor([1.5e308, 1.5e308, 1e-320], dtype=torch.float64), num_nodes=3)
    if normalization == "softmax":
        assert graph.to_dense(normalization).isfinite().all()
    else:
        with pytest.raises(ShapeError, match="sum to inf|makes inf of the weight"):
            graph.to_dense(normalization)


def test_weights_that_are_all_one_are_those_that_are_left_out() -> None:
    graph = Graph(UNDIRECTED, torch.ones(6))
    assert graph.neighbors().weights is None
    assert torch.equal(graph.digest, Graph(UNDIRECTED.flip(1)).digest)


def test_a_digest_tells_graphs_apart() -> None:
    same = torch.tensor([[0, 1], [1, 0]])
    different = [
        Graph(same),
        Graph(same, num_nodes=3),
        Graph(same, torch.tensor([1.0, 2.0])),
        Graph(same, torch.tensor([2.0, 1.0])),
        Graph(same[:, :1], num_nodes=2),
        Graph(torch.tensor([[0, 1, 0], [1, 0, 0]])),
    ]
    assert len({tuple(graph.digest.tolist()) for graph in different}) == len(different)


@pytest.mark.parametrize("kind", [networkx.Graph, networkx.DiGraph])
def test_from_networkx_knows_nodes_by_their_names(kind: type) -> None:
    named = kind()
    named.add_nodes_from(["c", "b", "a"])
    named.add_edge("c", "a", weight=2.0)
    named.add_edge("b", "b")
    expected = torch.zeros(3, 3)
    expected[2, 0], expected[1, 1] = 2.0, 1.0  # c -> a
    expected[0, 2] = 0.0 if named.is_directed() else 2.0
    assert Graph.from_networkx(named).to_dense("none", add_self_loops=False).tolist() == expected.tolist()


def test_to_takes_along_what_was_built() -> None:
    graph = Graph(*undirected(7)[:1], num_nodes=7)
    there, _ = graph.propagation("sym")
    graph.propagation("rw")
    assert graph.to("cpu") is graph
    moved = graph.to("meta")
    assert moved.device.type == "meta"
    assert moved.propagation("sym").there.values.shape == there.values.shape
    assert moved.propagation("sym").back is moved.propagation("sym").there
    assert moved.propagation("rw").back.values.is_meta


def test_a_graph_with_matrices_of_its_own_is_not_moved_without_them() -> None:
    class Drawn(Graph):
        def normalized(self, how: Normalization, dtype: torch.dtype) -> Propagation:
            matrix = Csr(*super().normalized(how, dtype).there)
            return Propagation(matrix, matrix)

    graph = Drawn.from_neighbors(Graph(UNDIRECTED).neighbors(add_self_loops=False))
    assert graph.to("cpu") is graph
    with pytest.raises(ShapeError, match="a Drawn has matrices that are not made of its edges"):
        graph.to("meta")


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
    assert all(part.count_nonzero() == 0 for part in outline.propagation().there[1:])
    assert isinstance(outline.to("meta"), Outline)
