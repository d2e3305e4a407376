"""The kernels stay inside the memory they are given: arrays by numba's own check, addresses by one of ours."""

import ctypes
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests.tasks.words.model.reference import trained
from tests.tasks.words.model.test_trainer import text, trainer

from porism.layers.skipgram import kernels as skipgram_kernels
from porism.tasks.words.model import trainer as training
from porism.tasks.words.model.trainer import Trainer

numba = pytest.importorskip("numba")

Lanes = NDArray[np.float32]

CHECKED = """
import numba, numpy as np, torch
from porism.layers.skipgram.kernels import numba as kernels
from porism.tasks.words.model.trainer import Trainer

# Serially, which is compiled in a fraction of the time: the loops are the same.
kernels.in_blocks = numba.njit(kernels.in_blocks.py_func)

tokens = torch.tensor([0, 1, 0, 2, -1, 1, 0] * 9, dtype=torch.int32)
for deterministic in (False, True):
    made = Trainer.fresh(np.array([27, 18, 9]), 7, 100, sample=0.5, threads=3, deterministic=deterministic)
    assert made.train(tokens).pairs > 0

too_short = np.empty(3, np.int64)
table = np.ones(3, np.float32), np.zeros(3, np.int32)
try:
    kernels._choose(1, np.array([0, 1, 2], np.int32), 5, 5, *table, np.uint64(1), too_short)
except IndexError:
    print("checked")
"""


@pytest.mark.sweep(0)
def test_arrays_are_read_and_written_inside(tmp_path: Path) -> None:
    """With NUMBA_BOUNDSCHECK, under which numba raises where an array is left.

    It sees tokens, tables, chosen rows and coefficients. Vectors are reached by their addresses, which it cannot check:
    that is the next test.
    """
    settings = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path), "NUMBA_OPT": "0"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CHECKED],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "checked"


class Memory:
    """Stands for the instructions of lanes.py, and refuses addresses outside what was given to a kernel."""

    def __init__(self) -> None:
        self.regions: list[tuple[int, int]] = []
        self.reads = 0

    def load(self, address: int) -> Lanes:
        self.reads += 1
        return np.array(self._at(address, 32), dtype=np.float32)

    def store(self, address: int, lanes: Lanes) -> None:
        self._at(address, 32)[:] = lanes.tolist()

    def ask_for(self, address: int) -> None:
        self._at(address, 4)

    def _at(self, address: int, size: int) -> Any:
        inside = any(start <= address and address + size <= start + length for start, length in self.regions)
        assert inside, f"{address} is in none of {self.regions}"
        return (ctypes.c_float * (size // 4)).from_address(int(address))


class Whole(np.ndarray):
    """An array without negative indices: numpy would count them from the end."""

    def __getitem__(self, index: Any) -> Any:
        assert isinstance(index, slice) or index >= 0, index
        return super().__getitem__(index)


def interpreted(memory: Memory, vocabulary: int, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The kernels as plain Python, with checked addresses."""
    monkeypatch.setattr(numba.config, "DISABLE_JIT", 1)
    path = Path(skipgram_kernels.__file__).with_name("numba.py")
    spec = importlib.util.spec_from_file_location("interpreted_kernels", path)
    assert spec is not None
    assert spec.loader is not None
    kernels: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(kernels)
    kernels.load, kernels.store, kernels.ask_for = memory.load, memory.store, memory.ask_for
    kernels.spread = lambda value: np.full(8, value, np.float32)
    kernels.multiply_add = lambda a, b, c: a * b + c
    kernels.total = lambda lanes: np.float32(lanes.sum())

    def watched(kernel: Callable[..., Any]) -> Callable[..., Any]:
        def run(kept: Any, words: int, contexts: int, step: int, *rest: Any) -> Any:
            *middle, last = rest
            thresholds, aliases, _, _, _, _, _, _, parts, *room = middle
            # A row for each part, or two for each word of a block.
            blocks = [(room[1], room[0] * step), (last, room[0] * step)] if room else [(last, parts * step)]
            memory.regions = [(words, vocabulary * step), (contexts, vocabulary * step), *blocks]
            tables = thresholds.view(Whole), aliases.view(Whole)
            return kernel(kept.view(Whole), words, contexts, step, *tables, *middle[2:], last)

        return run

    kernels.shared_memory, kernels.in_blocks = watched(kernels.shared_memory), watched(kernels.in_blocks)
    return kernels  # type: ignore[no-any-return]


@pytest.fixture
def _numbers_that_wrap() -> Any:
    """As those of a machine do."""
    with np.errstate(all="ignore"):
        yield


@pytest.mark.usefixtures("_numbers_that_wrap")
@pytest.mark.parametrize(("deterministic", "threads"), [(False, 1), (True, 1), (True, 3)])
@pytest.mark.parametrize("width", [1, 7, 24])
def test_addresses_stay_inside(deterministic: bool, threads: int, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what the kernels do this way is what plain Python does."""
    tokens, memory = text(60), Memory()
    ours = trainer(tokens, width, deterministic=deterministic, threads=threads, window=2, negatives=3)
    words, contexts = trained(ours, tokens.tolist(), ours._block if deterministic else None)
    kernels = interpreted(memory, len(ours.words), monkeypatch)
    monkeypatch.setattr(training, "_kernels", lambda: kernels)
    ours.train(tokens)
    assert memory.reads > 1000
    assert np.abs(ours.words.numpy() - words).max() < 1e-5
    assert np.abs(ours.contexts.numpy() - contexts).max() < 1e-5


@pytest.mark.usefixtures("_numbers_that_wrap")
@pytest.mark.parametrize("number", [torch.nan, torch.inf, -torch.inf, 1e30, -1e30])
def test_no_vector_leads_outside_the_table_of_sigma(number: float, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens, memory = text(20), Memory()
    ours = trainer(tokens, window=2, negatives=3)
    ours.words[:, 0] = number
    kernels = interpreted(memory, len(ours.words), monkeypatch)
    monkeypatch.setattr(training, "_kernels", lambda: kernels)
    monkeypatch.setattr(Trainer, "_check_health", lambda self, loss: None)
    ours.train(tokens)
    assert memory.reads > 100
