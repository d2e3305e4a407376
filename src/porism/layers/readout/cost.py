"""What the layer costs. The README derives every term."""

from collections.abc import Callable

from torch import Tensor, nn

from porism.costing.alphabet import B, H, T, V
from porism.costing.terms import Terms


def cost(bias: bool = True, reduction: str = "mean") -> Terms:
    """The cost of `Readout(H, V)` and its loss on states (T, B, H) that ask for a gradient.

    >>> cost().total("parameters")
    V*(H + 1)
    >>> cost(bias=False).total("backward_flops") / cost(bias=False).total("flops")
    2
    """
    return Terms(
        parameters={"weight": H * V} | ({"bias": V} if bias else {}),
        flops={"scores": 2 * B * T * H * V},
        backward_flops={"states": 2 * B * T * H * V, "weight": 2 * B * T * H * V}
        | ({"bias": 2 * B * T * V} if bias else {}),
        # Not the scores, B T V, but the gradients themselves, which are ready after the forward pass. The mean keeps
        # the number of rows that count, too.
        saved={"dh": B * T * H, "dweight": H * V}
        | ({"dbias": V} if bias else {})
        | ({"rows counted": 1} if reduction == "mean" else {}),
    )


def subject() -> tuple[Callable[[int, int], nn.Module], tuple[str, ...]]:
    """What `porism cost readout` counts: the loss at any width and vocabulary, and its inputs."""
    from porism.layers.readout.layer import Readout

    class Loss(nn.Module):
        def __init__(self, width: int, vocabulary: int) -> None:
            super().__init__()
            self.readout = Readout(width, vocabulary)

        def forward(self, h: Tensor, targets: Tensor) -> Tensor:
            return self.readout.loss(h, targets)

    return lambda H, V: Loss(H, V), ("T B H", "T B : int")
