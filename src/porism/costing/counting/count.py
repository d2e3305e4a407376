"""Count what one run of a module or a function does: products, elementwise work, bytes kept for the backward pass.

>>> import torch
>>> with torch.device("meta"):                                    # shapes only: no memory, no arithmetic
...     counted = count(torch.nn.Linear(50, 100), torch.randn(4, 50))
>>> counted.flops, counted.backward_flops                         # x needs no gradient, so one product in the backward
(40000, 40000)
>>> counted.forward
{'': {'addmm': 40000}}
>>> counted.saved_bytes, counted.parameters.count, counted.uncounted
(800, 5100, {})

Every operator that torch runs falls in one of four classes: a product (it has a formula), free (it moves, allocates,
indexes or compares), elementwise, or uncounted, which is listed by name and never passed over.
"""

import math
import sys
import warnings
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch._ops import HigherOrderOperator
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass_type
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from porism.costing.counting.conditions import Conditions
from porism.costing.counting.flops import CORRECTIONS
from porism.costing.counting.gpu.kernels import UNKNOWN_ON_GPU
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
from porism.costing.counting.outputs import Outputs
from porism.costing.counting.passes import is_of_gradient
from porism.costing.counting.saved import AutogradGraph, Saved
from porism.costing.counting.workspace import TooLargeToRun
from porism.errors import CostError, ShapeError

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


@dataclass(frozen=True)
class Parameters:
    """Numbers and bytes of a module's parameters, a tied one once; the frozen ones are apart from the others."""

    count: int = 0
    bytes: int = 0
    frozen_count: int = 0
    frozen_bytes: int = 0


@dataclass(frozen=True)
class Count:
    """What one run did. The tallies go from a module's path ("" is the root) to an operator's name to a number.

    An operator counts for the innermost module that ran it, so the sum over all paths is the total, and the sum over a
    path and those below it is that submodule's (`total(counted.forward, path)`). The causal tallies are those products
    of `forward` and `backward` that a kernel masks causally: of each, half is needed.
    `kernels` lists every call that did work, in the order they ran. `ahead` are the modules that compute some of their
    gradient in the forward pass: it is among the backward tallies.
    """

    forward: Tally
    backward: Tally
    elementwise_forward: Tally
    elementwise_backward: Tally
    causal_forward: Tally
    causal_backward: Tally
    uncounted: dict[str, int]
    saved: dict[str, int]
    parameters: Parameters
    kernels: tuple[Kernel, ...] = ()
    ahead: frozenset[str] = frozenset()
    unsearched: tuple[str, ...] = ()
    """Types of objects among the outputs that hide what they hold."""
    aside: tuple[str, ...] = ()
    """Attributes of the module that need a gradient, as a router's loss does, and are no part of its output."""
    reads_numbers: bool = False
    """Whether an operator ran that hands numbers to the code, or whose result has a shape that depends on them."""
    unmeasured: tuple[str, ...] = ()
    """Operators that keep memory of a size that only the library of a GPU tells, left out of `saved`."""
    sees_kept: bool = True
    """Whether `saved` was seen: not where torch.func takes gradients, which lets nobody look."""

    @property
    def flops(self) -> int:
        return total(self.forward)

    @property
    def backward_flops(self) -> int:
        return total(self.backward)

    @property
    def saved_bytes(self) -> int:
        return sum(self.saved.values())


def total(tally: Tally, path: str = "") -> int:
    """The sum of a tally over one module and all below it."""
    return sum(
        sum(operators.values())
        for where, operators in tally.items()
        if not path or where == path or where.startswith(f"{path}.")
    )


def count(function: Callable[..., Any], *args: Any, backward: bool = True, **kwargs: Any) -> Count:
    """Run `function(*args, **kwargs)` once, and its backward pass where something needs a gradient; tell what they did.

    The backward pass is that of the sum of all outputs, whatever they are wrapped in. It runs on the device of the
    tensors, `meta` in the usual case. Gradients that the parameters had before are left as they were.

    Saved bytes are the storages that autograd keeps, each once and whole, less those of parameters; an input that is
    kept counts, and so does what a function has hung on its context.

    A checkpointed segment keeps its inputs, and its second run counts as backward. What a compiled module does is
    counted on the module it was made from.
    """
    return count_call(function, args, kwargs, backward=backward)


def count_call(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    *,
    backward: bool = True,
    kernels: bool = True,
    conditions: bool | None = None,
) -> Count:
    """The same with the arguments as they are; without `kernels` their list stays empty, which takes half the time.

    conditions: the answer to every condition on numbers of the data, in place of the true one.
    """
    function = getattr(function, "_orig_mod", function)
    try:
        return _count_call(function, args, kwargs, backward, kernels, conditions, sees_kept=True)
    except ShapeError as error:
        if "saved tensor hooks" not in str(error):
            raise
    # torch.func allows no hooks: what autograd keeps is not seen, all else is counted.
    return _count_call(function, args, kwargs, backward, kernels, conditions, sees_kept=False)


def _count_call(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    backward: bool,
    kernels: bool,
    conditions: bool | None,
    sees_kept: bool,
) -> Count:
    module = function if isinstance(function, nn.Module) else None
    recorder, saved = _Recorder(module, kernels, Conditions(conditions, (args, kwargs))), Saved()
    try:
        with _uncompiled(), recorder.following_modules():
            with saved.hooks(lambda: recorder.path) if sees_kept else nullcontext(), recorder:
                outputs = Outputs.of(function(*args, **kwargs))
            parameters = _parameters(function, args, kwargs)
            graph = AutogradGraph.of(outputs.ends)
            for node, tensor in graph.kept_by_hand():
                saved.keep(tensor, recorder.path_of(node))
            kept = saved.bytes_by_path(parameters)
            aside = () if module is None else tuple(graph.left_out(module))
            if backward and outputs.ends:
                seeds = [torch.ones_like(tensor) for tensor in outputs.ends]
                recorder.direction = "backward"
                with _gradients_untouched({*graph.leaves, *parameters}), recorder:
                    torch.autograd.backward(outputs.ends, seeds)
    except (TooManyOperators, TooLargeToRun):
        raise
    except Exception as error:
        raise _failure(function, error) from error
    return Count(
        forward=recorder.products["forward"],
        backward=recorder.products["backward"],
        elementwise_forward=recorder.elementwise["forward"],
        elementwise_backward=recorder.elementwise["backward"],
        causal_forward=recorder.causal["forward"],
        causal_backward=recorder.causal["backward"],
        uncounted=dict(sorted(recorder.uncounted.items())),
        saved=kept,
        parameters=_count_parameters(function) if isinstance(function, nn.Module) else Parameters(),
        kernels=tuple(recorder.kernels),
        ahead=frozenset(recorder.ahead),
        unsearched=tuple(dict.fromkeys(outputs.unsearched)),
        aside=aside,
        reads_numbers=recorder.reads_numbers,
        unmeasured=tuple(
            sorted(UNKNOWN_ON_GPU & {name for path in recorder.products["forward"].values() for name in path})
        ),
        sees_kept=sees_kept,
    )


class _Recorder(TorchDispatchMode):
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

    def _name(self, module: nn.Module, path: str) -> None:
        for name, submodule in module.named_modules(prefix=path):
            # A compiled submodule wraps the original; the wrapper's name is of no use.
            parts = [part for part in name.split(".") if part != "_orig_mod"]
            self._paths.setdefault(submodule, ".".join(parts))

    def _mark(self) -> None:
        self._first_nodes.append(torch._C._autograd._get_sequence_nr())
        self._node_paths.append(self._running[-1] if self._running else "")

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if operator is torch.ops.prim.device.default and isinstance(args[0], FakeTensor):
            return args[0].fake_device  # read more often than all else together
        kwargs = kwargs or {}
        if any(is_traceable_wrapper_subclass_type(kind) for kind in types):
            return (
                NotImplemented  # a ragged or distributed tensor knows what to do, and the tensors inside it come here
            )
        inside = DECOMPOSED.get(operator) or (operator.decompose if _is_composite(operator) else None)
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
        self._record(operator, args, kwargs, out)
        return out

    def _record(self, operator: Any, args: Any, kwargs: Any, out: Any) -> None:
        known = _traits(operator)
        self.reads_numbers = self.reads_numbers or known.reads_numbers
        formula = PRODUCTS.get(known.packet)
        path, elements = self.path, 0
        try:
            flops = formula(*args, **kwargs, out_val=out) if formula else 0
        except Exception:  # a formula that does not know this layout of its operator must not pass for a zero
            self.uncounted[known.name] += 1
            return
        if flops and not known.name.startswith("_fft") and _is_complex(args):
            flops *= 4  # real products, with the sums of their parts
        if flops:
            self._add(self.products, path, known.name, flops)
            if known.may_be_causal and named_arguments(operator, args, kwargs).get("is_causal"):
                self._add(self.causal, path, known.name, flops)
        elif known.is_elementwise:
            elements = elementwise_elements(operator, args, kwargs, out)
            self._add(self.elementwise, path, known.name, elements)
        elif formula is None and not known.is_free:
            self.uncounted[known.name] += 1
        if not self._lists_kernels:
            return
        if known.is_still:
            self._still += 1
            return
        moved = moved_bytes(operator, args, kwargs, out)
        amounts = work(operator, args, kwargs, out, flops, moved)
        self.kernels.append(Kernel(self.direction, path, known.name, flops, elements, moved, amounts, 1 + self._still))
        self._still = 0

    def _add(self, tallies: dict[str, Tally], path: str, name: str, number: int) -> None:
        direction = self.direction
        if direction == "forward" and is_of_gradient():
            direction = "backward"
            self.ahead.add(path)
        operators = tallies[direction].setdefault(path, {})
        operators[name] = operators.get(name, 0) + number


def _is_complex(args: Any) -> bool:
    return any(isinstance(value, Tensor) and value.is_complex() for value in args)


_READING = (torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape)


class _Traits(NamedTuple):
    """What is the same at every call of an operator."""

    packet: Any
    name: str
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
        # One without a schema names its arguments at the call.
        schema is None or any(argument.name == "is_causal" for argument in schema.arguments),
        is_elementwise(operator),
        is_free(operator),
        is_still(operator),
        any(tag in getattr(operator, "tags", ()) for tag in _READING),
    )


@cache
def _is_composite(operator: Any) -> bool:
    """Is it made of other operators, which are then counted in its place? Needed at every call, so cached."""
    if isinstance(operator, HigherOrderOperator) or base_name(operator) in FREE:
        return False
    key = torch._C.DispatchKey.CompositeImplicitAutograd
    return key in operator.py_kernels or torch._C._dispatch_has_kernel_for_dispatch_key(operator.name(), key)


def _parameters(*used: Any) -> list[nn.Parameter]:
    """The parameters of the modules among a call's parts, and of the module that a bound method belongs to."""
    leaves = [getattr(leaf, "__self__", leaf) for leaf in tree_leaves(used)]
    return [parameter for leaf in leaves if isinstance(leaf, nn.Module) for parameter in leaf.parameters()]


def _count_parameters(module: nn.Module) -> Parameters:
    sizes: Counter[str] = Counter()
    for parameter in module.parameters():
        frozen = "" if parameter.requires_grad else "frozen_"
        sizes[f"{frozen}count"] += parameter.numel()
        sizes[f"{frozen}bytes"] += parameter.numel() * parameter.itemsize
    return Parameters(**sizes)


@contextmanager
def _gradients_untouched(leaves: set[Tensor]) -> Iterator[None]:
    """Take the gradients off all leaves that the backward pass reaches, and put them back after it."""
    gradients = {leaf: leaf.grad for leaf in leaves}
    try:
        for leaf in leaves:
            leaf.grad = None
        yield
    finally:
        for leaf, gradient in gradients.items():
            leaf.grad = gradient


@contextmanager
def _uncompiled() -> Iterator[None]:
    """Run the original of whatever is compiled; none is, where the compiler was never loaded."""
    if "torch._dynamo" not in sys.modules:
        yield
        return
    with warnings.catch_warnings(), torch.compiler.set_stance("force_eager"):
        # A compiled module and its original both tell when they run. They have one path, so that does no harm.
        warnings.filterwarnings("ignore", message="Using `torch.compile.module.` when there are global hooks")
        yield


def _failure(function: Any, error: Exception) -> ShapeError:
    name = type(function).__name__ if isinstance(function, nn.Module) else getattr(function, "__name__", str(function))
    message = next(iter(str(error).strip().splitlines()), "").rstrip(".:")
    reason = f"{type(error).__name__}: {message}" if message else type(error).__name__
    return ShapeError(f"cost: {name} raised {reason}. Give inputs it runs on, on a device it runs on.")
