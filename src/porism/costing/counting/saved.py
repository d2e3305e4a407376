"""The memory that autograd keeps for the backward pass."""

from collections import Counter
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import is_traceable_wrapper_subclass


class Saved:
    """The storages that autograd keeps, by the module that first had them kept."""

    def __init__(self) -> None:
        self._storages: dict[int, tuple[str, torch.UntypedStorage]] = {}
        self._parameters: set[int] = set()

    def keep(self, tensor: Tensor, path: str) -> Tensor:
        for storage in storages_of(tensor):
            # Held until the sum is made, so that no address is used twice.
            self._storages.setdefault(storage._cdata, (path, storage))
            if isinstance(tensor, nn.Parameter) or isinstance(tensor._base, nn.Parameter):
                self._parameters.add(storage._cdata)
        return tensor

    def bytes_by_path(self, parameters: list[nn.Parameter]) -> dict[str, int]:
        left_out = self._parameters | {storage._cdata for tensor in parameters for storage in storages_of(tensor)}
        kept: Counter[str] = Counter()
        for address, (path, storage) in self._storages.items():
            if address not in left_out:
                kept[path] += storage.nbytes()
        return dict(kept)


def storages_of(tensor: Tensor) -> Iterator[torch.UntypedStorage]:
    """The memory of a tensor: one piece, or those of the tensors that a sparse or wrapped one is made of."""
    if is_traceable_wrapper_subclass(tensor):
        names, _context = tensor.__tensor_flatten__()
        parts = [getattr(tensor, name) for name in names]
    elif tensor.layout == torch.sparse_coo:
        parts = [tensor._indices(), tensor._values()]
    elif tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        parts = [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    elif tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        parts = [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    else:
        parts = []
        yield tensor.untyped_storage()
    for part in parts:
        yield from storages_of(part)
