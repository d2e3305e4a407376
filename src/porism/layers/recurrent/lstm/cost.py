"""What the layer costs. The README derives every term."""

from collections.abc import Callable

from sympy import Expr
from torch import nn

from porism.costing.alphabet import B, D, H, T
from porism.costing.terms import Terms
from porism.layers.recurrent.lstm.functional import FUSED_ON_CPU


def cost(num_layers: int = 1, bias: bool = True, bidirectional: bool = False) -> Terms:
    """The cost of `LSTM(D, H, ...)` on input (T, B, D) in float64, no dropout, input and state asking for gradients.

    >>> cost().total("parameters")
    4*H*(D + H + 2)
    >>> cost().total("flops")
    8*B*H*T*(D + H)
    """
    directions = ("", "_reverse") if bidirectional else ("",)
    total = Terms()
    for layer in range(num_layers):
        # A layer above the first reads the states of every direction below it.
        width = D if layer == 0 else len(directions) * H
        products = {"input": 8 * B * T * width * H, "recurrent": 8 * B * T * H**2}
        one = Terms(
            parameters={"input": 4 * width * H, "recurrent": 4 * H**2} | ({"biases": 8 * H} if bias else {}),
            flops=products,
            backward_flops=products | {f"{name} weights": work for name, work in products.items()},
            saved={"x": B * T * width, "gates": 4 * B * T * H} | _memory(bias),
        )
        for direction in directions:
            total += one.with_prefix(f"l{layer}{direction}") if num_layers > 1 or bidirectional else one
    return total


def _memory(bias: bool) -> dict[str, Expr]:
    """What is kept of h and c. torch's fused kernels keep a workspace in float32, whose size oneDNN decides."""
    if FUSED_ON_CPU:
        # Of every step h[t-1], c[t-1] and tanh(c[t]).
        return {"states": B * T * H, "memory": 2 * B * T * H}
    # Of every step h[t] and c[t]; and for a second derivative what the first step began with.
    kept = {"states": B * (T + 1) * H, "memory": B * (T + 1) * H, "first state and memory": 2 * B * H}
    return kept | ({"sum of the biases": 4 * H} if bias else {})


def subject() -> tuple[Callable[[int, int], nn.Module], tuple[str, ...]]:
    """What `porism cost lstm` counts: the layer at any widths, and its input."""
    from porism.layers.recurrent.lstm.layer import LSTM

    return lambda D, H: LSTM(D, H), ("T B D",)
