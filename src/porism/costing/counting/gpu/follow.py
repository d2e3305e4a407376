"""Counts of what a GPU would run, on a machine without one: tensors say that they are there, kernels are chosen so."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn.attention import flex_attention

from porism.costing.counting.arguments import tensors_in
from porism.costing.counting.fake import CPU, GPU, ShapeMode
from porism.costing.counting.gpu.autocast import autocast_followed, overload_of
from porism.costing.counting.gpu.kernels import REPLACED, SHAPES


@contextmanager
def gpu_followed(mode: ShapeMode) -> Iterator[None]:
    """Inside, the tensors of a mode stand for tensors on a GPU.

    >>> mode = ShapeMode()
    >>> with gpu_followed(mode), mode:
    ...     x = torch.empty(4, 8, device="cuda")
    ...     x.device, x.is_cuda
    (device(type='cuda', index=0), True)

    C++ knows nothing of it, so that autograd needs no GPU; what it would choose by the device is chosen in its place.
    """
    if mode.stands_for_gpu:
        yield
        return
    library = torch.library.Library("aten", "IMPL")
    device = FakeTensor.device
    for name, kernel in (REPLACED | MOVES).items():
        library.impl(name, _of_fakes(overload_of(name), kernel), "AutogradCPU")
    for name, kernel in SHAPES.items():
        library.impl(name, kernel, "Meta")
    mode.stands_for_gpu = True
    FakeTensor.device = property(_device)  # type: ignore[assignment, method-assign]
    FakeTensor.is_cuda = property(lambda x: x.device.type == "cuda")  # type: ignore[assignment]
    FakeTensor.is_cpu = property(lambda x: x.device.type == "cpu")  # type: ignore[assignment]
    try:
        with autocast_followed(library), _flex_attention_as_it_is():
            yield
    finally:
        del FakeTensor.is_cuda, FakeTensor.is_cpu
        FakeTensor.device = device  # type: ignore[method-assign]
        mode.stands_for_gpu = False
        library._destroy()


@contextmanager
def _flex_attention_as_it_is() -> Iterator[None]:
    """torch compiles it where a user did not, and warns of that: here nothing is computed, and its formula counts."""
    outer = flex_attention._FLEX_ATTENTION_DISABLE_COMPILE_DEBUG
    flex_attention._FLEX_ATTENTION_DISABLE_COMPILE_DEBUG = True
    try:
        yield
    finally:
        flex_attention._FLEX_ATTENTION_DISABLE_COMPILE_DEBUG = outer


def _device(tensor: FakeTensor) -> torch.device:
    """The device that code in Python sees; torch's own rules for shapes see another."""
    mode = tensor.fake_mode
    if mode.in_kernel_invocation:
        return torch.device("meta")
    if isinstance(mode, ShapeMode) and mode.stands_for_gpu and not mode.is_dispatching:
        return GPU
    return tensor.fake_device


def _of_fakes(operator: Any, kernel: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel for tensors that stand for others; real ones of another thread are left to torch."""

    def run(*args: Any, **kwargs: Any) -> Any:
        is_fake = any(type(leaf) is FakeTensor for leaf in tensors_in((args, kwargs)))
        return kernel(*args, **kwargs) if is_fake else operator.decompose(*args, **kwargs)

    return run


def _to_device(x: Tensor, device: torch.device, *args: Any, **kwargs: Any) -> Any:
    """All that stand for tensors on the GPU are there already: none is copied on its way."""
    there = CPU if device.type == "cuda" else device
    return torch.ops.aten.to.device.decompose(x, there, *args, **kwargs)


def _to_options(x: Tensor, **kwargs: Any) -> Any:
    if kwargs.get("device") is not None and kwargs["device"].type == "cuda":
        kwargs["device"] = CPU
    return torch.ops.aten.to.dtype_layout.decompose(x, **kwargs)


MOVES: dict[str, Callable[..., Any]] = {"to.device": _to_device, "to.dtype_layout": _to_options}
