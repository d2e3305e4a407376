"""What the layer costs. The README derives every term."""

from collections.abc import Callable
from typing import Any

from sympy import Expr, Min
from torch import nn

from porism.costing.alphabet import D, E, H, N
from porism.costing.terms import Terms


def cost(bias: bool = True) -> Terms:
    """The cost of `GraphConvolution(D, H)` on x (N, D) that requires a gradient too.

    E counts the stored entries of A + I, self-loops among them.

    >>> cost().total("parameters")
    H*(D + 1)
    >>> cost().total("flops")
    2*(D*H*N + E*Min(D, H))
    """
    # Propagation is on the narrower side of W, forward and backward.
    return _cost(Min(D, H), bias)


def project_first_cost(bias: bool = True) -> Terms:
    """The cost of Ahat (x W^T), whatever the widths.

    >>> project_first_cost().total("flops")
    2*H*(D*N + E)
    """
    return _cost(H, bias)


def propagate_first_cost(bias: bool = True) -> Terms:
    """The cost of (Ahat x) W^T, whatever the widths.

    >>> propagate_first_cost().total("flops")
    2*D*(E + H*N)
    """
    return _cost(D, bias)


def _cost(propagated_width: Expr, bias: bool) -> Terms:
    return Terms(
        parameters={"weight": D * H} | ({"bias": H} if bias else {}),
        flops={"projection": 2 * N * D * H, "propagation": 2 * E * propagated_width},
        backward_flops={
            "projection": 2 * N * D * H,
            "projection's weight": 2 * N * D * H,
            "propagation": 2 * E * propagated_width,
        },
        # x where W comes first, Ahat x where it does not.
        saved={"features": N * D},
    )


def subject() -> tuple[Callable[[int, int], nn.Module], tuple[Any, ...]]:
    """What `porism cost gcn` counts: the layer at any widths, its input, and a graph of which only sizes are known."""
    from porism.layers.gcn.graph import Outline
    from porism.layers.gcn.layer import GraphConvolution

    return lambda D, H: GraphConvolution(D, H), ("N D", lambda N, E: Outline(N, E))
