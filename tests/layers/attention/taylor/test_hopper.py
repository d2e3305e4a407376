"""Kernels for Hopper GPUs equal the sums that they are to make. Without such a GPU they compile, and all else runs."""

import os
import subprocess
import sys
from importlib import import_module
from types import ModuleType

import pytest
import torch
from tests import needs
from tests.layers.attention.taylor import test_kernels
from tests.layers.attention.taylor.test_kernels import (
    BFLOAT16,
    DEVICE,
    FLOAT32,
    SMALL,
    errors,
    noting,
    operands,
    padding_of,
    too_large,
)
from tests.layers.closeness import error
from torch import Tensor

from porism.layers.attention.pattern import CAUSAL
from porism.layers.attention.taylor import naive
from porism.layers.attention.taylor.kernels.triton.hopper import layout
from porism.layers.kernels import gluon

pytestmark = pytest.mark.sample(5)

needs.triton()
passes = import_module("porism.layers.attention.taylor.kernels.triton.launches")
has_hopper = DEVICE == "cuda" and gluon.can_run(torch.device("cuda", 0))
on_hopper = pytest.mark.skipif(not has_hopper, reason="takes a Hopper GPU, and a Triton with Gluon")
CHUNK = 256
FOLDER = "porism.layers.attention.taylor.kernels.triton.hopper"


@pytest.fixture(autouse=True)
def _fixed_seed() -> None:
    torch.manual_seed(0)


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gluon, "TRUSTED", (gluon.version(),))


@pytest.fixture
def short_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "chunk", lambda *_: CHUNK)


def pairs(D: int) -> tuple[Tensor, Tensor]:
    """i and j of every row of pairs."""
    sixteens = range(0, D, 16)
    blocks = [(i, j) for i in sixteens for j in sixteens if i <= j]
    rows = [(i + row, j + column) for i, j in blocks for row in range(16) for column in range(16)]
    i, j = torch.tensor(rows, device=DEVICE).T
    return i, j


def summed(columns: Tensor, v: Tensor, sums: Tensor, chunk: int) -> None:
    """What `sum_pairs` does."""
    (B, G, _, H), (parts, M) = v.shape, sums.shape[1:3]
    i, j = pairs(M_to_D(M))
    k = columns[..., : parts * chunk].mT.float()
    phi = (k[..., i] * k[..., j]).to(v.dtype).double().view(B * G, parts, chunk, len(i))
    values = v[:, :, : parts * chunk].double().reshape(B * G, parts, chunk, H)
    sums[:, :, : len(i)] = (phi.mT @ values).to(sums.dtype)


def read(q: Tensor, sums: Tensor, far: Tensor, chunk: int, scale: float) -> None:
    """What `read_pairs` does."""
    B, A, T, D = q.shape
    i, j = pairs(D)
    x = (q.float() * scale).to(q.dtype).double()
    share = torch.where(i // 16 == j // 16, 0.5, 1.0)
    slots = sums[:, :, : len(i)].double().unflatten(0, (B, -1)).repeat_interleave(A * B // len(sums), 1)
    for begin in range(chunk, T, chunk):
        phi = x[:, :, begin : begin + chunk][..., i] * x[:, :, begin : begin + chunk][..., j] * share
        far[:, :, begin : begin + chunk] = (phi @ slots[:, :, begin // chunk]).float()


def M_to_D(M: int) -> int:
    return next(D for D in (16, 32, 48, 64) if layout.features(D) == M)


def test_what_is_no_pair_is_read_beside_them(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []
    for file, kernel, function in (("sums", "sum_pairs", summed), ("reads", "read_pairs", read)):
        module = ModuleType(f"{FOLDER}.{file}")
        setattr(module, kernel, noting(called, kernel, function))
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(passes, "sizes", lambda *_: SMALL)
    monkeypatch.setattr(passes, "chunk", lambda *_: 32)
    monkeypatch.setattr(passes, "by_pairs", lambda *_: True)
    monkeypatch.setattr(passes, "_by_blocks", lambda *_: True)
    q, k, v = (x.float() for x in operands(70, B=2, A=2, G=1, D=32, H=16))
    padding = padding_of(70)
    task = passes.SeriesSettings("rolled", 2, CAUSAL, 0.2)
    found, _, _ = passes.forward(task, q, k, v, padding, None, None)
    wanted = naive.taylor_attention(
        q.double(), k.double(), v.double(), pattern=CAUSAL, scale=0.2, key_padding_mask=padding
    )
    assert error(found, wanted) < FLOAT32
    assert called == ["sum_pairs", "read_pairs"]


@on_hopper
@pytest.mark.parametrize("tokens_first", [False, True])
def test_sums_are_those_of_each_chunk(tokens_first: bool) -> None:
    from porism.layers.attention.taylor.kernels.triton.hopper.sums import sum_pairs

    shape = (2, 1_000, 3, 64) if tokens_first else (2, 3, 1_000, 64)
    v = torch.randn(shape, device=DEVICE).bfloat16()
    v = v.transpose(1, 2) if tokens_first else v
    columns = torch.zeros(2, 3, 64, 1_024, device=DEVICE, dtype=torch.bfloat16)
    columns[..., :1_000] = torch.randn(2, 3, 64, 1_000)
    found, wanted = (torch.full((6, 3, layout.features(64), 64), 7.0, device=DEVICE).bfloat16() for _ in range(2))
    sum_pairs(columns, v, found, CHUNK)
    summed(columns, v, wanted, CHUNK)
    assert (found.double() - wanted.double()).norm() / wanted.double().norm() < 3e-3
    assert (found[:, :, -65:] == 7).all()


@on_hopper
@pytest.mark.parametrize("tokens_first", [False, True])
@pytest.mark.parametrize("scale", [0.125, 0.1])
def test_reads_are_those_of_the_state_before_each_chunk(tokens_first: bool, scale: float) -> None:
    from porism.layers.attention.taylor.kernels.triton.hopper.reads import read_pairs

    shape = (2, 1_500, 4, 64) if tokens_first else (2, 4, 1_500, 64)
    q = torch.randn(shape, device=DEVICE).bfloat16()
    q = q.transpose(1, 2) if tokens_first else q
    sums = torch.randn(4, 6, layout.features(64), 64, device=DEVICE).bfloat16()
    found, wanted = (torch.full((2, 4, 1_500, 64), 7.0, device=DEVICE) for _ in range(2))
    read_pairs(q, sums, found, CHUNK, scale)
    read(q, sums, wanted, CHUNK, scale)
    assert (found.double() - wanted.double()).norm() / wanted.double().norm() < 3e-3
    assert (found[:, :, :CHUNK] == 7).all()


@on_hopper
@pytest.mark.usefixtures("taken", "short_chunks")
@pytest.mark.parametrize("T", [512, 1_500, 5_001])
@pytest.mark.parametrize(("B", "A", "G"), [(1, 2, 2), (2, 4, 2)])
@pytest.mark.parametrize("padded", [False, True])
def test_equal_the_oracle(T: int, B: int, A: int, G: int, padded: bool) -> None:
    q, k, v = operands(T, B=B, A=A, G=G, D=64, H=64)
    padding = torch.rand(B, T, device=DEVICE) < 0.3 if padded else None
    assert too_large(errors(q, k, v, CAUSAL, padding, torch.bfloat16, scale=0.125), BFLOAT16) == {}


@on_hopper
@pytest.mark.usefixtures("taken")
@pytest.mark.parametrize("T", [1_025, 10_001])
def test_gradients_of_the_function(T: int) -> None:
    test_kernels.test_gradients_of_the_function_on_a_gpu(64, T, torch.bfloat16, BFLOAT16)


@on_hopper
@pytest.mark.usefixtures("taken")
def test_two_runs_give_the_same_bits() -> None:
    q, k, v = (torch.randn(1, 16, 20_000, 64, device=DEVICE).bfloat16() for _ in range(3))
    task = passes.SeriesSettings("rolled", 2, CAUSAL, 0.125)
    runs = [passes.forward(task, q, k, v, None, None, None)[0] for _ in range(5)]
    assert all(torch.equal(run, runs[0]) for run in runs)


@pytest.mark.skipif(gluon.version() < (3, 6), reason="takes Gluon")
@pytest.mark.parametrize(("kernel", "products"), [("sums", 32), ("reads", 64)])
def test_compile_for_a_hopper_gpu(kernel: str, products: int) -> None:
    """Without one: in registers alone, with as many products written out as there should be."""
    code = f"from tests.layers.attention.taylor.compiled_for_hopper import {kernel}; print({kernel}())"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        env=without_interpreter(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    assert done.stdout.split() == [str(products), "0"], done.stdout


def without_interpreter() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
