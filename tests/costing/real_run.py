"""What a fresh run on real tensors does, to hold costs against."""

import copy
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from porism.costing.counting.outputs import Outputs
from porism.costing.counting.saved import storages_of


def really_kept(module: nn.Module, *inputs: Tensor, **named: Tensor) -> int:
    """The bytes that a fresh run keeps, by hooks or on the contexts of functions: unique storages less parameters."""
    module = copy.deepcopy(module)
    kept: dict[int, Any] = {}

    def keep(tensor: Tensor) -> Tensor:
        kept.update({storage._cdata: storage for storage in storages_of(tensor)})
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        output = Outputs.of(module(*inputs, **named))
    for node in _nodes(output.tensors):
        for hung in getattr(node, "__dict__", {}).values():
            if isinstance(hung, Tensor):
                keep(hung)
    owned = {storage._cdata for weight in module.parameters() for storage in storages_of(weight)}
    assert output.tensors
    return sum(storage.nbytes() for address, storage in kept.items() if address not in owned)


def _nodes(tensors: Iterable[Tensor]) -> set[Any]:
    """All nodes of autograd that tensors come from."""
    waiting = [tensor.grad_fn for tensor in tensors if tensor.grad_fn is not None]
    found: set[Any] = set()
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting += [following for following, _ in node.next_functions if following is not None]
    return found
