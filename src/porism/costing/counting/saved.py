"""The memory that autograd keeps for the backward pass."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import is_traceable_wrapper_subclass
from torch.utils._pytree import tree_leaves

from porism.costing.counting.outputs import tensors_of

GENERATOR_STATES = frozenset({"fwd_cpu_state", "fwd_device_states"})
"""What a checkpointed segment keeps of the random generator: no activation."""


@dataclass(frozen=True)
class AutogradGraph:
    """What the backward pass from some tensors runs through: the nodes of autograd, and the leaves it ends at."""

    nodes: frozenset[Any]
    leaves: frozenset[Tensor]

    @classmethod
    def of(cls, ends: Iterable[Tensor]) -> "AutogradGraph":
        ends = list(ends)
        nodes: set[Any] = set()
        leaves = {end for end in ends if end.is_leaf}
        waiting: list[Any] = [end.grad_fn for end in ends]
        while waiting:
            node = waiting.pop()
            if node is not None and node not in nodes:
                nodes.add(node)
                leaves.update([node.variable] if hasattr(node, "variable") else [])
                waiting += [before for before, _ in node.next_functions]
        return cls(frozenset(nodes), frozenset(leaves))

    def kept_by_hand(self) -> Iterator[tuple[Any, Tensor]]:
        """Tensors that functions of users have hung on their context, with the node, which is that context.

        Not those of a Function that says of itself that they live as long without a backward pass.
        """
        for node in self.nodes:
            if getattr(getattr(node, "_forward_cls", None), "context_holds_operands", False):
                continue
            for name, value in getattr(node, "__dict__", {}).items():
                if name not in GENERATOR_STATES:
                    yield from ((node, leaf) for leaf in tree_leaves(value) if isinstance(leaf, Tensor))

    def left_out(self, module: nn.Module) -> list[str]:
        """Attributes of a module that need a gradient of their own and are no part of this: losses kept aside."""
        found = []
        for path, submodule in module.named_modules():
            for name, value in vars(submodule).items():
                if name.startswith("_"):
                    continue
                if any(tensor.grad_fn is not None and tensor.grad_fn not in self.nodes for tensor in tensors_of(value)):
                    found.append(f"{path}.{name}".lstrip("."))
        return found


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

    @contextmanager
    def hooks(self, path: Callable[[], str]) -> Iterator[None]:
        """See what is kept, also where the code has hooks of its own: then what they make of a tensor is kept."""
        enter = saved_tensors_hooks.__enter__

        def enter_theirs(theirs: saved_tensors_hooks) -> None:
            pack = theirs.pack_hook

            def keep_packed(tensor: Tensor) -> Any:
                packed = pack(tensor)
                for part in tensors_of(packed):
                    self.keep(part, path())
                return packed

            theirs.pack_hook = keep_packed
            enter(theirs)

        with saved_tensors_hooks(lambda tensor: self.keep(tensor, path()), lambda kept: kept):
            saved_tensors_hooks.__enter__ = enter_theirs  # type: ignore[method-assign]
            try:
                yield
            finally:
                saved_tensors_hooks.__enter__ = enter  # type: ignore[method-assign]

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
