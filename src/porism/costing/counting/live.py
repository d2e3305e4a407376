"""Which bytes are alive while a module trains, and how many at the worst moment.

>>> layer, x = nn.Linear(50, 100), torch.randn(4, 50)
>>> with LiveBytes() as live:
...     live.hold("parameters", layer.parameters())
...     loss = layer(x).sum()
>>> live.peak["parameters"], live.peak["transient"]                  # the sum, and what it is the sum of
(20400, 1604)

It sees what torch's operators hand out, on real tensors as on fake ones, but not what they need inside.
"""

import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from porism.costing.counting.arguments import tensors_in
from porism.costing.counting.operators import DECOMPOSED


class LiveBytes(TorchDispatchMode):
    """The bytes alive now and at the peak, by role. Storages that only views share count once."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now: Counter[str] = Counter()
        self.peak: Counter[str] = Counter()
        self._held: dict[int, tuple[weakref.ref[Any], str, int]] = {}

    def hold(self, role: str, tensors: Iterable[Tensor | None]) -> None:
        """Give the memory of these tensors a role; what had one takes the new one, parameters apart."""
        for tensor in tensors:
            if tensor is None or tensor.layout != torch.strided:
                continue
            storage = tensor.untyped_storage()
            key = storage._cdata
            _, before, size = self._held.get(key, (None, "", storage.nbytes()))
            if before == "parameters":
                continue
            if before:
                self.now[before] -= size
            self.now[role] += size
            self._held[key] = (weakref.ref(storage, self._forgetting(key)), role, size)
        if self.now.total() > self.peak.total():
            self.peak = self.now.copy()

    def _forgetting(self, key: int) -> Callable[[Any], None]:
        def forget(_: Any) -> None:
            _reference, role, size = self._held.pop(key)
            self.now[role] -= size

        return forget

    @contextmanager
    def following_autograd(self, parameters: Iterable[Tensor]) -> Iterator[None]:
        """Know what autograd keeps for the backward pass, and the gradients that it leaves at the parameters."""
        hooks = [
            parameter.register_post_accumulate_grad_hook(lambda leaf: self.hold("gradients", [leaf.grad]))
            for parameter in parameters
            if parameter.requires_grad
        ]

        def keep(tensor: Tensor) -> Tensor:
            self.hold("activations", [tensor])
            return tensor

        try:
            with torch.autograd.graph.saved_tensors_hooks(keep, lambda kept: kept):
                yield
        finally:
            for hook in hooks:
                hook.remove()

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if operator in DECOMPOSED:
            with self:
                return DECOMPOSED[operator](*args, **(kwargs or {}))
        out = operator(*args, **(kwargs or {}))
        tensors = [leaf for leaf in tensors_in(out) if leaf.layout == torch.strided]
        self.hold("transient", [tensor for tensor in tensors if tensor.untyped_storage()._cdata not in self._held])
        return out
