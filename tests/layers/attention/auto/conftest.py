"""A device whose times are made up, so that tests decide what is fastest."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest
import torch
from torch import Tensor

from porism.costing.predicting import calibration
from porism.costing.predicting.calibration import MethodRates
from porism.layers.attention import auto as operation
from porism.layers.attention.auto import MethodWorkload
from porism.layers.attention.methods import METHODS
from porism.layers.attention.pattern import Pattern

EXACT = tuple(name for name, method in METHODS.items() if method.exact)
SERIES = ("taylor", "dense-taylor")
DAY = "2026-01-02"


SLIDING = Pattern("sliding", window_size=5)


@dataclass
class Device:
    """One on which every call takes a second, but for those of a favourite, which are a thousand times as fast."""

    monkeypatch: pytest.MonkeyPatch
    cache: Path
    favourite: str = "softmax"
    disturbed: float = 0.0
    measured: list[str] = field(default_factory=list)

    def prefer(self, name: str) -> None:
        """Another device, of which nothing is known."""
        self.favourite = name
        rmtree(self.cache / "porism", ignore_errors=True)
        self.forget()

    def forget(self) -> None:
        """As a new process would."""
        calibration._known_rates.clear()
        operation._decided.cache_clear()

    def measure(self, workload: MethodWorkload, device: torch.device, threads: int) -> MethodRates:
        self.measured.append(workload.key)
        rates = {"calls": 1e-3 if workload.method.name == self.favourite else 1.0}
        return MethodRates(rates, rates, DAY, self.disturbed)


@pytest.fixture(autouse=True)
def device(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Device]:
    torch.manual_seed(0)
    monkeypatch.delenv("PORISM_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made = Device(monkeypatch, tmp_path)
    monkeypatch.setattr(calibration, "_measured_rates", made.measure)
    made.forget()
    yield made
    made.forget()


def operands(
    T: int = 7, S: int | None = None, B: int = 2, A: int = 4, G: int = 2, D: int = 3, H: int = 5, **options: Any
) -> tuple[Tensor, Tensor, Tensor]:
    S = T if S is None else S
    made: dict[str, Any] = {"dtype": torch.float64, "requires_grad": True} | options
    q, k, v = (torch.randn(size, **made) for size in ((B, A, T, D), (B, G, S, D), (B, G, S, H)))
    return q, k, v
