"""A pass that takes more memory than is left is refused, at best before anything is made."""

import os
import resource
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import porism
from porism.costing.predicting import available
from porism.costing.predicting.available import GIB, available_bytes, within_memory
from porism.errors import CostError

CPU = torch.device("cpu")
linux = pytest.mark.skipif(sys.platform != "linux", reason="what a process has taken is read from Linux")


class Product(nn.Module):
    """Keeps little, and makes a matrix of T by T on its way."""

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            weights = x @ x.mT
        return x * weights.sum(-1, keepdim=True)


@pytest.fixture
def little_is_free(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(available, "available_bytes", lambda _: 0.5 * GIB)
    yield
    assert resource.getrlimit(resource.RLIMIT_DATA)[0] == resource.RLIM_INFINITY


def test_what_is_left_is_less_than_there_is() -> None:
    assert 0 < available_bytes() < os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@linux
def test_the_limit_of_a_process_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = next(line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if "VmSize" in line)
    limit = int(taken) * 1024 + 2**20
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    assert available_bytes() <= 2**20


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ["attention", "taylor", "window", "elman", "lstm", "gcn"])
def test_sizes_beyond_the_memory_are_refused_before_anything_is_made(name: str) -> None:
    cost = porism.cost(name)
    sizes: dict[str, Any] = dict.fromkeys(cost.letters, 64) | {
        next(one for one in "TN" if one in cost.letters): 32 * 10**11
    }
    cost.target.call = lambda *_: pytest.fail("the pass was made")  # type: ignore[method-assign]
    with pytest.raises(
        CostError, match=r"a pass of \w+ at .*3,200,000,000,000.* holds at least [\d,]+ GiB, and .* GiB"
    ):
        cost.time("cpu", **sizes)


@linux
def test_a_pass_that_takes_more_on_its_way_is_refused_there(little_is_free: None) -> None:
    cost = porism.cost(Product(), "T D")
    refusal = "takes more memory than there is, and 0.5 GiB are free on cpu. Choose smaller sizes"
    called, args, _ = cost.target.call({"T": 20_000, "D": 4}, CPU)
    with pytest.raises(CostError, match=refusal), cost.within_memory({"T": 20_000, "D": 4}, CPU):
        called(*args)


def test_other_errors_stay_what_they_are() -> None:
    with pytest.raises(RuntimeError, match="something else"), within_memory("a pass", CPU, 0):
        raise RuntimeError("something else")
