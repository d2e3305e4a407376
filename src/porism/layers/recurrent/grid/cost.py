"""What the layer costs. The README derives every term."""

from collections.abc import Callable

from sympy import Expr
from torch import nn

from porism.costing.alphabet import B, C, H, X, Y
from porism.costing.terms import Terms
from porism.layers.recurrent.grid.kernels.cpu import GATES
from porism.layers.recurrent.grid.kernels.diagonals import DIRECTIONS

LARGEST = {"Y": 16, "X": 16}
"""Up to which the layer is counted: every diagonal is a diagonal of its own, so that more would take long."""


def cost(cell: str = "rnn", bias: bool = False, directions: int = 1) -> Terms:
    """The cost of `Grid(C, H, ...)` on x (B, C, Y, X), x asking for a gradient too.

    >>> cost().total("parameters")
    H*(C + 2*H)
    >>> cost().terms("flops")["left"]
    2*B*H**2*Y*(X - 1)
    """
    width = GATES[cell] * H
    # All pixels have an input; the first column has no left neighbour, the first row no top one.
    products = {
        "input": 2 * B * Y * X * C * width,
        "left": 2 * B * Y * (X - 1) * H * width,
        "top": 2 * B * (Y - 1) * X * H * width,
    }
    saved: dict[str, Expr] = {"states": B * Y * X * H}
    if cell == "lstm":
        saved |= {"gates": B * Y * X * width, "memory": B * Y * X * H}
    one = Terms(
        parameters={"input": C * width, "left": H * width, "top": H * width} | ({"bias": width} if bias else {}),
        flops=products,
        backward_flops=products | {f"{name} weights": work for name, work in products.items()},
        saved=saved,
    )
    # Every scan reads the same x.
    total = Terms(saved={"x": B * C * Y * X})
    for direction in DIRECTIONS[:directions]:
        total += one.with_prefix(direction) if directions > 1 else one
    return total


def parallel_steps() -> Expr:
    """How many diagonals wait for each other.

    >>> parallel_steps()
    X + Y - 1
    """
    return Y + X - 1


def subject() -> tuple[Callable[[int, int], nn.Module], tuple[str, ...]]:
    """What `porism cost grid` counts: the layer at any widths, and its input."""
    from porism.layers.recurrent.grid.layer import Grid

    return lambda C, H: Grid(C, H), ("B C Y X",)
