"""Operators that torch knows by name: one for eager and compiled code, whole for torch.compile and torch.export.

`register` gives an operator its CPU kernel for every device, what it returns for tensors without numbers, and its FLOPs
for torch's own counter. Counting by `porism.cost` looks through it into the CPU kernel's code. Kernels for one device
override it: `LIBRARY.impl("taylor", by_triton, "CUDA")`.

Gradients stand in autograd Functions around the operators: one calls `porism::NAME` and saves what its backward pass
needs, the other calls `porism::NAME_backward` and refuses a second derivative. That form, unlike torch.library's own
register_autograd, works under torch.func: see `first_derivatives_only`.
"""

from collections.abc import Callable
from typing import Any, NoReturn

import torch
from torch.utils.flop_counter import register_flop_formula

from porism.costing.counting.operators import DECOMPOSED

LIBRARY = torch.library.Library("porism", "FRAGMENT")


def register(
    schema: str, kernel: Callable[..., Any], outline: Callable[..., Any], flops: Callable[..., int] | None = None
) -> Any:
    """Defines `porism::NAME` and returns it.

    >>> double = register("twice(Tensor x) -> Tensor", lambda x: x + x, torch.empty_like)
    >>> double(torch.ones(2))
    tensor([2., 2.])

    - `schema`: as torch writes it, with a fixed number of new tensors as answers, none of them a view of an operand
    - `kernel`: the code that runs on any device and that `porism.cost` counts
    - `outline`: the same answers without numbers: sizes, strides and types
    - `flops`: its operations from the operands' shapes, for torch.utils.flop_counter.FlopCounterMode
    """
    name = schema[: schema.index("(")]
    LIBRARY.define(schema, tags=torch.Tag.pt2_compliant_tag)
    LIBRARY.impl(name, kernel, "CompositeExplicitAutograd")
    torch.library.register_fake(f"porism::{name}", outline, lib=LIBRARY)
    packet = getattr(torch.ops.porism, name)
    DECOMPOSED[packet.default] = kernel
    if flops is not None:
        register_flop_formula(packet)(flops)
    return packet.default


def first_derivatives_only(*_: Any) -> NoReturn:
    """The `backward` of a Function that itself computes a backward pass by hand."""
    raise RuntimeError(
        "this layer gives first derivatives only, and a second one was asked for. "
        "Call its naive.py, which autograd can differentiate as often as you like."
    )
