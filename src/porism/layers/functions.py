"""Autograd Functions around registered operators: how they are called, vectorised, and made part of their operator."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._functorch.utils import unwrap_dead_wrappers

from porism.costing.counting.operators import DECOMPOSED
from porism.layers.operators import LIBRARY


def call(operator: Any, *operands: Any) -> Any:
    """operator(*operands); in eager code on a CPU its kernel at once, since dispatch takes longer than a small call.

    For the forward of a Function, where autograd is off and torch.func's wrappers are gone.
    """
    if torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack() or not operands[0].is_cpu:
        return operator(*operands)
    return DECOMPOSED[operator](*operands)


def apply(function: Any, *operands: Any) -> Any:
    """function.apply(*operands), without the look at its signature, which takes torch longer than a small call.

    That look fills in default arguments, of which our Functions have none.
    """
    if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
        return function.apply(*operands)
    return super(torch.autograd.Function, function).apply(*unwrap_dead_wrappers(operands))


def differentiate_by(operator: Any, apply: Callable[..., Any]) -> None:
    """Makes a registered operator differentiable where it is called by itself, as programs of torch.export do.

    `apply` takes the operator's operands and gives its answers with their gradient. Without it autograd would look for
    one inside the kernel.
    """

    def kernel(*operands: Any) -> Any:
        if torch.is_grad_enabled() and any(isinstance(x, Tensor) and x.requires_grad for x in operands):
            return apply(*operands)
        with torch._C._AutoDispatchBelowAutograd():
            return operator(*operands)

    LIBRARY.impl(operator.name().removeprefix("porism::"), kernel, "Autograd")


def may_share_memory(*operands: Tensor | None) -> bool:
    """Whether an answer may share memory with what the backward pass reads: wherever an InPlaceWatch sees changes.

    Not in compiled code and not inside a transform of torch.func: there the answer is a copy, `own_memory`.
    """
    if torch.compiler.is_compiling():
        return False
    return not any(x is not None and torch._C._functorch.is_functorch_wrapped_tensor(x) for x in operands)


def may_need_gradient(x: Tensor | None) -> bool:
    """Whether x has to get a gradient. A tensor that torch.func stands for does not always tell."""
    if x is None:
        return False
    return x.requires_grad or (not torch.compiler.is_compiling() and torch._C._functorch.is_functorch_wrapped_tensor(x))


def vmap_by_loop(apply: Callable[..., Any]) -> Any:
    """The `vmap` of an autograd.Function: one call for each member of the vectorised dimension, answers stacked.

    Sums over a batch, such as gradients of weights, are needed for each member, so that dimensions cannot be folded.
    """

    def vmap(info: Any, in_dims: tuple[Any, ...], *operands: Any) -> tuple[Any, Any]:
        members = [
            apply(*(x.select(dim, i) if isinstance(dim, int) else x for x, dim in zip(operands, in_dims, strict=True)))
            for i in range(info.batch_size)
        ]
        if isinstance(members[0], Tensor):
            return torch.stack(members), 0
        return tuple(torch.stack(parts) for parts in zip(*members, strict=True)), (0,) * len(members[0])

    return staticmethod(vmap)
