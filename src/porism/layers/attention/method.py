"""What an attention method is: which requests it serves, how it attends and decodes, and how much work that is."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NoReturn, Protocol, Self

import torch
from torch import Tensor

from porism.errors import ShapeError
from porism.layers.attention.pattern import FULL, Pattern
from porism.layers.attention.request import AttentionRequest, RequestSizes

MOST_WEIGHTS = 2**25
"""Bytes of weights from which on a choice does not hold them all. A backward pass needs a few times as much, and
tensors of this size are new memory from the system every time, which takes as long as the products."""

ORDER = 2
"""The order of a series that was requested without one."""


class State(Protocol):
    """What a method remembers of the tokens so far."""

    def reorder_cache(self, beam_idx: Tensor) -> Self:
        """The states of the chosen texts of the batch, in the order of the indices, as beam search needs them."""
        ...


class Method(ABC):
    """One way to attend. `methods.py` lists those that `attention(..., mechanism="auto")` chooses among."""

    name: ClassVar[str]
    exact: ClassVar[bool]
    """Whether its answer is softmax attention up to rounding. One that is not serves what was requested by `order`."""
    is_dense: ClassVar[bool] = False
    """Whether it holds all weights at once."""

    @abstractmethod
    def serves(self, sizes: RequestSizes) -> bool:
        """Whether it computes what such a request asks for."""

    def kind(self, sizes: RequestSizes) -> str:
        """The name, and what sets such a call apart from others in the time that a unit of work takes."""
        return self.name

    def check(self, request: AttentionRequest) -> None:
        """Refuses in words a request that names this method and that it does not serve."""
        if not self.serves(request.sizes()):
            self.refuse("what this request asks for", "Take mechanism 'auto'.")

    @abstractmethod
    def attend(self, request: AttentionRequest) -> Tensor:
        """(B, A, T, H), differentiable."""

    def decode(self, request: AttentionRequest, state: Any) -> tuple[Tensor, State]:
        """New tokens that continue a text: what one pass over the whole text would answer, and the state after them."""
        raise ShapeError(f"attention: {self.name} does not decode. Decode with softmax, window, taylor or hybrid.")

    @abstractmethod
    def work(self, sizes: RequestSizes) -> dict[str, float]:
        """Amounts of work by kind, both passes together where a backward pass follows; "flops" among them.

        Beside its FLOPs a call costs what every call costs ("calls"), what it takes to move the numbers of q, k, v and
        the answer ("numbers"), each step of its loop, each pair of query and key, each element of a mask.
        """

    @abstractmethod
    def trials(self, kind: str, device: str) -> list[RequestSizes]:
        """Calls of a kind to time when a device is calibrated, from where a call is all overhead to where none is."""

    def refuse(self, what: str, advice: str) -> NoReturn:
        raise ShapeError(f"attention: mechanism {self.name!r} does not take {what}. {advice}")


def transfers(sizes: RequestSizes) -> dict[str, float]:
    """What every call costs: itself, and moving the numbers of q, k, v and the answer."""
    return {"calls": 1.0, "numbers": float(sizes.heads * (sizes.T + sizes.S) * (sizes.D + sizes.H))}


def fits_densely(sizes: RequestSizes) -> bool:
    """Whether all weights may be held at once: in single precision or better, without dropout, and not too many."""
    plain = sizes.dtype in (torch.float32, torch.float64) and not sizes.packed and not sizes.dropout
    return plain and sizes.heads * sizes.T * sizes.S * sizes.dtype.itemsize < MOST_WEIGHTS


SQUARE = (
    (2, 40, 24, 24),
    (8, 40, 56, 56),
    (2, 104, 56, 56),
    (8, 104, 24, 24),
    (32, 72, 56, 56),
    (4, 208, 24, 24),
    (6, 208, 56, 56),
    (4, 416, 24, 24),
    (2, 416, 12, 56),
    (4, 416, 56, 56),
    (4, 832, 24, 24),
    (2, 832, 56, 56),
)
"""Heads, length, and widths of keys and values to time, for methods that go over all pairs."""

DENSE = (*SQUARE, (8, 992, 12, 56))
"""The same for methods that hold all weights, up to nearly as many as a choice may hold: new memory is slow."""

LINEAR = (
    (2, 48, 12, 12),
    (6, 48, 24, 56),
    (2, 208, 12, 56),
    (6, 208, 24, 24),
    (4, 416, 12, 24),
    (2, 416, 40, 40),
    (2, 624, 24, 56),
    (4, 832, 12, 56),
    (2, 1248, 12, 12),
    (2, 1248, 24, 24),
)
"""The same for methods whose time grows with the length."""

LARGEST = (8, 1248, 24, 24)
"""One more of these on a GPU: since widths do not grow there, heads do."""

LONGER, MORE = 8, 4
"""On a GPU texts are so many times as long, unless all weights are held, and there are so many times as many heads."""

NARROW, WIDE = 16, 64
"""The widths on a GPU, where each is compiled for itself: the series' features are of narrow keys, all else is wide."""


def linear_trials(device: str) -> tuple[tuple[int, int, int, int], ...]:
    """`LINEAR`, and one more on a GPU."""
    return LINEAR if device == "cpu" else (*LINEAR, LARGEST)


def trial(
    heads: int,
    T: int,
    D: int,
    H: int,
    device: str,
    pattern: Pattern = FULL,
    *,
    window_size: int | None = None,
    is_dense: bool = False,
    narrow: bool = False,
) -> RequestSizes:
    """One call to time: on a GPU longer, with more heads, and of the widths that kernels are compiled for."""
    if device != "cpu":
        heads, T = heads * MORE, T if is_dense else T * LONGER
        D, H = NARROW if narrow else WIDE, WIDE
    return RequestSizes(1, heads, T, T, D, H, pattern, order=ORDER, window_size=window_size, device=device)
