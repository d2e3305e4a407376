"""Arrays of a sparse matrix are read only where they lead within each other: right, or refused in words."""

import copy
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests import needs
from tests.layers.gcn.graphs import drawn
from torch import Tensor

from porism.errors import ShapeError
from porism.layers import kernels
from porism.layers.gcn import Graph, GraphConvolution, SparseFeatures
from porism.layers.gcn import kernels as propagate
from porism.layers.gcn.adjacency.csr import Csr, Transposition, transpose
from porism.layers.gcn.adjacency.edges import Neighbors
from porism.layers.gcn.adjacency.propagations import Propagation
from porism.layers.gcn.functional import project
from porism.layers.gcn.functional import propagate as propagate_features
from porism.testing.gradients import relative_error

HEIGHT, WIDTH, H = 4, 5, 3
STARTS, COLUMNS = torch.tensor([0, 2, 2, 5, 6]), torch.tensor([0, 3, 1, 2, 4, 0]).int()
VALUES = torch.tensor([1.0, -2.0, 3.0, 0.5, -1.0, 2.0])
FAR = 2**31 - 1


def changed(array: Tensor, place: int, number: int) -> Tensor:
    array = array.clone()
    array[place] = number
    return array


DAMAGED = {
    "columns far beyond": (Csr(STARTS, changed(COLUMNS, 1, FAR), VALUES), "columns run from 0 to 2147483647"),
    "columns just beyond": (Csr(STARTS, changed(COLUMNS, 5, WIDTH), VALUES), "columns run from 0 to 5, and 5 are"),
    "columns below": (Csr(STARTS, changed(COLUMNS, 0, -1), VALUES), "columns run from -1 to 4"),
    "starts end early": (Csr(changed(STARTS, -1, 5), COLUMNS, VALUES), "starts of rows lead from 0 to 5"),
    "starts end late": (Csr(changed(STARTS, -1, 10**12), COLUMNS, VALUES), "starts of rows lead from 0 to 10000"),
    "starts begin late": (Csr(changed(STARTS, 0, 1), COLUMNS, VALUES), "starts of rows lead from 1 to 6"),
    "starts fall": (Csr(changed(STARTS, 2, 6), COLUMNS, VALUES), "starts of rows fall in between"),
    "starts below": (Csr(changed(STARTS, 1, -5), COLUMNS, VALUES), "starts of rows fall in between"),
    # Differences that run over 64 bits are all above 0.
    "starts around the world": (
        Csr(torch.tensor([0, 2**63 - 1, -(2**63), -1, 6]), COLUMNS, VALUES),
        "starts of rows fall in between",
    ),
    "no starts": (Csr(STARTS[:0], COLUMNS, VALUES), "starts are empty"),
    "starts of int32": (Csr(STARTS.int(), COLUMNS, VALUES), "starts are torch.int32, expected torch.int64"),
    "columns of int64": (Csr(STARTS, COLUMNS.long(), VALUES), "columns are torch.int64, expected torch.int32"),
    "columns of two dimensions": (Csr(STARTS, COLUMNS.view(2, 3), VALUES), r"columns are \(2, 3\), expected a dense"),
    "whole values": (Csr(STARTS, COLUMNS, VALUES.long()), "values are torch.int64, expected torch.float32"),
    "complex values": (Csr(STARTS, COLUMNS, VALUES * 1j), "values are torch.complex64, expected torch.float32"),
    "too few values": (Csr(STARTS, COLUMNS, VALUES[1:]), "6 columns and 5 values"),
    "values elsewhere": (
        Csr(STARTS, COLUMNS, VALUES.to("meta")),
        "values are on meta, starts on cpu, expected one dev",
    ),
    "learned values": (Csr(STARTS, COLUMNS, VALUES.clone().requires_grad_()), "values require a gradient"),
}
each_damage = pytest.mark.parametrize(("matrix", "message"), DAMAGED.values(), ids=DAMAGED)


@pytest.fixture(params=["numba", "torch"])
def _each_kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "numba":
        pytest.importorskip("numba", reason="numba is an extra")
    monkeypatch.setattr(propagate, "_installed", lambda package: package == request.param)


@each_damage
@pytest.mark.usefixtures("_each_kernel")
def test_the_product_refuses(matrix: Csr, message: str) -> None:
    x = torch.randn(WIDTH, H)
    with pytest.raises(ShapeError, match=message):
        propagate.product(matrix, x)
    with pytest.raises(ShapeError, match=message):
        torch.ops.porism.csr_product(*matrix, x)
    with pytest.raises(ShapeError, match=message):
        propagate_features(x, Propagation(matrix, matrix))


@each_damage
def test_sparse_features_refuse(matrix: Csr, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        SparseFeatures(matrix, WIDTH)
    with pytest.raises(ShapeError, match=message):
        matrix.to_dense(WIDTH)


@each_damage
def test_a_graph_refuses_rows_of_neighbors(matrix: Csr, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        Graph.from_neighbors(Neighbors(torch.cat([matrix.starts, matrix.starts[-1:]]), *matrix[1:]))


@pytest.mark.parametrize(
    ("operands", "message"),
    [
        ({"x": torch.ones(WIDTH)}, r"x is \(5,\), expected a dense tensor of 2 dimensions"),
        ({"x": torch.ones(WIDTH, H).long()}, "x is torch.int64, expected floating numbers"),
        ({"x": torch.ones(WIDTH, H) * 1j}, "x is torch.complex64, expected floating numbers"),
        ({"x": torch.ones(WIDTH, H).double()}, "x is torch.float64, the matrix torch.float32, expected one type"),
        ({"x": torch.ones(WIDTH, H, device="meta")}, "x is on meta, the matrix on cpu, expected one device"),
        ({"x": torch.ones(WIDTH - 1, H)}, "columns run from 0 to 4, and 4 are numbered 0 to 3"),
        ({"x": torch.ones(WIDTH, H), "bias": torch.ones(H + 1)}, r"bias is \(4,\), expected \(3,\)"),
        ({"x": torch.ones(WIDTH, H), "bias": torch.ones(H).double()}, "bias is torch.float64"),
        ({"x": torch.ones(WIDTH, H), "bias": torch.ones(H, device="meta")}, "bias is on meta"),
        ({"x": torch.ones(WIDTH, H, requires_grad=True)}, "x or bias requires a gradient, and this product has none"),
    ],
)
@pytest.mark.usefixtures("_each_kernel")
def test_the_product_refuses_other_operands(operands: dict[str, Tensor], message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        propagate.product(Csr(STARTS, COLUMNS, VALUES), **operands)


def test_a_transposed_that_does_not_fit_is_refused() -> None:
    there = Csr(STARTS, COLUMNS, VALUES)
    right = transpose(STARTS, COLUMNS, WIDTH)
    assert SparseFeatures(there, WIDTH, right).shape == (HEIGHT, WIDTH)
    for wrong, message in (
        (right._replace(columns=changed(right.columns, 0, HEIGHT)), "columns run from 0 to 4, and 4 are"),
        (right._replace(starts=changed(right.starts, -1, 5)), "starts of rows lead from 0 to 5"),
        (transpose(STARTS, COLUMNS, WIDTH + 1), "the transposed has 6 rows and 6 entries, expected 5 and 6"),
        (right._replace(order=right.order[1:]), r"order is \(5,\) of torch.int64"),
        (right._replace(order=right.order.int()), r"order is \(6,\) of torch.int32"),
    ):
        with pytest.raises(ShapeError, match=message):
            SparseFeatures(there, WIDTH, wrong)


def ways_to_change() -> dict[str, Callable[[Tensor, int], Any]]:
    """Each writes a number into the second place of an array that was checked before; torch counts only the first."""
    return {
        "in place": lambda array, number: array[1].fill_(number),
        "by data": lambda array, number: array.data[1].fill_(number),
        "by numpy": lambda array, number: array.numpy().__setitem__(1, number),
    }


@pytest.mark.parametrize("way", ways_to_change())
@pytest.mark.parametrize("part", ["starts", "columns"])
@pytest.mark.usefixtures("_each_kernel")
def test_damage_after_all_checks_is_refused(way: str, part: str) -> None:
    x, weight = SparseFeatures(Csr(STARTS.clone(), COLUMNS.clone(), VALUES), WIDTH), torch.randn(H, WIDTH)
    ways_to_change()[way](getattr(x.there, part), FAR)
    with pytest.raises(ShapeError, match="changed in place|columns run from|starts of rows"):
        project(x, weight)


@pytest.mark.parametrize("part", ["starts", "columns"])
def test_a_pattern_that_was_changed_to_another_is_refused(part: str) -> None:
    """It could be read, and its transposed would be that of the pattern before."""
    x = SparseFeatures(Csr(STARTS.clone(), COLUMNS.clone(), VALUES), WIDTH)
    getattr(x.there, part)[1] -= 1
    with pytest.raises(ShapeError, match="starts or columns of sparse features were changed in place"):
        project(x, torch.randn(H, WIDTH))


@pytest.mark.parametrize("again", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))], ids=["copied", "pickled"])
def test_a_copy_counts_its_own_changes(again: Callable[[SparseFeatures], SparseFeatures]) -> None:
    columns = COLUMNS.clone()
    columns[0] = 0
    weight, x = torch.randn(H, WIDTH), SparseFeatures(Csr(STARTS, columns, VALUES), WIDTH)
    copied = again(x)
    assert torch.equal(project(copied, weight), project(x, weight))
    copied.there.columns[1] = 2
    with pytest.raises(ShapeError, match="changed in place"):
        project(copied, weight)
    project(x, weight)


def test_values_changed_between_the_passes_leave_the_gradient_as_it_was() -> None:
    weight, x = torch.randn(H, WIDTH, requires_grad=True), SparseFeatures(Csr(STARTS, COLUMNS, VALUES.clone()), WIDTH)
    dense = x.to_dense()
    z = project(x, weight)
    x.there.values.mul_(2)
    z.sum().backward()
    assert weight.grad is not None
    assert torch.allclose(weight.grad, dense.sum(0).expand(H, WIDTH))


@pytest.mark.parametrize("undirected", [True, False])
def test_a_graphs_matrix_that_was_changed_is_refused(undirected: bool) -> None:
    edges, _ = drawn(7)
    edges = torch.cat([edges, edges.flip(0)], 1) if undirected else edges
    layer, x = GraphConvolution(3, 2), torch.randn(7, 3, requires_grad=True)
    graph = Graph(edges, num_nodes=7)
    y = layer(x, graph)
    twin = copy.deepcopy(graph)
    graph.propagation().back.values.mul_(2)
    with pytest.raises(ShapeError, match="changed in place between the forward pass and the backward pass"):
        y.sum().backward()
    with pytest.raises(ShapeError, match="a matrix of the graph was changed in place"):
        layer(x, graph)
    assert torch.equal(layer(x, twin), y)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.usefixtures("_each_kernel")
def test_whatever_the_arrays_say_the_answer_is_right_or_refused(seed: int) -> None:
    """Numbers of a matrix overwritten at random: what is still a matrix is multiplied as one."""
    draw = torch.Generator().manual_seed(seed)
    x, answered = torch.randn(WIDTH, H, generator=draw), 0
    for _ in range(100):
        starts, columns = STARTS.clone(), COLUMNS.clone()
        for _ in range(int(torch.randint(1, 3, (), generator=draw))):
            array = (starts, columns)[int(torch.randint(2, (), generator=draw))]
            place, kind = (int(torch.randint(size, (), generator=draw)) for size in (len(array), 4))
            array[place] = (-1, FAR, 3, int(torch.randint(7, (), generator=draw)))[kind]
        is_matrix = starts[0] == 0 and starts[-1] == len(columns) and bool((starts.diff() >= 0).all())
        is_matrix = is_matrix and bool(((columns >= 0) & (columns < WIDTH)).all())
        if not is_matrix:
            with pytest.raises(ShapeError):
                propagate.product(Csr(starts, columns, VALUES), x)
            continue
        dense = torch.zeros(HEIGHT, WIDTH)
        for row in range(HEIGHT):
            for entry in range(int(starts[row]), int(starts[row + 1])):
                dense[row, int(columns[entry])] += VALUES[entry]
        assert relative_error(propagate.product(Csr(starts, columns, VALUES), x), dense @ x) <= 1e-5
        answered += 1
    assert answered > 0


def test_the_gpus_kernel_reads_nothing_beyond_and_says_so_in_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for it, so a row that cannot be read is NaN. Without a GPU the interpreter runs it."""
    needs.triton()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    monkeypatch.setattr(kernels, "DEVICES", {device})
    monkeypatch.setattr(propagate, "_installed", lambda package: package == "triton")
    x = torch.randn(WIDTH, H)

    def product(starts: Tensor, columns: Tensor) -> Tensor:
        return propagate.product(Csr(starts, columns, VALUES).to(device), x.to(device)).cpu()

    right = product(STARTS, COLUMNS)
    for columns in (changed(COLUMNS, 1, FAR), changed(COLUMNS, 1, -1), changed(COLUMNS, 1, WIDTH)):
        actual = product(STARTS, columns)
        assert actual[0].isnan().all()
        assert torch.equal(actual[1:], right[1:])
    for starts, spoiled in (
        (changed(STARTS, 0, 1), [0]),
        (changed(STARTS, -1, 5), [3]),
        (changed(STARTS, 2, 10**9), [1, 2]),
        (changed(STARTS, 1, -1), [0, 1]),
    ):
        actual = product(starts, COLUMNS)
        assert actual[spoiled].isnan().all()
        others = [row for row in range(HEIGHT) if row not in spoiled]
        assert torch.equal(actual[others], right[others])


@pytest.mark.sweep(0)
def test_numbas_kernel_stays_within_its_arrays(tmp_path: Path) -> None:
    """Compiled with numba's own look at every index, it answers as ever, and damaged arrays do not reach its loops."""
    pytest.importorskip("numba", reason="numba is an extra")
    script = """
import torch
from porism.errors import ShapeError
from porism.layers.gcn.adjacency.csr import Csr
from porism.layers.gcn.kernels import product

torch.manual_seed(0)
starts, columns = torch.tensor([0, 2, 2, 5, 6]), torch.tensor([0, 3, 1, 2, 4, 0]).int()
for H in (1, 3, 300):
    matrix, x = Csr(starts, columns, torch.randn(6)), torch.randn(5, H)
    assert torch.allclose(product(matrix, x, torch.ones(H)), matrix.to_dense(5) @ x + 1, atol=1e-5)
    for place, number in ((0, -1), (5, 5), (3, 2**31 - 1)):
        damaged = columns.clone()
        damaged[place] = number
        try:
            product(Csr(starts, damaged, matrix.values), x)
        except ShapeError:
            continue
        raise SystemExit("answered")
print("within")
"""
    # Kernels are kept on disk, and this one is not to be actual by others.
    environment = os.environ | {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "within"), done.stderr


def test_an_order_from_elsewhere_is_not_followed_beyond_the_values() -> None:
    there, right = Csr(STARTS, COLUMNS, VALUES), transpose(STARTS, COLUMNS, WIDTH)
    x = SparseFeatures(there, WIDTH, Transposition(right.starts, right.columns, changed(right.order, 0, 6)))
    with pytest.raises(IndexError):
        _ = x.back
