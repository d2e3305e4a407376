"""Tensors that outlive the call in which they are made, and so must not belong to a mode that ends with it."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import torch
from torch import Tensor
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
from torch.utils._python_dispatch import _disable_current_modes

from porism.errors import ShapeError
from porism.layers.operands import is_transformed

P = ParamSpec("P")
T = TypeVar("T")


def outside_modes(make: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """make(...) outside torch.func's transforms, fake and counting modes, inference mode and autograd.

    >>> with torch.inference_mode():
    ...     outside_modes(torch.zeros, 3).is_inference()
    False

    What a transform or a mode makes may not be pickled, copied or trained with once it has ended.
    """
    with (
        _disable_current_modes(),
        temporarily_clear_interpreter_stack(),
        torch.inference_mode(False),
        torch.no_grad(),
    ):
        return make(*args, **kwargs)


def check_numbers(name: str, x: Tensor) -> None:
    """Refuses a tensor whose numbers cannot be read here: on meta, or one that a transform stands for."""
    if x.is_meta or is_transformed(x):
        where = "on meta" if x.is_meta else "inside a transform of torch.func"
        raise ShapeError(f"gcn: {name} is {where}, where its numbers cannot be read. Give a tensor from outside of it.")
