"""What a fresh run on real tensors does, to hold costs against."""

import copy
from typing import Any

import torch
from torch import Tensor, nn

from porism.costing.counting.outputs import Outputs
from porism.costing.counting.saved import storages_of


def really_kept(module: nn.Module, *inputs: Tensor) -> int:
    """The bytes that a fresh run keeps: unique storages less parameters."""
    module = copy.deepcopy(module)
    kept: dict[int, Any] = {}

    def keep(tensor: Tensor) -> Tensor:
        kept.update({storage._cdata: storage for storage in storages_of(tensor)})
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        output = Outputs.of(module(*inputs))
    owned = {storage._cdata for weight in module.parameters() for storage in storages_of(weight)}
    assert output.tensors
    return sum(storage.nbytes() for address, storage in kept.items() if address not in owned)
