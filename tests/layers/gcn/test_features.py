"""Sparse features are the dense ones without their zeros."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from tests import needs
from torch.autograd import forward_ad

from porism.errors import ShapeError
from porism.layers.gcn import Graph, GraphConvolution, SparseFeatures
from porism.testing.gradients import relative_error

scipy = needs.lazy("scipy")

P = 0.3


def drawn(N: int, D: int) -> torch.Tensor:
    draw = torch.Generator().manual_seed(0)
    return torch.randn(N, D, generator=draw) * (torch.rand(N, D, generator=draw) < 0.3)


@pytest.mark.parametrize(("N", "D"), [(1, 1), (2, 7), (63, 5), (7, 63)])
def test_dense_and_back(N: int, D: int) -> None:
    x = drawn(N, D)
    sparse = SparseFeatures.from_dense(x)
    assert sparse.shape == (N, D)
    assert torch.equal(sparse.to_dense(), x)
    assert torch.equal(sparse.back.to_dense(N), x.T)
    assert sparse.there.stored == int((x != 0).sum())


def test_from_scipy_adds_up_what_is_there_twice_and_leaves_its_matrix_alone() -> None:
    matrix = scipy.sparse.coo_matrix(([1.0, 2.0, 4.0], ([0, 0, 1], [1, 1, 0])), shape=(2, 3))
    assert SparseFeatures.from_scipy(matrix).to_dense().tolist() == [[0.0, 3.0, 0.0], [4.0, 0.0, 0.0]]
    assert matrix.nnz == 3


def test_from_scipy_stores_no_zero() -> None:
    matrix = scipy.sparse.csr_array(np.array([[1.0, 2.0], [0.0, 3.0]]))
    matrix.data[1] = 0.0
    x = SparseFeatures.from_scipy(matrix)
    assert x.there.stored == 2
    assert x.to_dense().tolist() == [[1.0, 0.0], [0.0, 3.0]]


def test_features_that_require_a_gradient_are_refused() -> None:
    """Given, not learned: their gradient would be lost without a word."""
    x = drawn(7, 5).requires_grad_()
    doubled, fixed = x * 2, SparseFeatures.from_dense(x.detach())
    values = fixed.there.values.clone().requires_grad_()
    makers: tuple[Callable[[], SparseFeatures], ...] = (
        lambda: SparseFeatures.from_dense(x),
        lambda: SparseFeatures.from_dense(doubled),
        lambda: fixed.with_values(values),
        lambda: SparseFeatures(fixed.there._replace(values=values), 5),
    )
    for make in makers:
        with torch.no_grad(), pytest.raises(ShapeError, match="requires? a gradient, which"):
            make()


# torch's forward mode calls what torch deprecates.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_features_with_a_tangent_are_refused() -> None:
    with forward_ad.dual_level(), pytest.raises(ShapeError, match="x requires a gradient"):
        SparseFeatures.from_dense(forward_ad.make_dual(drawn(7, 5), torch.ones(7, 5)))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_sums_of_rows_are_taken_in_float32_at_least(dtype: torch.dtype) -> None:
    """In bfloat16 a sum of ones stops at 256, in float16 at 2048."""
    ones = torch.ones(1, 3000, dtype=dtype)
    actual = SparseFeatures.from_dense(ones).row_normalised().to_dense()
    assert actual.dtype == dtype
    assert relative_error(actual.double(), torch.full((1, 3000), 1 / 3000).double()) <= 1e-2


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_features_of_any_precision_are_multiplied_as_dense_ones(dtype: torch.dtype) -> None:
    x, graph = drawn(7, 5).to(dtype), Graph(torch.tensor([[0, 1, 5], [1, 0, 6]]), num_nodes=7)
    layer = GraphConvolution(5, 3, dtype=dtype)
    actual, expected = layer(SparseFeatures.from_dense(x), graph), layer(x, graph)
    assert actual.dtype == dtype
    assert relative_error(actual.double(), expected.double()) <= (2e-2 if dtype.itemsize == 2 else 1e-5)
    actual.sum().backward()


def test_rows_are_divided_by_their_sums() -> None:
    x = torch.tensor([[1.0, 3.0], [0.0, 0.0], [0.0, 5.0]])
    expected = [[0.25, 0.75], [0.0, 0.0], [0.0, 1.0]]
    assert SparseFeatures.from_dense(x).row_normalised().to_dense().tolist() == expected


def test_dropout_drops_stored_entries_as_dense_dropout_would() -> None:
    torch.manual_seed(0)
    x = torch.ones(300, 200) * (torch.arange(200) % 2)
    dropped = SparseFeatures.from_dense(x).dropout(P).to_dense()
    assert dropped[:, ::2].abs().sum() == 0
    kept = dropped[:, 1::2]
    assert kept.unique().tolist() == pytest.approx([0.0, 1 / (1 - P)], rel=1e-4)
    # Three deviations of a mean of 30 000 draws.
    assert float((kept == 0).float().mean()) == pytest.approx(P, abs=3 * (P * (1 - P) / kept.numel()) ** 0.5)


def test_the_transposed_matrix_drops_the_same_entries() -> None:
    torch.manual_seed(0)
    dropped = SparseFeatures.from_dense(drawn(63, 17)).dropout(0.5)
    assert torch.equal(dropped.back.to_dense(63), dropped.to_dense().T)


def test_nothing_is_dropped_where_nothing_is_learned() -> None:
    x = SparseFeatures.from_dense(drawn(7, 5))
    assert x.dropout(0.5, training=False) is x
    assert x.dropout(0.0) is x


def test_another_type_and_device() -> None:
    x = SparseFeatures.from_dense(drawn(7, 5))
    assert x.to(dtype=torch.float64).dtype == torch.float64
    assert torch.equal(x.to(dtype=torch.float64).to_dense(), drawn(7, 5).double())
    moved = x.to("meta")
    assert moved.device.type == moved.back.values.device.type == "meta"
    assert repr(x) == f"SparseFeatures(7, 5, stored={x.there.stored})"
