"""Kernels for Hopper GPUs equal the sums that they are to make. Without such a GPU they compile, and all else runs."""

import os
import subprocess
import sys
from collections.abc import Iterator
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
from torch.nn.functional import pad

from porism.layers.attention.pattern import CAUSAL
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


def summed(columns: Tensor, y: Tensor, sums: Tensor, chunk: int, skipped: int = 0) -> None:
    """What `sum_pairs` does."""
    (N, parts, M, H), heads = sums.shape, y.shape[0] * y.shape[1]
    i, j = pairs(M_to_D(M))
    of_chunks = slice(skipped * chunk, (skipped + parts) * chunk)
    missing = max(0, of_chunks.stop - columns.shape[3])
    x = pad(columns, (0, missing))[..., of_chunks].mT.float().reshape(N, heads // N, parts, chunk, -1)
    phi = (x[..., i] * x[..., j]).to(y.dtype).double()
    values = y[:, :, of_chunks].double().reshape(N, heads // N, parts, chunk, H)
    sums[:, :, : len(i)] = (phi.mT @ values).sum(1).to(sums.dtype)


def read(q: Tensor, sums: Tensor, far: Tensor, chunk: int, begin: int, end: int, scale: float) -> None:
    """What `read_pairs` does."""
    i, j = pairs(q.shape[3])
    x = (q.float() * scale).to(q.dtype).double()
    share = torch.where(i // 16 == j // 16, 0.5, 1.0)
    for tokens, seen in slots_of(q, sums, chunk, begin, end):
        far[:, :, tokens] = ((x[:, :, tokens][..., i] * x[:, :, tokens][..., j] * share) @ seen).float()


def reached(x: Tensor, g: Tensor, sums: Tensor, far: Tensor, chunk: int, begin: int, end: int) -> None:
    """What `reach_pairs` does: the gradient of what `read_pairs` does, by x."""
    i, j = pairs(x.shape[3])
    share = torch.where(i // 16 == j // 16, 0.5, 1.0)
    for tokens, seen in slots_of(x, sums, chunk, begin, end):
        leaf = x[:, :, tokens].double().requires_grad_()
        with torch.enable_grad():
            answer = (leaf[..., i] * leaf[..., j] * share) @ seen
        far[:, :, tokens] = torch.autograd.grad(answer, leaf, g[:, :, tokens].double())[0].float()


def slots_of(x: Tensor, sums: Tensor, chunk: int, begin: int, end: int) -> Iterator[tuple[slice, Tensor]]:
    """The tokens of each chunk, and the rows of pairs that they see, (B, A, rows, H)."""
    i, _ = pairs(x.shape[3])
    seen = sums[:, :, : len(i)].double().unflatten(0, (len(x), -1))
    seen = seen.repeat_interleave(x.shape[1] // seen.shape[1], 1)
    for start in range(begin, end, chunk):
        yield slice(start, min(start + chunk, end)), seen[:, :, start // chunk]


def M_to_D(M: int) -> int:
    return next(D for D in (16, 32, 48, 64) if layout.features(D) == M)


def test_what_is_no_pair_is_read_beside_them(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []
    twins = (("sums", "sum_pairs", summed), ("reads", "read_pairs", read), ("gradient", "reach_pairs", reached))
    for file, kernel, function in twins:
        module = ModuleType(f"{FOLDER}.{file}")
        setattr(module, kernel, noting(called, kernel, function))
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(passes, "sizes", lambda *_: SMALL)
    monkeypatch.setattr(passes, "chunk", lambda *_: 32)
    monkeypatch.setattr(passes, "by_pairs", lambda *_: True)
    monkeypatch.setattr(passes, "_by_blocks", lambda *_: True)
    q, k, v = operands(70, B=2, A=2, G=1, D=32, H=16)
    assert too_large(errors(q, k, v, CAUSAL, padding_of(70), scale=0.2), FLOAT32) == {}
    forward = ["sum_pairs", "read_pairs"]
    assert called == [*forward, "sum_pairs", "reach_pairs", "sum_pairs", "reach_pairs", "read_pairs"]


@on_hopper
@pytest.mark.parametrize("tokens_first", [False, True])
@pytest.mark.parametrize(("G", "skipped"), [(6, 0), (3, 1)])
def test_sums_are_those_of_each_chunk(tokens_first: bool, G: int, skipped: int) -> None:
    from porism.layers.attention.taylor.kernels.triton.hopper.sums import sum_pairs

    y = drawn(2, 6, 1_024, tokens_first)
    columns = torch.zeros(2, 6, 64, 1_024, device=DEVICE, dtype=torch.bfloat16)
    columns[..., :1_000] = torch.randn(2, 6, 64, 1_000)
    shape = 2 * G, 3, layout.features(64), 64
    found, wanted = (torch.full(shape, 7.0, device=DEVICE).bfloat16() for _ in range(2))
    sum_pairs(columns, y, found, CHUNK, skipped)
    summed(columns, y, wanted, CHUNK, skipped)
    assert error(found, wanted) < 3e-3
    assert (found[:, :, -65:] == 7).all()


@on_hopper
@pytest.mark.parametrize("tokens_first", [False, True])
@pytest.mark.parametrize("scale", [0.125, 0.1])
@pytest.mark.parametrize(("begin", "end"), [(CHUNK, 1_500), (0, 5 * CHUNK)])
def test_reads_are_those_of_the_state_of_each_chunk(tokens_first: bool, scale: float, begin: int, end: int) -> None:
    from porism.layers.attention.taylor.kernels.triton.hopper.reads import read_pairs

    q = drawn(2, 4, 1_500, tokens_first)
    sums = torch.randn(4, 6, layout.features(64), 64, device=DEVICE).bfloat16()
    found, wanted = (torch.full((2, 4, 1_500, 64), 7.0, device=DEVICE) for _ in range(2))
    read_pairs(q, sums, found, CHUNK, begin, end, scale)
    read(q, sums, wanted, CHUNK, begin, end, scale)
    assert error(found, wanted) < 3e-3
    assert (found[:, :, :begin] == 7).all()
    assert (found[:, :, end:] == 7).all()


@on_hopper
@pytest.mark.parametrize("tokens_first", [False, True])
@pytest.mark.parametrize(("begin", "end"), [(CHUNK, 1_500), (0, 5 * CHUNK)])
def test_tokens_are_reached_through_the_state_of_each_chunk(tokens_first: bool, begin: int, end: int) -> None:
    from porism.layers.attention.taylor.kernels.triton.hopper.gradient import reach_pairs

    x, g = drawn(2, 4, 1_500, tokens_first), drawn(2, 4, 1_500, not tokens_first)
    sums = torch.randn(4, 6, layout.features(64), 64, device=DEVICE).bfloat16()
    # Pairs of one sixteen stand there in both orders, with the same sums.
    i, j = pairs(64)
    place = torch.empty(64, 64, dtype=torch.long, device=DEVICE)
    place[i, j] = torch.arange(len(i), device=DEVICE)
    sums[:, :, : len(i)] = sums[:, :, place[torch.minimum(i, j), torch.maximum(i, j)]]
    found, wanted = (torch.full((2, 4, 1_500, 64), 7.0, device=DEVICE) for _ in range(2))
    reach_pairs(x, g, sums, found, CHUNK, begin, end)
    reached(x, g, sums, wanted, CHUNK, begin, end)
    assert error(found, wanted) < 1e-5
    assert (found[:, :, :begin] == 7).all()
    assert (found[:, :, end:] == 7).all()


def drawn(B: int, A: int, T: int, tokens_first: bool) -> Tensor:
    x = torch.randn((B, T, A, 64) if tokens_first else (B, A, T, 64), device=DEVICE).bfloat16()
    return x.transpose(1, 2) if tokens_first else x


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
    test_kernels.test_long_texts_give_the_same_bits_on_a_gpu(64)


@pytest.mark.skipif(gluon.version() < (3, 6), reason="takes Gluon")
@pytest.mark.parametrize(("kernel", "products"), [("sums", 32), ("reads", 64), ("gradient", 32)])
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
