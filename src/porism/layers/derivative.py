"""Backward passes by hand give first derivatives, and say so."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch.autograd.function import once_differentiable


def first_derivative_only(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Marks the `backward` of an autograd.Function whose own derivative autograd cannot take.

    torch's `once_differentiable` refuses only where the incoming gradient itself asks for one. With a constant incoming
    gradient the second derivative would come out as zero, so the wish for a graph (`create_graph=True`) is refused.
    """
    guarded = once_differentiable(backward)

    @wraps(backward)
    def wrapper(*args: Any) -> Any:
        if torch.is_grad_enabled() and not torch.compiler.is_compiling():
            raise RuntimeError(
                "this layer gives first derivatives only, and create_graph=True asked for more. "
                "Call its naive.py, which autograd can differentiate as often as you like."
            )
        return guarded(*args)

    return wrapper
