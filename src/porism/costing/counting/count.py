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
"""

import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from porism.costing.counting.conditions import Conditions
from porism.costing.counting.gpu.kernels import UNKNOWN_ON_GPU
from porism.costing.counting.kernels import Kernel
from porism.costing.counting.outputs import ChosenOutputs, Outputs
from porism.costing.counting.recorder import Recorder, Tally, TooManyOperators
from porism.costing.counting.saved import AutogradGraph, Saved
from porism.costing.counting.staging import plain_conditions
from porism.costing.counting.workspace import TooLargeToRun
from porism.errors import RecipeError, ShapeError


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
    ends: int = 0
    """Tensors that the backward pass starts from."""
    aside: tuple[str, ...] = ()
    """Attributes of the module that need a gradient, as a router's loss does, and are no part of its output."""
    reads_numbers: bool = False
    """Whether an operator ran that hands numbers to the code, or whose result has a shape that depends on them."""
    has_complex: bool = False
    """Whether a product of complex numbers is among the operations: it counts as four."""
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
    outputs: ChosenOutputs | None = None,
) -> Count:
    """The same with the arguments as they are; without `kernels` their list stays empty, which takes half the time.

    conditions: the answer to every condition on numbers of the data, in place of the true one.
    outputs: what the backward pass starts from; None for all outputs.
    """
    function = getattr(function, "_orig_mod", function)
    try:
        return _count_call(function, args, kwargs, backward, kernels, conditions, outputs, sees_kept=True)
    except ShapeError as error:
        if "saved tensor hooks" not in str(error):
            raise
    # torch.func allows no hooks: what autograd keeps is not seen, all else is counted.
    return _count_call(function, args, kwargs, backward, kernels, conditions, outputs, sees_kept=False)


def _count_call(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    backward: bool,
    kernels: bool,
    conditions: bool | None,
    chosen: ChosenOutputs | None,
    sees_kept: bool,
) -> Count:
    module = function if isinstance(function, nn.Module) else None
    recorder, saved = Recorder(module, kernels, Conditions(conditions, (args, kwargs))), Saved()
    try:
        with _uncompiled(), plain_conditions(), recorder.following_modules(), recorder.noting_numpy():
            with saved.hooks(lambda: recorder.path) if sees_kept else nullcontext(), recorder:
                result = function(*args, **kwargs)
                outputs = Outputs.of(result if chosen is None else chosen.of(result, module))
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
    except (TooManyOperators, TooLargeToRun, RecipeError):
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
        ends=len(outputs.ends),
        aside=aside,
        reads_numbers=recorder.reads_numbers,
        has_complex=recorder.has_complex,
        unmeasured=tuple(
            sorted(UNKNOWN_ON_GPU & {name for path in recorder.products["forward"].values() for name in path})
        ),
        sees_kept=sees_kept,
    )


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
