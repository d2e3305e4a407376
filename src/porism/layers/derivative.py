"""Backward passes by hand: first derivatives only, and answers that may have been changed in place since."""

from collections.abc import Callable
from functools import cache, wraps
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def first_derivative_only(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Marks the `backward` of an autograd.Function whose own derivative autograd cannot take.

    torch's `once_differentiable` refuses only where the incoming gradient itself asks for one. With a constant incoming
    gradient the second derivative would come out as zero, so the wish for a graph (`create_graph=True`) is refused.
    """
    guarded = once_differentiable(backward)

    @wraps(backward)
    def wrapper(*args: Any) -> Any:
        if not torch.is_grad_enabled():
            # What torch's guard would do takes longer than the gradient of a small call.
            return backward(*args)
        if not torch.compiler.is_compiling():
            raise RuntimeError(
                "this layer gives first derivatives only, and create_graph=True requested more. "
                "Call its naive.py, which autograd can differentiate as often as you like."
            )
        return guarded(*args)

    return wrapper


class InPlaceWatch:
    """Tells whether a tensor was changed in place since the watch was made.

    A backward pass that reads the layer's own answer saves `answer.data`, so that autograd lets users change the answer
    in place, as with torch's own layers, and computes the answer again where the watch says that they did.

    >>> x = torch.ones(3)
    >>> watch = InPlaceWatch(x)
    >>> watch.changed
    False
    >>> x.view(3, 1).mul_(2)[0]
    tensor([2.])
    >>> watch.changed
    True
    """

    __slots__ = ("_counter", "_version")

    def __init__(self, x: Tensor) -> None:
        # It shares the count of changes with x, and not the memory, which autograd frees as the backward pass goes on.
        self._counter = x.detach()
        self._counter.data = _nothing(x.dtype, x.device)
        self._version = _version(self._counter)

    @property
    def changed(self) -> bool:
        return _version(self._counter) != self._version


@cache
def _nothing(dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.empty(0, dtype=dtype, device=device)


def _version(x: Tensor) -> int:
    # Of a tensor made in inference mode no changes are counted, and none can reach a backward pass.
    return 0 if x.is_inference() else x._version


def own_memory(answer: Tensor) -> Tensor:
    """A copy of an answer that the backward pass reads, for compiled code, where an InPlaceWatch sees no change.

    Times one, since the compiler takes a clone for the original: whoever changed the answer in place would change what
    was saved, and gradients would be wrong without a word.
    """
    return answer * 1
