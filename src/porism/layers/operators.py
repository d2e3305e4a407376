"""Operators that torch knows by name: one for eager and compiled code, whole for torch.compile and torch.export.

`register` gives an operator its CPU kernel for every device, what it returns for tensors without numbers, and its FLOPs
for torch's own counter. Counting by `porism.cost` looks through it into the CPU kernel's code. Kernels for one device
override it: `LIBRARY.impl("taylor", by_triton, "CUDA")`.

Gradients stand in autograd Functions around the operators: one calls `porism::NAME` and saves what its backward pass
needs, the other calls `porism::NAME_backward` and refuses a second derivative. That form, unlike torch.library's own
register_autograd, works under torch.func: see `first_derivatives_only`.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NoReturn

import torch
from torch import Tensor
from torch._C._functorch import is_functorch_wrapped_tensor
from torch._functorch.utils import unwrap_dead_wrappers
from torch.utils.flop_counter import flop_registry, register_flop_formula

from porism.costing.counting.count import PRODUCTS
from porism.costing.counting.operators import DECOMPOSED
from porism.layers.derivative import InPlaceWatch

LIBRARY = torch.library.Library("porism", "FRAGMENT")


def register(
    schema: str,
    kernel: Callable[..., Any],
    outline: Callable[..., Any],
    flops: Callable[..., int] | None = None,
    run: Callable[..., Any] | None = None,
    is_opaque: bool = False,
) -> Any:
    """Defines `porism::NAME` and returns it.

    >>> double = register("twice(Tensor x) -> Tensor", lambda x: x + x, torch.empty_like)
    >>> double(torch.ones(2))
    tensor([2., 2.])

    - `schema`: as torch writes it, with a fixed number of new tensors as answers, none of them a view of an operand
    - `kernel`: the code that runs on any device and that `porism.cost` counts
    - `outline`: the same answers without numbers: sizes, strides and types
    - `flops`: its operations from the operands' shapes, for torch.utils.flop_counter.FlopCounterMode
    - `run`: what runs in the kernel's place where nothing is counted, if it has the choice of other kernels
    - `is_opaque`: `porism.cost` counts `flops`, since the kernel is not made of torch's operators
    """
    name = schema[: schema.index("(")]
    LIBRARY.define(schema, tags=torch.Tag.pt2_compliant_tag)
    LIBRARY.impl(name, run or kernel, "CompositeExplicitAutograd")
    torch.library.register_fake(f"porism::{name}", outline, lib=LIBRARY)
    packet = getattr(torch.ops.porism, name)
    if flops is not None:
        register_flop_formula(packet)(flops)
    if is_opaque:
        PRODUCTS[packet] = flop_registry[packet]
    else:
        DECOMPOSED[packet.default] = kernel
    return packet.default


def first_derivatives_only(*_: Any) -> NoReturn:
    """The `backward` of a Function that itself computes a backward pass by hand."""
    raise RuntimeError(
        "this layer gives first derivatives only, and a second one was asked for. "
        "Call its naive.py, which autograd can differentiate as often as you like."
    )


class Function(torch.autograd.Function):
    """An autograd Function around a registered operator, whose arguments it takes.

    Its operands begin with the batch B, or with B times heads, so that `vmap` folds the dimension it maps into that.
    """

    operator: ClassVar[Any]

    @classmethod
    def apply(cls, *args: Any) -> Any:
        if torch._C._are_functorch_transforms_active():
            return super().apply(*args)  # type: ignore[no-untyped-call]
        # Torch's own `apply` binds arguments to names first, which takes longer than a small call.
        return super(torch.autograd.Function, cls).apply(*unwrap_dead_wrappers(args))  # type: ignore[misc]

    @classmethod
    def forward(cls, *args: Any) -> Any:
        with torch._C._AutoDispatchBelowAutograd():
            return cls.operator(*args)

    @classmethod
    def vmap(cls, info: Any, in_dims: Sequence[Any], *args: Any) -> tuple[Any, Any]:
        return cls.mapped(cls.apply, info, in_dims, args)

    @classmethod
    def mapped(
        cls, apply: Callable[..., Any], info: Any, in_dims: Sequence[Any], args: Sequence[Any]
    ) -> tuple[Any, Any]:
        """What `vmap` computes, by one call of `apply`, which is the Function or its operator."""
        return _map_over_batch(apply, info, in_dims, args)

    @staticmethod
    def jvp(*_: Any) -> NoReturn:
        raise RuntimeError(
            "this layer has no forward-mode derivative (jvp). Take the reverse mode: torch.func.vjp, jacrev or grad."
        )


class BackwardFunction(Function):
    """The Function around an operator that computes a backward pass: it has no derivative itself."""

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """Nothing is kept."""

    backward = staticmethod(first_derivatives_only)  # type: ignore[assignment]


def differentiate(function: type[Function], operator: Any) -> None:
    """Puts a Function around an operator, which autograd and vmap take too where the operator itself is called."""
    function.operator, name = operator, operator._schema.name

    def record(*args: Any) -> Any:
        return function.apply(*args) if is_recorded(args) else function.forward(*args)

    def vmap(info: Any, in_dims: Sequence[Any], *args: Any) -> tuple[Any, Any]:
        return function.mapped(operator, info, in_dims, args)

    LIBRARY.impl(name.removeprefix("porism::"), record, "Autograd")
    torch.library.register_vmap(name, vmap, lib=LIBRARY)


def call(operator: Any, function: type[Function], *args: Any) -> Any:
    """Calls an operator, and has autograd record it by its Function where somebody asks for a gradient.

    The first answer may be changed in place by whoever gets it: see `watch_of`.
    """
    if torch.compiler.is_compiling():
        answers = operator(*args)
        if not is_recorded(args):
            return answers
        # Whoever changes the answer changes a copy, which is not compiled where nobody does.
        return answers[0].clone(), *answers[1:]
    if torch._C._are_functorch_transforms_active():
        answer, *rest = function.apply(*args)
        return answer.clone(), *rest
    return function.apply(*args) if is_recorded(args) else function.forward(*args)


def call_linear(operator: Any, function: type[Function], *args: Any) -> Any:
    """As `call`, where the backward pass does not read the answer: one tensor, which needs no copy."""
    if torch.compiler.is_compiling():
        return operator(*args)
    if torch._C._are_functorch_transforms_active() or is_recorded(args):
        return function.apply(*args)
    return function.forward(*args)


def call_backward(function: type[BackwardFunction], *args: Any) -> Any:
    """Calls the operator of a backward pass, by its Function where that could be asked for a derivative."""
    if torch.is_grad_enabled() or torch._C._are_functorch_transforms_active():
        return function.apply(*args)
    return function.forward(*args)


def is_recorded(args: Sequence[Any]) -> bool:
    """Whether autograd records a call with these arguments."""
    return torch.is_grad_enabled() and any(isinstance(x, Tensor) and x.requires_grad for x in args)


def watch_of(answer: Tensor) -> InPlaceWatch | None:
    """What tells a backward pass that reads this answer whether it was changed in place since.

    Save `answer.data`, so that autograd lets users change it, and compute it again where it was changed. None in
    compiled code and inside transforms of torch.func, where users get a copy: save the answer itself.
    """
    return InPlaceWatch(answer) if type(answer) is Tensor and not is_functorch_wrapped_tensor(answer) else None


def _map_over_batch(
    apply: Callable[..., Any], info: Any, in_dims: Sequence[Any], args: Sequence[Any]
) -> tuple[Any, Any]:
    """The mapped dimension becomes a part of the batch, and leaves it again."""
    size = info.batch_size
    answers = apply(*(_fold(size, dim, arg) for arg, dim in zip(args, in_dims, strict=True)))
    unfolded = [_unfold(size, answer) for answer in answers]
    return tuple(answer for answer, _ in unfolded), tuple(dim for _, dim in unfolded)


def _fold(size: int, dim: Any, arg: Any) -> Any:
    if not isinstance(arg, Tensor):
        return arg
    mapped = arg.expand(size, *arg.shape) if dim is None else arg.movedim(dim, 0)
    return mapped.flatten(0, 1)


def _unfold(size: int, answer: Tensor) -> tuple[Tensor, int | None]:
    # One that is empty, since nobody asked for it, has no batch.
    if answer.dim() == 1:
        return answer, None
    return answer.unflatten(0, (size, answer.shape[0] // size)), 0
