"""A small module whose forward pass is any function, and one that stops early by its data."""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn


class Net(nn.Module):
    """A linear layer of width 8, and what is done with it."""

    def __init__(self, run: Callable[["Net", Tensor], Any]) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.run = run
        self.state: Any = None

    def forward(self, x: Tensor) -> Any:
        return self.run(self, x)


def stops_early(net: Net, x: Tensor) -> Any:
    y = net.linear(x)
    return net.linear(y) if x.abs().sum() > 0 else y
