"""A small text, a small data set of three classes, and trainings that take a second."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.runs import tiny_runs
from torch import Tensor

import porism

TINY: dict[str, Any] = {
    "hidden_size": 9,
    "embedding_dim": 7,
    "batch_size": 4,
    "seq_len": 5,
    "epochs": 2,
    "learning_rate": 0.01,
    "lr_scheduler": "constant",
    "precision": "fp32",
}
Data = tuple[Tensor, Tensor]


@pytest.fixture(autouse=True)
def _no_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing the page of a run takes longer than these runs. Those of fixtures that several tests share have one.

    Comparisons have pages, which tests look at.
    """
    monkeypatch.setattr("porism.api.engine.write_report", lambda *_: None)


@pytest.fixture(scope="session")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    return tiny_runs.write_text(tmp_path_factory.mktemp("text"))


@pytest.fixture(scope="session")
def points() -> Data:
    """120 points of three classes that a linear layer tells apart."""
    draw = torch.Generator().manual_seed(0)
    X, weight = torch.randn(120, 4, generator=draw), torch.randn(4, 3, generator=draw)
    return X, (X @ weight).argmax(1)


@pytest.fixture(scope="session")
def trained(text: str, tmp_path_factory: pytest.TempPathFactory) -> porism.Run:
    """A finished run of language. Nobody changes it."""
    out = tmp_path_factory.mktemp("trained") / "run"
    return porism.train("language", "elman", data=text, out=out, threads=1, device="cpu", **TINY)


def best_bits(folder: Path) -> bytes:
    return (folder / "best" / "model.safetensors").read_bytes()
