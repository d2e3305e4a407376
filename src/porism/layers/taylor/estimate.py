"""How far the series is from softmax attention: measured on a few queries, and a warning where it is too far."""

import warnings
from collections.abc import Sequence

import torch
from torch import Tensor

from porism.layers.operands import check, scale_of, share
from porism.layers.pattern import FULL, Pattern
from porism.layers.taylor.features import choose_map, feature_map
from porism.layers.taylor.series import check_order
from porism.layers.taylor.texts import Texts

PAIRS = 2**20
"""Pairs of query and key that a measurement looks at, at most, unless one query of every head has more."""


class SeriesWarning(UserWarning):
    """The series is far from the softmax that it stands for: logits are too large for its order."""


@torch.no_grad()
def series_error(
    q: Tensor,
    k: Tensor,
    v: Tensor | None = None,
    *,
    order: int = 2,
    map: str | None = None,
    pattern: Pattern = FULL,
    scale: float | None = None,
    key_padding: Tensor | None = None,
    cumulative_lengths: Sequence[int] | Tensor | None = None,
    offset: int = 0,
    allow_odd: bool = False,
    pairs: int = PAIRS,
) -> float:
    """The norm of the difference between the series' answer and that of softmax, over the norm of the latter.

    >>> q, k, v = torch.randn(3, 1, 8, 1000, 64)                          # random vectors: logits deviate by 1
    >>> [f"{series_error(q * deviation, k, v):.0%}" for deviation in (0.25, 0.5, 1, 2)]
    ['1%', '7%', '38%', '87%']
    >>> f"{series_error(q, k, v, order=6):.0%}"
    '4%'

    Some queries, spread evenly over the length, are answered both ways over all keys they look at: as many as make
    `pairs`, so that the price is bounded, and all of them where that is few. Without values the error is that of the
    weights, which is what values that have nothing to do with the keys would show.

    Shapes: q (B, A, T, D), k (B, G, S, D), v (B, G, S, H).
    """
    check_order(order, allow_odd)
    check(q, k, k if v is None else v, key_padding)
    if cumulative_lengths is not None:
        texts = Texts(q, k, k if v is None else v, cumulative_lengths, key_padding, offset)
        q, k, values, key_padding = texts.padded
        v = None if v is None else values
    exact = torch.promote_types(q.dtype, torch.float32)
    (_, A, T, _), S = q.shape, k.shape[2]
    some = _spread(q.shape[0], pairs // max(1, A * S), q.device)
    queries = _spread(T, pairs // max(1, len(some) * A * S), q.device)
    q, k = (x[some].to(exact) for x in (q[:, :, queries], k))
    k = share(k, A)
    q = q * scale_of(q, scale)
    seen = pattern.sees(queries[:, None] + offset, torch.arange(S, device=q.device))
    if key_padding is not None:
        seen = seen & ~key_padding[some, None, None, :].bool()
    # A query that looks at no key has no weights in either.
    seen = seen.expand(*q.shape[:3], S)
    softmax = torch.softmax((q @ k.mT).masked_fill(~seen, -torch.inf), -1).masked_fill(~seen, 0)
    series = feature_map(choose_map(map, order), order, q.mT).weights(q.mT, k.mT) * seen
    total = series.sum(-1, keepdim=True)
    series = series / torch.where(total == 0, 1, total)
    difference = series - softmax
    if v is not None:
        values = share(v[some].to(exact), A)
        difference, softmax = difference @ values, softmax @ values
    # 0 / 0 where no query looks at any key: no error then.
    size = softmax.norm()
    return float(difference.norm() / torch.where(size == 0, 1, size))


def _spread(count: int, most: int, device: torch.device) -> Tensor:
    """The middles of so many even parts of 0 ... count - 1; every one where that is few enough. At least one."""
    parts = max(1, min(count, most))
    return (torch.arange(parts, device=device) * count + count // 2) // parts


class Watch:
    """Measures the error of a layer now and then, and warns once if it passes a limit.

    The first call is measured, and then every `every`-th, until there was a warning. Nothing is measured where there
    are no numbers to look at, or where looking would change what happens: while a graph is compiled or captured, while
    operations are counted, and on tensors that only stand for others.
    """

    def __init__(self, limit: float, every: int = 100) -> None:
        self.limit = limit
        self.every = every
        self.calls = 0
        self.warned = False

    def is_due(self, q: Tensor) -> bool:
        """Whether this call is one to measure."""
        if self.warned or not _has_numbers(q):
            return False
        self.calls += 1
        return self.calls % self.every == 1 or self.every == 1

    def judge(self, error: float, order: int) -> None:
        """Warns where an error passes the limit."""
        if error <= self.limit:
            return
        self.warned = True
        warnings.warn(
            f"taylor: the series of order {order} is {error:.0%} away from softmax attention on these inputs, more "
            f"than {self.limit:.0%}: logits are too large for it. Use normalize=True, a smaller scale, "
            f"order={order + 2 - order % 2}, or HybridAttention.",
            SeriesWarning,
            stacklevel=2,
        )


def _has_numbers(q: Tensor) -> bool:
    if torch.compiler.is_compiling() or type(q) is not Tensor or q.is_meta:
        return False
    if torch._C._len_torch_dispatch_stack():  # something counts or fakes what is computed
        return False
    return not (q.is_cuda and torch.cuda.is_current_stream_capturing())
