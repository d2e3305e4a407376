"""A module of your own, trained, loaded, asked and compared with another: `python examples/own_module.py`."""

import tempfile
from pathlib import Path

import torch
from torch import Tensor, nn

import porism
from porism.training.own_model import DataInfo


class Net(nn.Module):
    """One hidden layer with a skip around it; x (B, D) -> logits (B, V)."""

    def __init__(self, num_features: int, num_classes: int, hidden_size: int = 16) -> None:
        super().__init__()
        self.hidden = nn.Linear(num_features, hidden_size)
        self.readout = nn.Linear(num_features + hidden_size, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.readout(torch.cat([x, self.hidden(x).relu()], 1))
        return logits


def make(info: DataInfo) -> nn.Module:
    """A net for the data: called with the run's seed set, so that its parameters come from it."""
    return Net(info.num_features or 1, info.num_classes or 2)


def rings(count: int = 300) -> tuple[Tensor, Tensor]:
    """Points of two rings."""
    X = 2 * torch.rand(count, 2, generator=torch.Generator().manual_seed(0)) - 1
    return X, (X.square().sum(1) > 0.6).long()


def main(folder: Path, epochs: int = 20) -> porism.Comparison:
    """Trains `Net` on points of two rings, loads it again, and compares it with a linear layer."""
    X, y = rings()
    run = porism.train(
        "supervised",
        model=make,
        data=(X, y),
        loss="cross_entropy",
        epochs=epochs,
        learning_rate=0.01,
        out=folder / "net",
    )
    print(run, run.cost.flops)

    again = porism.load(folder / "net", model=make)
    for one in again.predict(X[:3]):
        print(f"{one.input} is in ring {one.output}, {one.notes[0]}")

    both = porism.compare(
        "supervised",
        {"mine": make, "linear": "linear"},
        data=(X, y),
        loss="cross_entropy",
        epochs=epochs,
        learning_rate=0.01,
        out=folder / "both",
    )
    print(both)
    return both


if __name__ == "__main__":
    main(Path(tempfile.mkdtemp()))
