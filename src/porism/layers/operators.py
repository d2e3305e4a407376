"""Operators that torch knows by name: one for eager and compiled code, whole for torch.compile and torch.export.

`register` gives an operator its CPU kernel for every device, what it returns for tensors without numbers, and its FLOPs
for torch's own counter. Counting by `porism.cost` goes through it into the CPU kernel's code.

`differentiate` gives it a gradient: an autograd Function around it, which saves what the backward pass needs, and which
`call` takes where a gradient is requested. The backward pass is an operator too, in a Function of its own, so that a
second derivative is computed or refused. That form, unlike torch.library's own register_autograd, works under
torch.func.

>>> def powers(x):
...     return x * x, x * x * x
>>> POWERS = register("powers(Tensor x) -> (Tensor, Tensor)", powers, lambda x: (torch.empty_like(x),) * 2)
>>> class Powers(Function):
...     @staticmethod
...     def setup_context(ctx, inputs, output):
...         ctx.save_for_backward(*inputs)
...
...     @staticmethod
...     def backward(ctx, d_square, d_cube):
...         x = ctx.saved_tensors[0]
...         return 2 * x * d_square + 3 * x * x * d_cube
>>> differentiate(Powers, POWERS)
>>> x = torch.tensor(3.0, requires_grad=True)
>>> square, cube = call(POWERS, Powers, x)
>>> torch.autograd.grad(square + cube, x)
(tensor(33.),)
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NoReturn

import torch
from torch import Tensor
from torch._C._functorch import is_functorch_wrapped_tensor, is_legacy_batchedtensor
from torch._functorch.utils import unwrap_dead_wrappers
from torch.autograd import forward_ad
from torch.utils.flop_counter import flop_registry, register_flop_formula

from porism.costing.counting.operators import DECOMPOSED
from porism.costing.counting.recorder import PRODUCTS
from porism.layers.derivative import InPlaceWatch, own_memory
from porism.layers.operands import is_transformed

LIBRARY = torch.library.Library("porism", "FRAGMENT")

_KERNELS: dict[Any, Callable[..., Any]] = {}
"""What runs inside each operator."""


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
    - `run`: what runs in the kernel's place where FLOPs are not counted, if it has the choice of other kernels
    - `is_opaque`: `porism.cost` counts `flops`, since the kernel is not made of torch's operators
    """
    name = schema[: schema.index("(")]
    LIBRARY.define(schema, tags=torch.Tag.pt2_compliant_tag)
    LIBRARY.impl(name, run or kernel, "CompositeExplicitAutograd")
    torch.library.register_fake(f"porism::{name}", outline, lib=LIBRARY)
    packet = getattr(torch.ops.porism, name)
    _KERNELS[packet.default] = run or kernel
    if flops is not None:
        register_flop_formula(packet)(flops)
    if is_opaque:
        PRODUCTS[packet] = flop_registry[packet]
    else:
        DECOMPOSED[packet.default] = kernel
    return packet.default


class Function(torch.autograd.Function):
    """An autograd Function around a registered operator, whose arguments it takes and whose answers it gives.

    A layer derives from it, with `setup_context` and `backward`.
    """

    operator: ClassVar[Any]

    context_holds_operands: ClassVar[bool] = True
    """Tensors on the context beside the saved ones are a graph's, which has them with or without a backward pass."""

    is_batched: ClassVar[bool] = False
    """Whether all operands and answers begin with the batch, so that vmap folds the dimension it maps into that."""

    @classmethod
    def apply(cls, *args: Any) -> Any:
        if torch._C._are_functorch_transforms_active():
            return super().apply(*args)  # type: ignore[no-untyped-call]
        # Torch's own `apply` binds arguments to names first, which takes longer than a small call.
        return super(torch.autograd.Function, cls).apply(*unwrap_dead_wrappers(args))  # type: ignore[misc]

    @classmethod
    def forward(cls, *args: Any) -> Any:
        return run(cls.operator, *args)

    @classmethod
    def vmap(cls, info: Any, in_dims: Sequence[Any], *args: Any) -> tuple[Any, Any]:
        return cls.mapped(cls.apply, info, in_dims, args)

    @classmethod
    def mapped(
        cls, apply: Callable[..., Any], info: Any, in_dims: Sequence[Any], args: Sequence[Any]
    ) -> tuple[Any, Any]:
        """What `vmap` computes, by calls of `apply`, which is the Function or its operator."""
        return _map(apply, cls.is_batched, info.batch_size, in_dims, args)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        raise RuntimeError(
            "this layer has no forward-mode derivative (jvp). Take the reverse mode: torch.func.vjp, jacrev or grad."
        )


class BackwardFunction(Function):
    """The Function around an operator that computes a backward pass: it has no derivative itself."""

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """Saves no tensor."""

    @staticmethod
    def backward(*_: Any) -> NoReturn:
        raise RuntimeError(
            "this layer gives first derivatives only, and a second one was requested. "
            "Call its naive.py, which autograd can differentiate as often as you like."
        )


def differentiate(function: type[Function], operator: Any, apply: Callable[..., Any] | None = None) -> None:
    """Puts a Function around an operator, for autograd and vmap also where the operator itself is called.

    Programs of torch.compile and torch.export call it. `apply` takes the operator's arguments and gives its answers
    with their gradient, where those of the Function are others.
    """
    function.operator, name = operator, operator._schema.name
    recorded = function.apply if apply is None else apply

    def record(*args: Any) -> Any:
        return recorded(*args) if is_recorded(args) else run(operator, *args)

    def vmap(info: Any, in_dims: Sequence[Any], *args: Any) -> tuple[Any, Any]:
        return function.mapped(operator, info, in_dims, args)

    LIBRARY.impl(name.removeprefix("porism::"), record, "Autograd")
    torch.library.register_vmap(name, vmap, lib=LIBRARY)


def call(operator: Any, function: type[Function], *args: Any) -> Any:
    """The answers of an operator, recorded by its Function where a gradient is requested.

    The first one may be changed in place by whoever gets it: see `watch_of`.
    """
    if torch.compiler.is_compiling():
        answers = operator(*args)
        if not is_recorded(args):
            return answers
    elif torch._C._are_functorch_transforms_active():
        answers = function.apply(*args)
    else:
        return function.apply(*args) if is_recorded(args) else function.forward(*args)
    return own_memory(answers[0]), *answers[1:]


def call_linear(operator: Any, function: type[Function], *args: Any) -> Any:
    """As `call`, where the backward pass does not read the answer: one tensor, which needs no copy."""
    if torch.compiler.is_compiling():
        return operator(*args)
    if torch._C._are_functorch_transforms_active() or is_recorded(args):
        return function.apply(*args)
    return function.forward(*args)


def call_backward(function: type[Function], *args: Any) -> Any:
    """The operator of a backward pass, recorded by autograd only where its own derivative could be requested."""
    if torch.is_grad_enabled() or torch._C._are_functorch_transforms_active():
        return function.apply(*args)
    return function.forward(*args)


def run(operator: Any, *args: Any) -> Any:
    """The operator below autograd; in eager code on a CPU its kernel itself, since dispatch outlasts a small call."""
    # Gradients of torch.autograd.grad(..., is_grads_batched=True) stand for several.
    if _runs_directly(args):
        return _KERNELS[operator](*args)
    with torch._C._AutoDispatchBelowAutograd():
        return operator(*args)


def is_unobserved(*args: Any) -> bool:
    """Whether nobody records, transforms, traces or counts a call with these arguments, which are on a CPU.

    Only its numbers matter then, and it may be computed without an operator.
    """
    return _runs_directly(args) and not torch._C._are_functorch_transforms_active()


def _runs_directly(args: Sequence[Any]) -> bool:
    is_eager = not torch.compiler.is_compiling() and not torch._C._len_torch_dispatch_stack()
    return is_eager and args[0].is_cpu and not is_legacy_batchedtensor(args[0]) and not is_recorded(args)


def is_recorded(args: Sequence[Any]) -> bool:
    """Whether autograd records a call with these arguments: for the reverse mode, or since one has a tangent."""
    if torch.is_grad_enabled() and any(isinstance(x, Tensor) and x.requires_grad for x in args):
        return True
    # Level -1 is none. The forward mode does not ask whether gradients are enabled, and no compiler has it.
    if torch.compiler.is_compiling() or forward_ad._current_level < 0:
        return False
    return any(isinstance(x, Tensor) and _has_tangent(x) for x in args)


def _has_tangent(x: Tensor) -> bool:
    return forward_ad.unpack_dual(x).tangent is not None


def may_need_gradient(x: Tensor | None) -> bool:
    """Whether x has to get a gradient. A tensor that torch.func stands for does not always tell."""
    return x is not None and (x.requires_grad or is_transformed(x))


def watch_of(answer: Tensor) -> InPlaceWatch | None:
    """What tells a backward pass that reads this answer whether it was changed in place since.

    Save `answer.data`, so that autograd lets users change it, and compute it again where it was changed. None in
    compiled code and inside transforms of torch.func, where users get a copy: save the answer itself.
    """
    return InPlaceWatch(answer) if type(answer) is Tensor and not is_functorch_wrapped_tensor(answer) else None


def _map(
    apply: Callable[..., Any], is_batched: bool, size: int, in_dims: Sequence[Any], args: Sequence[Any]
) -> tuple[Any, Any]:
    """One call for all members of the dimension that vmap maps, or one for each where operands have no batch.

    Sums over a batch, such as gradients of weights, are needed for each member.
    """
    if is_batched:
        answers = apply(*(_fold(size, dim, arg) for arg, dim in zip(args, in_dims, strict=True)))
        unfolded = [_unfold(size, answer) for answer in answers]
        return tuple(answer for answer, _ in unfolded), tuple(dim for _, dim in unfolded)
    return map_by_turns(apply, size, in_dims, args)


def map_by_turns(apply: Callable[..., Any], size: int, in_dims: Sequence[Any], args: Sequence[Any]) -> tuple[Any, Any]:
    """One call for each member of the dimension that vmap maps, answers stacked."""
    members = [
        apply(*(x.select(dim, i) if isinstance(dim, int) else x for x, dim in zip(args, in_dims, strict=True)))
        for i in range(size)
    ]
    if isinstance(members[0], Tensor):
        return torch.stack(members), 0
    return tuple(torch.stack(parts) for parts in zip(*members, strict=True)), (0,) * len(members[0])


def _fold(size: int, dim: Any, arg: Any) -> Any:
    if not isinstance(arg, Tensor):
        return arg
    mapped = arg.expand(size, *arg.shape) if dim is None else arg.movedim(dim, 0)
    return mapped.flatten(0, 1)


def _unfold(size: int, answer: Tensor) -> tuple[Tensor, int | None]:
    # One that is empty, since it was not requested, has no batch.
    if answer.dim() == 1:
        return answer, None
    return answer.unflatten(0, (size, answer.shape[0] // size)), 0
