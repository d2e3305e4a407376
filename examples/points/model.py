"""A net with one hidden layer, and what it costs: D coordinates, H hidden units, V classes."""

from torch import Tensor, nn
from torch.nn import functional

from porism.costing.alphabet import B, D, H, V
from porism.costing.terms import Terms


class Net(nn.Module):
    """logits = V relu(W x + b) + c; x (B, D) -> logits (B, V)."""

    def __init__(self, width: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(width, hidden)
        self.readout = nn.Linear(hidden, classes)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.readout(functional.relu(self.hidden(x)))
        return logits


class NetWithLoss(Net):
    """What `porism cost` counts."""

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:  # type: ignore[override]
        return functional.cross_entropy(super().forward(x), labels)


def model_cost() -> Terms:
    """The cost of a step with B points, which need no gradient themselves."""
    hidden, readout = 2 * B * D * H, 2 * B * H * V
    return Terms(
        parameters={"hidden": D * H + H, "readout": H * V + V},
        flops={"hidden": hidden, "readout": readout},
        backward_flops={"hidden": hidden, "readout": 2 * readout},
    )
