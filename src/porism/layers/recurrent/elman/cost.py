"""What the layer costs. The README derives every term."""

from collections.abc import Callable

from torch import nn

from porism.costing.alphabet import B, D, H, T
from porism.costing.terms import Terms


def cost(num_layers: int = 1, bias: bool = True, bidirectional: bool = False) -> Terms:
    """The cost of `Elman(D, H, ...)` on x (T, B, D), no dropout, x and the first state asking for gradients too.

    >>> cost().total("parameters")
    H*(D + H + 1)
    >>> cost().total("flops")
    2*B*H*T*(D + H)
    """
    directions = ("", "_reverse") if bidirectional else ("",)
    total = Terms()
    for layer in range(num_layers):
        # A layer above the first reads the states of every direction below it.
        width = D if layer == 0 else len(directions) * H
        # Those states are kept already, unless two directions are copied side by side.
        kept = layer > 0 and not bidirectional
        one = Terms(
            parameters={"input": width * H, "recurrent": H**2} | ({"bias": H} if bias else {}),
            flops={"input": 2 * B * T * width * H, "recurrent": 2 * B * T * H**2},
            backward_flops={
                "input": 2 * B * T * width * H,
                "input weights": 2 * B * T * width * H,
                "recurrent": 2 * B * T * H**2,
                "recurrent weights": 2 * B * T * H**2,
            },
            saved={"x": 0 if kept else B * T * width, "states": B * (T + 1) * H},
        )
        for direction in directions:
            total += one.with_prefix(f"l{layer}{direction}") if num_layers > 1 or bidirectional else one
    return total


def subject() -> tuple[Callable[[int, int], nn.Module], tuple[str, ...]]:
    """What `porism cost elman` counts: the layer at any widths, and its input."""
    from porism.layers.recurrent.elman.layer import Elman

    return lambda D, H: Elman(D, H), ("T B D",)
