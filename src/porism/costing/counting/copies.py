"""Copies of a module to count on: a fresh one for every count, so that nothing stays from the sizes before."""

import copy
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.nn.parameter import is_lazy

from porism.costing.counting.fake import ShapeMode
from porism.errors import ShapeError


def emptied(
    module: nn.Module, mode: ShapeMode, device: torch.device | None, dtype: torch.dtype | None = None
) -> nn.Module:
    """The same module without its weights: copied, each tensor replaced by a fake one of its shape."""
    empty: dict[int, Any] = {}
    with mode:
        for tensor in (*parameters_and_buffers(module), *_results(module)):
            kind = dtype if dtype is not None and tensor.is_floating_point() else tensor.dtype
            hollow = torch.empty_strided(tensor.shape, tensor.stride(), dtype=kind, device=device)
            if isinstance(tensor, nn.Parameter):
                hollow = nn.Parameter(hollow, tensor.requires_grad)
            empty[id(tensor)] = hollow
    return _copied(module, empty)


def fresh(module: nn.Module) -> nn.Module:
    """The same module with the same weights and a state of its own: attributes, caches, counters, real buffers."""
    kept: list[Tensor] = [tensor for tensor in module.parameters() if not is_lazy(tensor)]
    kept += [buffer for buffer in parameters_and_buffers(module) if buffer.is_meta or type(buffer) is not Tensor]
    memo: dict[int, Any] = {id(tensor): tensor for tensor in kept}
    return _copied(module, memo | {id(tensor): tensor.detach() for tensor in _results(module)})


def with_own_weights(module: nn.Module) -> nn.Module:
    """A copy that can be moved and converted: its weights are not those of the user."""
    return _copied(module, {id(tensor): tensor.detach() for tensor in _results(module)})


def _copied(module: nn.Module, memo: dict[int, Any]) -> nn.Module:
    try:
        made = copy.deepcopy(module, _lazy_copies(module) | memo)
    except Exception as error:  # attributes can be anything
        raise ShapeError(
            f"cost: {type(module).__name__} cannot be copied ({type(error).__name__}: {error}), and every count needs "
            "a fresh copy. Give a function of no arguments that makes it: lambda: Net()."
        ) from error
    for weight in made.parameters():
        if not weight.is_leaf:  # torch.jit copies as if it were computing
            weight.detach_().requires_grad_()
    return made


def _lazy_copies(module: nn.Module) -> dict[int, Any]:
    """Weights that have no shape yet: torch copies no lazy buffers, and no lazy parameters where all is fake."""
    lazy: list[Any] = [tensor for tensor in (*module.parameters(), *module.buffers()) if is_lazy(tensor)]
    with unset_fake_temporarily():
        return {id(part): type(part)(part.requires_grad, part.data.device, part.data.dtype) for part in lazy}


def parameters_and_buffers(module: nn.Module) -> Iterator[Tensor]:
    for tensor in (*module.parameters(), *module.buffers()):
        if not is_lazy(tensor) and tensor.layout == torch.strided:
            yield tensor


def _results(module: nn.Module) -> Iterator[Tensor]:
    """Attributes that were computed from weights, as the old weight_norm leaves them: torch copies none of them."""
    for submodule in module.modules():
        for value in vars(submodule).values():
            if isinstance(value, Tensor) and value.requires_grad and not value.is_leaf:
                yield value
