"""What the host spends around the kernels of a training step."""

from collections.abc import Callable

import msgspec
import torch
from torch import Tensor, nn

from porism.costing.counting.count import count
from porism.costing.counting.kernels import Kernel
from porism.costing.predicting.clock import Call, measure
from porism.costing.predicting.rates import Rates


class Overheads(msgspec.Struct, frozen=True):
    """Seconds of the host that no single kernel accounts for."""

    forward: float
    """Of a call in the forward pass, above the same call repeated alone: other code between, autograd remembers it."""
    backward: float
    """Of a call in the backward pass, likewise: autograd finds it."""
    enter: float
    """Of a forward pass before its first call."""
    start: float
    """Of a backward pass before its first call."""
    forward_view: float
    """Of a call that only makes a view, and that autograd remembers."""
    backward_view: float
    """Of a view in the backward pass."""

    def around(self, kernel: Kernel) -> float:
        """The host's seconds around a kernel's own call: the views before it, and the pass it is part of."""
        if kernel.direction == "forward":
            return self.forward + (kernel.calls - 1) * self.forward_view
        return self.backward + (kernel.calls - 1) * self.backward_view


def host_of(kernel: Kernel, rates: dict[str, Rates]) -> float:
    """The host's seconds for a kernel's call when it is repeated alone."""
    works = [work for work in kernel.work if work.kind in rates]
    return rates[works[0].kind].host(works[0].sizes) if works else rates["copy"].host((kernel.bytes,))


def overheads(device: torch.device, rates: dict[str, Rates]) -> Overheads:
    """From passes on a few numbers: a short one, and a long one through modules of different code.

    A step of training goes from one module to the next, leaves a gradient at every weight, and finds none of the code
    in the caches of the host; a chain of the same call would not.
    """
    bench = _Passes(device)
    forward_view = bench.seconds(bench.forward(_Views())) / VIEWS
    backward_view = bench.seconds(bench.backward(_Views())) / VIEWS
    views = {"forward": forward_view, "backward": backward_view}

    def above(make: Callable[[nn.Module], Call], direction: str) -> tuple[float, float]:
        """Seconds of a call above what it takes alone, and of a pass before its first call."""
        short, long = nn.Tanh(), _long().to(device)
        few, many = (bench.kernels(stage, direction) for stage in (short, long))

        def alone(kernels: list[Kernel]) -> float:
            return sum(host_of(kernel, rates) + (kernel.calls - 1) * views[direction] for kernel in kernels)

        brief, lengthy = bench.seconds(make(short)), bench.seconds(make(long))
        more = (lengthy - brief - alone(many) + alone(few)) / (len(many) - len(few))
        return max(0.0, more), max(0.0, brief - alone(few) - max(0.0, more) * len(few))

    forward, enter = above(bench.forward, "forward")
    backward, start = above(bench.backward, "backward")
    return Overheads(forward, backward, enter, start, forward_view, backward_view)


class _Passes:
    """Runs modules on a few numbers."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.leaf = torch.rand(4, 4, device=device, requires_grad=True)

    def seconds(self, call: Call) -> float:
        return measure(call, self.device).median

    def forward(self, stage: nn.Module) -> Call:
        return lambda: stage(self.leaf)

    def backward(self, stage: nn.Module) -> Call:
        y: Tensor = stage(self.leaf)
        dy = torch.ones_like(y)
        leaves = [self.leaf, *stage.parameters()]

        def run() -> None:
            for leaf in leaves:
                leaf.grad = None
            y.backward(dy, retain_graph=True)

        return run

    def kernels(self, stage: nn.Module, direction: str) -> list[Kernel]:
        return [kernel for kernel in count(stage, self.leaf).kernels if kernel.direction == direction]


VIEWS = 24


class _Views(nn.Module):
    def forward(self, y: Tensor) -> Tensor:
        for _ in range(VIEWS // 4):
            y = y.t().unsqueeze(0).view(4, 4).transpose(0, 1)
        return y


def _long() -> nn.Module:
    """A dozen kernels of different code, and those of their backward passes."""
    return nn.Sequential(
        nn.Linear(4, 4),
        nn.LayerNorm(4),
        nn.GELU(),
        nn.Linear(4, 4, bias=False),
        nn.Softmax(-1),
        nn.PReLU(),
        nn.Linear(4, 4),
        nn.Sigmoid(),
        nn.BatchNorm1d(4),
        nn.Hardtanh(),
    )
