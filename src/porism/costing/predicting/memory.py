"""What training keeps in memory beside the data: weights, their gradients, the optimizer's state, activations."""

import copy
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, Generic, TypeVar, cast

import torch
from sympy import Expr, sympify
from torch import Tensor, nn
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.profiler import ProfilerActivity, profile
from torch.utils._pytree import tree_leaves, tree_map_only

from porism.costing.alphabet import factored
from porism.costing.counting.live import LiveBytes
from porism.costing.counting.outputs import Outputs, tensors_of
from porism.costing.given_numbers import check_budget
from porism.costing.quantity import Quantity
from porism.errors import CostError, DeviceError, RecipeError, shown

Bytes = TypeVar("Bytes")

OPTIMIZERS = {"sgd": (0, 0), "momentum": (1, 0), "rmsprop": (1, 4), "adagrad": (1, 4), "adam": (2, 4), "adamw": (2, 4)}
"""What torch's optimizers keep: tensors of the size of each trained one, and bytes of a step counter beside them."""


@dataclass(frozen=True)
class Memory(Generic[Bytes]):
    """Bytes in training: formulas, or at given sizes quantities. A frozen weight has no gradient and no state."""

    parameters: Bytes
    gradients: Bytes
    optimizer: Bytes
    activations: Bytes

    @property
    def parts(self) -> dict[str, Bytes]:
        return {part.name: getattr(self, part.name) for part in fields(self)}

    @property
    def total(self) -> Bytes:
        parts: list[Any] = list(self.parts.values())
        return cast("Bytes", Quantity.total(parts) if isinstance(parts[0], Quantity) else factored(sum(parts)))


def check_optimizer(name: str) -> None:
    if name not in OPTIMIZERS:
        raise RecipeError(f"cost: {name!r} is no optimizer known here. Choose from {', '.join(OPTIMIZERS)}.")


def state_bytes(optimizer: str, gradient_bytes: Expr, trained_tensors: Expr) -> Expr:
    """What an optimizer keeps for the trained tensors."""
    states, counter = OPTIMIZERS[optimizer]
    return factored(states * sympify(gradient_bytes) + counter * trained_tensors)


def bytes_of(available: float | str | torch.device) -> int:
    """Bytes from a number, from a text with a unit, or the memory of a device.

    >>> bytes_of(24e9), bytes_of("24GB"), bytes_of("80 GiB")
    (24000000000, 24000000000, 85899345920)
    """
    if not isinstance(available, str | torch.device):
        return int(check_budget("memory", available))
    if isinstance(available, str):
        found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([KMGT]?)(i?)B?", available.strip(), re.IGNORECASE)
        if found:
            number, prefix, binary = found.groups()
            unit = (1024 if binary else 1000) ** " KMGT".index(prefix.upper() or " ")
            return int(check_budget(f"memory of {shown(available)}", float(number) * unit))
    try:
        device = torch.device(available)
    except RuntimeError:
        raise CostError(
            f"cost: {shown(available)} is neither bytes nor a device. Write for instance 24GB or cuda."
        ) from None
    if device.type not in ("cpu", "cuda") or (device.type == "cuda" and not torch.cuda.is_available()):
        raise DeviceError(f"cost: device {available} is not there to fit into. Write its memory, for instance 24GB.")
    return _memory(device)


ROOTS = {"rmsprop": 1, "adagrad": 1, "adam": 2, "adamw": 2}
"""Tensors of a parameter's size that an update makes on its way: a root, and the root divided by Adam's correction."""


PARTS = ("parameters", "gradients", "optimizer", "activations", "transient")


@dataclass(frozen=True)
class Fit:
    """Bytes at the worst moment of a training step.

    `parameters` are all of them and the buffers, `optimizer` is the state for the trainable ones, `activations` what
    autograd keeps and the inputs, `transient` all else. `measured` is the peak of a step that was run; the `residue` is
    what it had more: memory that kernels take inside, and the allocator's rounding.
    """

    moment: str
    parameters: int
    gradients: int
    optimizer: int
    activations: int
    transient: int
    available: int
    measured: int | None = None

    @property
    def total(self) -> int:
        return self.parameters + self.gradients + self.optimizer + self.activations + self.transient

    @property
    def fits(self) -> bool:
        return max(self.total, self.measured or 0) <= self.available

    def __bool__(self) -> bool:
        return self.fits

    @property
    def parts(self) -> dict[str, int]:
        """The bytes by what they are for."""
        return {name: getattr(self, name) for name in PARTS}

    @property
    def residue(self) -> int | None:
        return None if self.measured is None else self.measured - self.total

    def __str__(self) -> str:
        unit, size = ("GiB", 2**30) if self.total >= 2**30 else ("MiB", 2**20)
        parts = ", ".join(f"{name} {taken / size:.1f}" for name, taken in self.parts.items())
        verdict = "fits" if self.fits else "does not fit"
        text = f"{verdict}: {self.total / size:.1f} {unit} of {self.available / size:.1f} {unit}, "
        text += f"at the {self.moment}: {parts}"
        if self.measured is None:
            return text
        residue = (self.measured - self.total) / size
        return f"{text}; measured {self.measured / size:.1f}, residue {residue:+.1f} (inside kernels, rounding)"


def will_it_fit(
    called: Callable[..., Any],
    *inputs: Any,
    device: torch.device | str | int = "cpu",
    optimizer: str = "adam",
    measure: bool = False,
    **named: Any,
) -> Fit:
    """The memory of one training step, predicted on fake tensors, against the memory of a device.

    `device` may be a number of bytes instead. `measure` runs the step on the device too, on a copy of the module.
    """
    check_optimizer(optimizer)
    if measure and isinstance(device, int):
        raise DeviceError(f"fit: {device} bytes are no device to measure on. Name one, or leave out measure.")
    place = torch.device("cpu" if isinstance(device, int) else device)
    trainable = [
        tensor.nbytes for tensor in _owned(called) if isinstance(tensor, nn.Parameter) and tensor.requires_grad
    ]
    states, counter = OPTIMIZERS[optimizer]
    shared: dict[str, Any] = {
        "parameters": sum(tensor.nbytes for tensor in _owned(called)),
        "optimizer": states * sum(trainable) + counter * len(trainable),
        "available": device if isinstance(device, int) else _memory(place),
        "measured": _measured_peak(called, inputs, named, place, optimizer) if measure else None,
    }
    peak = predicted_peak(called, inputs, named, place)
    moving = {role: peak[role] for role in ("gradients", "activations", "transient")}
    backward = Fit(moment="backward pass", **moving, **shared)
    update = Fit(
        moment="optimizer's step",
        gradients=sum(trainable),
        activations=sum(tensor.nbytes for tensor in tensors_of([list(inputs), named])),
        transient=_update_bytes(optimizer, trainable, place),
        **shared,
    )
    return max(backward, update, key=lambda fit: fit.total)


def predicted_peak(
    called: Callable[..., Any], inputs: tuple[Any, ...], named: dict[str, Any], device: torch.device
) -> dict[str, int]:
    """The bytes by role at the worst moment of a forward and backward pass, found without memory or arithmetic.

    Kernels are those of the device: one may keep what another computes again.
    """
    hollow_like = partial(_hollow, device=device)
    mode = detect_fake_mode([*_owned(called), *tensors_of([list(inputs), named])])
    with mode or FakeTensorMode(allow_non_fake_inputs=True):
        hollow = called
        if isinstance(called, nn.Module):
            hollow = copy.deepcopy(called, {id(tensor): hollow_like(tensor) for tensor in _owned(called)})
        args, kwargs = tree_map_only(Tensor, hollow_like, (inputs, named))
        live = LiveBytes()
        live.hold("parameters", _owned(hollow))
        live.hold("activations", tensors_of([list(args), kwargs]))
        with live, live.following_autograd(_owned(hollow)):
            _pass(hollow, args, kwargs)
    return live.peak


def _hollow(tensor: Tensor, device: torch.device) -> Tensor:
    """A tensor of the same shape and type without content."""
    if isinstance(tensor, FakeTensor):
        return tensor
    empty = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=device)
    if isinstance(tensor, nn.Parameter):
        return nn.Parameter(empty, tensor.requires_grad)
    return empty.requires_grad_(tensor.requires_grad)


def _owned(called: Callable[..., Any]) -> list[Tensor]:
    """The parameters and buffers of a module, or of the module that a method belongs to."""
    module = getattr(called, "__self__", called)
    return [*module.parameters(), *module.buffers()] if isinstance(module, nn.Module) else []


def _pass(called: Callable[..., Any], args: Any, kwargs: Any) -> None:
    """Forward, and backward from every output that has a gradient."""
    ends = Outputs.of(called(*args, **kwargs)).ends
    if ends:
        torch.autograd.backward(ends, [torch.ones_like(end) for end in ends])


def _update_bytes(optimizer: str, trainable: list[int], device: torch.device) -> int:
    """What the update makes on its way: of all parameters at once on a GPU, where it divides in place, else one by one.

    One by one, the last of the parameter before is there still.
    """
    roots = ROOTS.get(optimizer, 0)
    if not roots or not trainable:
        return 0
    if device.type == "cuda":
        return sum(trainable)
    return max(before + roots * size for before, size in zip([0, *trainable], trainable, strict=False))


def _memory(device: torch.device) -> int:
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[1])
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _measured_peak(
    called: Callable[..., Any], inputs: tuple[Any, ...], named: dict[str, Any], device: torch.device, optimizer: str
) -> int:
    """The peak of the second step: the first one makes the optimizer's state and fills the pools."""
    called = copy.deepcopy(called).to(device) if isinstance(called, nn.Module) else called
    args, kwargs = tree_map_only(
        Tensor, lambda x: x.detach().to(device).requires_grad_(x.requires_grad), (inputs, named)
    )
    trainable = [tensor for tensor in _owned(called) if tensor.requires_grad]
    update = _optimizer(optimizer, trainable) if trainable else None
    leaves = [*trainable, *tensors_of([list(args), kwargs])]

    def step() -> None:
        _pass(called, args, kwargs)
        if update is not None:
            update.step()
        for leaf in leaves:
            leaf.grad = None

    step()
    state = list(update.state.values()) if update is not None else []
    standing = sum(x.nbytes for x in tree_leaves([_owned(called), state, args, kwargs]) if isinstance(x, Tensor))
    if device.type != "cuda":
        return standing + _profiled_peak(step)
    torch.cuda.synchronize(device)
    others = torch.cuda.memory_allocated(device) - standing
    torch.cuda.reset_peak_memory_stats(device)
    step()
    return torch.cuda.max_memory_allocated(device) - others


def _optimizer(name: str, parameters: list[Tensor]) -> torch.optim.Optimizer:
    # At a rate of zero, since what is learned on the way is of no interest and must not blow up.
    kinds: dict[str, Callable[[], torch.optim.Optimizer]] = {
        "sgd": lambda: torch.optim.SGD(parameters, lr=0.0),
        "momentum": lambda: torch.optim.SGD(parameters, lr=0.0, momentum=0.9),
        "rmsprop": lambda: torch.optim.RMSprop(parameters, lr=0.0),
        "adagrad": lambda: torch.optim.Adagrad(parameters, lr=0.0),
        "adam": lambda: torch.optim.Adam(parameters, lr=0.0),
        "adamw": lambda: torch.optim.AdamW(parameters, lr=0.0),
    }
    return kinds[name]()


def _profiled_peak(step: Callable[[], None]) -> int:
    """The most that torch's allocator on the CPU handed out during a step, above what it had before."""
    # The first profile of a process also sees what is made once: its second look at the same step does not.
    for _ in range(2):
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=True) as profiler:
            step()
    now = peak = 0
    for event in profiler.profiler.kineto_results.events():
        if event.name() == "[memory]":
            now += event.nbytes()
            peak = max(peak, now)
    return peak
