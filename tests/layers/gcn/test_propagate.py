"""Every kernel of the sparse product gives the same numbers."""

import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests import needs
from tests.layers.gcn.graphs import drawn, star
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from porism.layers import kernels
from porism.layers.gcn import Graph
from porism.layers.gcn import kernels as propagate
from porism.layers.gcn.adjacency.csr import Csr
from porism.testing.gradients import relative_error

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
KERNELS = ("numba", "triton", "torch")
# The size of a sum's rounding errors, by the type it is summed in and answered in.
TOLERANCES = {torch.float64: 1e-13, torch.float32: 1e-5, torch.bfloat16: 1e-2}

Product = Callable[[Csr, Tensor, Tensor | None], Tensor]


@pytest.fixture(params=KERNELS)
def product(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Product:
    """The product by one kernel alone; without a GPU Triton's interpreter runs its kernel, on the CPU."""
    kernel = request.param
    if kernel == "numba":
        pytest.importorskip("numba", reason='needs pip install "porism[graphs]"')
    if kernel == "triton":
        needs.triton()
    monkeypatch.setattr(propagate, "_installed", lambda package: package == kernel)
    if kernel == "triton":
        monkeypatch.setattr(kernels, "DEVICES", {DEVICE})
        return lambda matrix, x, bias: propagate.product(
            matrix.to(DEVICE), x.to(DEVICE), None if bias is None else bias.to(DEVICE)
        ).cpu()
    return propagate.product


def matrix_of(N: int, dtype: torch.dtype) -> Csr:
    edges, weights = drawn(N)
    matrix: Csr = Graph(edges, weights, num_nodes=N).propagation(dtype=dtype).there
    return matrix


@pytest.mark.sweep(6, each="N")
@pytest.mark.parametrize("N", [1, 2, 31])
@pytest.mark.parametrize("H", [1, 33])
@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("biased", [True, False], ids=["bias", "no bias"])
def test_a_kernel_equals_the_dense_product(product: Product, N: int, H: int, dtype: torch.dtype, biased: bool) -> None:
    torch.manual_seed(0)
    matrix = matrix_of(N, dtype)
    x, bias = torch.randn(N, H).to(dtype), torch.randn(H).to(dtype) if biased else None
    actual = product(matrix, x, bias)
    expected = matrix.to_dense(N).double() @ x.double() + (0 if bias is None else bias.double())
    assert actual.dtype == dtype
    assert relative_error(actual.double(), expected) <= TOLERANCES[dtype]


def test_a_row_of_many_entries_and_rows_of_none(product: Product) -> None:
    """The hub of a star, and nodes without an edge at both ends."""
    starts, columns, values = star(300).propagation("rw", False).there
    ends = torch.tensor([len(columns)] * 3)
    matrix = Csr(torch.cat([torch.zeros(2).long(), starts, ends]), columns, values)
    x = torch.randn(301, 3)
    assert relative_error(product(matrix, x, None), matrix.to_dense(301) @ x) <= 1e-5


def test_no_entries_at_all(product: Product) -> None:
    empty = Csr(torch.zeros(4).long(), torch.zeros(0).int(), torch.zeros(0))
    assert product(empty, torch.randn(5, 2), torch.tensor([1.0, 2.0])).tolist() == [[1.0, 2.0]] * 3


@pytest.mark.parametrize(("height", "rows", "H"), [(0, 5, 2), (3, 5, 0), (3, 0, 2), (0, 0, 0)])
def test_no_rows_and_no_columns(product: Product, height: int, rows: int, H: int) -> None:
    empty = Csr(torch.zeros(height + 1).long(), torch.zeros(0).int(), torch.zeros(0))
    assert product(empty, torch.randn(rows, H), torch.ones(H)).tolist() == torch.ones(height, H).tolist()


def test_rows_that_lie_apart_in_memory(product: Product) -> None:
    matrix = matrix_of(7, torch.float32)
    x = torch.randn(4, 7).T
    assert relative_error(product(matrix, x, None), matrix.to_dense(7) @ x) <= 1e-5


def test_arrays_and_a_bias_with_gaps_between_their_numbers(product: Product) -> None:
    matrix, x = matrix_of(7, torch.float32), torch.randn(7, 6)[:, ::2]
    apart = Csr(*(part.repeat_interleave(2)[::2] for part in matrix))
    bias = torch.randn(3, 2)[:, 0]
    assert relative_error(product(apart, x, bias), matrix.to_dense(7) @ x + bias) <= 1e-5


def test_the_imaginary_part_of_a_conjugate_has_its_sign(product: Product) -> None:
    matrix, x = matrix_of(7, torch.float32), torch.complex(torch.zeros(7, 3), torch.randn(7, 3)).conj().imag
    assert x.is_neg()
    assert relative_error(product(matrix, x, None), matrix.to_dense(7) @ x) <= 1e-5


def test_a_nan_is_passed_on_to_who_hears_it(product: Product) -> None:
    path = Graph(torch.tensor([[0, 1], [1, 2]])).propagation("rw").there
    x = torch.tensor([[float("nan")], [1.0], [float("inf")]])
    assert product(path, x, None).flatten().tolist() == pytest.approx([float("nan")] * 2 + [float("inf")], nan_ok=True)


def test_parts_of_the_work_cover_every_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many threads as there may be, whatever the machine has: the bits are those of one."""
    kernel = pytest.importorskip("porism.layers.gcn.kernels.numba")
    matrix = matrix_of(63, torch.float32)
    x, first = torch.randn(63, 5), torch.zeros(5)
    answers = []
    for parts in (1, 2, 3, 7, 200):
        answer = torch.full((63, 5), float("nan"))
        operands = [part.numpy() for part in (*matrix, x, first, answer)]
        kernel._add_rows(*operands, x.data_ptr(), x.shape[1] * x.itemsize, parts)
        answers.append(answer)
    alone = torch.full((63, 5), float("nan"))
    kernel._add_rows_alone(*(part.numpy() for part in (*matrix, x, first, alone)), x.data_ptr(), 0)
    answers.append(alone)
    assert all(torch.equal(answer, answers[0]) for answer in answers)
    assert not answers[0].isnan().any()


def test_two_threads_may_ask_at_once() -> None:
    matrix = matrix_of(257, torch.float32)
    x = torch.randn(257, 300)
    expected, answers = propagate.product(matrix, x), []
    threads = [threading.Thread(target=lambda: answers.append(propagate.product(matrix, x))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [torch.equal(answer, expected) for answer in answers] == [True] * 4


def test_the_fallback_serves_where_numba_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.setattr(propagate, "_installed", propagate._installed.__wrapped__)
    by_torch, called = propagate._by_torch, []

    def noting(*args: Any) -> Tensor:
        called.append(args)
        return by_torch(*args)

    monkeypatch.setattr(propagate, "_by_torch", noting)
    propagate.product(matrix_of(7, torch.float32), torch.randn(7, 3))
    assert len(called) == 1


def test_torchs_own_counter_sees_it() -> None:

    matrix = matrix_of(7, torch.float32)
    with FlopCounterMode(display=False) as counter:
        propagate.product(matrix, torch.randn(7, 3))
    assert counter.get_total_flops() == 2 * matrix.stored * 3
