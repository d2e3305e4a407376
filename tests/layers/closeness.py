"""How far answers and gradients of attention are off, beside the size of the terms that they are sums of.

A gradient may be 0 because its terms cancel, as that of a query which sees one key alone. What is left is rounding, as
large as the terms allow, and no part of what was expected.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


def attention_errors(
    found: Tensor,
    wanted: Tensor,
    variables: Sequence[Tensor],
    exact: Sequence[Tensor] | None = None,
    scale: float = 1.0,
    layout: Callable[[Tensor], Tensor] = lambda x: x,
) -> list[float]:
    """Of an answer, and of the gradients of q, k, v and others, from one fixed gradient that reaches both answers.

    `exact` are the variables of the answer that is expected, where they are not the same tensors; `layout` is that of
    the gradient that comes in.
    """
    incoming = layout(torch.linspace(-1, 2, wanted.numel(), dtype=wanted.dtype, device=wanted.device).view_as(wanted))
    ours = torch.autograd.grad(found, list(variables), incoming.to(found.dtype), retain_graph=True)
    theirs = torch.autograd.grad(wanted, list(variables if exact is None else exact), incoming, retain_graph=True)
    return [error(found, wanted), *gradient_errors(ours, theirs, variables, incoming, scale)]


def gradient_errors(
    found: Sequence[Tensor],
    wanted: Sequence[Tensor],
    variables: Sequence[Tensor],
    incoming: Tensor,
    scale: float = 1.0,
) -> list[float]:
    """Of the gradients of variables, q, k and v the first of them."""
    sizes = gradient_sizes([largest(x) for x in variables], scale)
    parts = zip(found, wanted, sizes, strict=True)
    return [error(ours, theirs, size * largest(incoming)) for ours, theirs, size in parts]


def gradient_sizes(variables: Sequence[float], scale: float = 1.0) -> list[float]:
    """The size of the terms of each gradient beside that of what comes in, from the sizes of the variables.

    dq is a sum of v k, dk of v q, times the scale of logits, dv of weights. Others may be all of these.
    """
    if len(variables) < 3:
        return [max(variables) ** 2] * len(variables)
    q, k, v, *others = variables
    return [abs(scale) * k * v, abs(scale) * q * v, 1.0, *(abs(scale) * max(k, q) * v for _ in others)]


@torch.no_grad()
def error(found: Tensor, wanted: Tensor, size: float = 0.0) -> float:
    """The largest difference, as a part of the largest number expected, or of the size of the terms if that is more."""
    if found.shape != wanted.shape:
        return float("inf")
    off = float((found.to(wanted) - wanted).abs().max()) if wanted.numel() else 0.0
    return off / (max(largest(wanted), size) or 1.0)


def largest(x: Tensor) -> float:
    return float(x.detach().abs().max()) if x.numel() else 0.0
