"""Every operator of a run, with the module and the pass it belongs to.

It falls in one of four classes: a product (it has a formula), free (it moves, allocates, indexes or compares),
elementwise, or uncounted, which is listed by name and never passed over.
"""

import math
import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch._ops import HigherOrderOperator
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass_type
from torch.utils.flop_counter import flop_registry

from porism.costing.counting import messages
from porism.costing.counting.conditions import Conditions
from porism.costing.counting.flops import CORRECTIONS
from porism.costing.counting.kernels import Kernel, work
from porism.costing.counting.operators import (
    DECOMPOSED,
    FREE,
    base_name,
    elementwise_elements,
    is_elementwise,
    is_free,
    is_still,
    moved_bytes,
    named_arguments,
)
from porism.costing.counting.passes import is_of_gradient
from porism.errors import CostError

Tally = dict[str, dict[str, int]]

_MOST_OPERATORS: ContextVar[float] = ContextVar("most_operators", default=math.inf)


class TooManyOperators(CostError):
    """A run was given up, since it called more operators than it was allowed to."""


@contextmanager
def at_most(operators: int) -> Iterator[None]:
    """Give up counts inside that call more operators: TooManyOperators is raised."""
    before = _MOST_OPERATORS.set(operators)
    try:
        yield
    finally:
        _MOST_OPERATORS.reset(before)


PRODUCTS: dict[Any, Callable[..., int]] = {**flop_registry, **CORRECTIONS}


class Recorder(TorchDispatchMode):
    """Sees every operator that reaches a kernel, and knows the module and the pass it runs in."""

    # An operator that carries functions (flex attention) is counted by its formula or named as uncounted.
    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Nothing is compiled here, and the guard against it would take a third of the time.
        return False

    def __init__(self, root: nn.Module | None, lists_kernels: bool, conditions: Conditions) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.products: dict[str, Tally] = {"forward": {}, "backward": {}}
        self.elementwise: dict[str, Tally] = {"forward": {}, "backward": {}}
        self.causal: dict[str, Tally] = {"forward": {}, "backward": {}}
        self.uncounted: Counter[str] = Counter()
        self.kernels: list[Kernel] = []
        self.ahead: set[str] = set()
        self.reads_numbers = False
        self.has_complex = False
        self._lists_kernels = lists_kernels
        self._conditions = conditions
        self.direction = "forward"
        self._operators = 0
        self._most = _MOST_OPERATORS.get()
        self._still = 0
        self._paths: dict[nn.Module, str] = {}
        self._running: list[str] = []
        # Autograd numbers its nodes as the forward pass makes them: these are the numbers at which the module changed,
        # and so a node's number tells the module it belongs to.
        self._first_nodes = [torch._C._autograd._get_sequence_nr()]
        self._node_paths = [""]
        if root is not None:
            self._name(root, "")

    @property
    def path(self) -> str:
        """The innermost module that runs now, or whose backward pass runs."""
        if self._running:
            return self._running[-1]
        node = torch._C._current_autograd_node()
        return "" if node is None else self.path_of(node)

    def path_of(self, node: Any) -> str:
        """The innermost module that made a node of autograd."""
        return self._node_paths[max(0, bisect_right(self._first_nodes, node._sequence_nr()) - 1)]

    @contextmanager
    def following_modules(self) -> Iterator[None]:
        def enter(module: nn.Module, _inputs: Any) -> None:
            if module not in self._paths:
                self._name(module, f"{self.path}.{type(module).__name__}".lstrip("."))
            self._running.append(self._paths[module])
            self._mark()

        def leave(_module: nn.Module, _inputs: Any, _output: Any) -> None:
            self._running.pop()
            self._mark()

        before = register_module_forward_pre_hook(enter)
        # A checkpointed segment ends its second run with an exception once all is there; its modules are left by that.
        after = register_module_forward_hook(leave, always_call=True)
        try:
            yield
        finally:
            before.remove()
            after.remove()

    @contextmanager
    def noting_numpy(self) -> Iterator[None]:
        """A tensor that is handed to NumPy is noted as not counted: what is computed there is not seen.

        Our own code hands tensors to kernels whose work its operators have a formula for.
        """
        numpy, outer = Tensor.numpy, Tensor.__dict__.get("numpy")

        def handed_over(tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
            if not sys._getframe(1).f_globals.get("__name__", "").startswith("porism."):
                self.uncounted["NumPy"] += 1
            return numpy(tensor, *args, **kwargs)

        Tensor.numpy = handed_over  # type: ignore[assignment, method-assign]
        try:
            yield
        finally:
            if outer is None:
                del Tensor.numpy  # that of torch's C++ comes back
            else:
                Tensor.numpy = outer  # type: ignore[method-assign]

    def _name(self, module: nn.Module, path: str) -> None:
        for name, submodule in module.named_modules(prefix=path):
            # A compiled submodule wraps the original; the wrapper's name is of no use.
            parts = [part for part in name.split(".") if part != "_orig_mod"]
            self._paths.setdefault(submodule, ".".join(parts))

    def _mark(self) -> None:
        self._first_nodes.append(torch._C._autograd._get_sequence_nr())
        self._node_paths.append(self._running[-1] if self._running else "")

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if operator is _DEVICE and isinstance(args[0], FakeTensor):
            return args[0].fake_device  # read more often than all else together
        kwargs = kwargs or {}
        for kind in types:
            if _is_wrapper(kind):
                return NotImplemented  # a ragged or distributed tensor knows what to do, and those inside it come here
        known = _traits(operator)
        inside = None if known.is_torchs else DECOMPOSED.get(operator)
        if inside is None and known.is_composite:
            inside = operator.decompose
        if inside is not None:
            with self:
                return inside(*args, **kwargs)
        self._operators += 1
        if self._operators > self._most:
            raise TooManyOperators(f"cost: more than {self._most:,} operators are too many to count here.")
        out = self._conditions.answer(operator, args)
        if out is None:
            out = operator(*args, **kwargs)
            self._conditions.follow(operator, args, kwargs, out)
        if isinstance(out, list | tuple):
            self._operators += len(out)  # a sequence cut into its steps: each of them takes as long as an operator
        self._record(operator, known, args, kwargs, out)
        return out

    def _record(self, operator: Any, known: "_Traits", args: Any, kwargs: Any, out: Any) -> None:
        self.reads_numbers = self.reads_numbers or known.reads_numbers
        formula = PRODUCTS.get(known.packet)
        path, elements = self.path, 0
        work_of_elements = None
        try:
            flops = formula(*args, **kwargs, out_val=out) if formula else 0
        except Exception:  # a formula that does not know this layout of its operator must not pass for a zero
            self.uncounted[known.name] += 1
            return
        if known.role == "sums":
            flops = flops or messages.summed(operator, args, kwargs)
        if flops and not known.name.startswith("_fft") and _is_complex(args):
            flops *= 4  # real products, with the sums of their parts
            self.has_complex = True
        if flops:
            self._add(self.products, path, known.name, flops)
            if known.may_be_causal and named_arguments(operator, args, kwargs).get("is_causal"):
                self._add(self.causal, path, known.name, flops)
        elif known.is_elementwise:
            elements = elementwise_elements(operator, args, kwargs, out)
            tally = self._add(self.elementwise, path, known.name, elements)
            work_of_elements = messages.Elementwise(tally, known.name, elements)
        elif formula is None and not known.is_free:
            self.uncounted[known.name] += 1
        if known.role in ("picks", "carries"):
            messages.follow(known.role, args, out, work_of_elements)
        if not self._lists_kernels:
            return
        if known.is_still:
            self._still += 1
            return
        moved = moved_bytes(operator, args, kwargs, out)
        amounts = work(operator, args, kwargs, out, flops, moved)
        self.kernels.append(Kernel(self.direction, path, known.name, flops, elements, moved, amounts, 1 + self._still))
        self._still = 0

    def _add(self, tallies: dict[str, Tally], path: str, name: str, number: int) -> dict[str, int]:
        direction = self.direction
        if direction == "forward" and is_of_gradient():
            direction = "backward"
            self.ahead.add(path)
        operators = tallies[direction].setdefault(path, {})
        operators[name] = operators.get(name, 0) + number
        return operators


def _is_complex(args: Any) -> bool:
    return any(isinstance(value, Tensor) and value.is_complex() for value in args)


_DEVICE = torch.ops.prim.device.default
_READING = (torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape)


class _Traits(NamedTuple):
    """What is the same at every call of an operator."""

    packet: Any
    name: str
    is_torchs: bool
    is_composite: bool
    role: str
    may_be_causal: bool
    is_elementwise: bool
    is_free: bool
    is_still: bool
    reads_numbers: bool


@cache
def _traits(operator: Any) -> _Traits:
    packet = getattr(operator, "_overloadpacket", operator)
    schema = getattr(operator, "_schema", None)
    return _Traits(
        packet,
        str(packet).removeprefix("aten."),
        getattr(operator, "namespace", "") == "aten",
        _is_composite(operator),
        messages.role(operator),
        # One without a schema names its arguments at the call.
        schema is None or any(argument.name == "is_causal" for argument in schema.arguments),
        is_elementwise(operator),
        is_free(operator),
        is_still(operator),
        any(tag in getattr(operator, "tags", ()) for tag in _READING),
    )


@cache
def _is_wrapper(kind: type) -> bool:
    return is_traceable_wrapper_subclass_type(kind)


def _is_composite(operator: Any) -> bool:
    """Is it made of other operators, which are then counted in its place?"""
    if isinstance(operator, HigherOrderOperator) or base_name(operator) in FREE:
        return False
    key = torch._C.DispatchKey.CompositeImplicitAutograd
    return key in operator.py_kernels or torch._C._dispatch_has_kernel_for_dispatch_key(operator.name(), key)
