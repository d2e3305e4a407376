"""How far the series is from softmax attention, measured on some of the queries.

The error, here and wherever one is printed, is that of the answer z, all texts, heads, queries and elements together:

    error = || z - softmax(s) v || / || softmax(s) v ||

`TaylorAttention` warns where it passes a limit (`Watch`), and `benchmarks/attention_error.py` holds that against the
error over whole inputs, by the operations themselves.
"""

import math
import warnings
from collections.abc import Sequence
from itertools import pairwise
from numbers import Real
from typing import Any, NamedTuple

import torch
from torch import Tensor

from porism.errors import ShapeError
from porism.layers.attention.pattern import Pattern
from porism.layers.attention.request import AttentionRequest, share
from porism.layers.attention.taylor.feature_maps import FeatureMap, check_features, check_order, choose_map
from porism.layers.attention.taylor.feature_maps import feature_map as build_map
from porism.layers.operands import check_whole

PAIRS, MOST_PAIRS = 2**20, 2**26
"""Pairs of query and key that a measurement reads, at most: at first, and where the error is near to a limit. One
query of every head is looked at even if it has more."""

CLEAR, FEW = 4.0, 256
"""How many standard errors from a limit leave no doubt, and how many queries are too few to tell what one is."""


def series_error(
    query: Tensor,
    key: Tensor,
    value: Tensor | None = None,
    *,
    order: int = 2,
    feature_map: str | None = None,
    pattern: Pattern | None = None,
    is_causal: bool = False,
    scale: float | Tensor | None = None,
    key_padding_mask: Tensor | None = None,
    cu_seqlens: Sequence[int] | Tensor | None = None,
    offset: int = 0,
    allow_odd: bool = False,
    pairs: int = PAIRS,
    limit: float | None = None,
) -> float:
    """The norm of the difference between the series' answer and that of softmax, over the norm of the latter.

    >>> q, k, v = torch.randn(3, 1, 8, 1000, 64)                          # random vectors: logits deviate by 1
    >>> [f"{series_error(q * deviation, k, v):.0%}" for deviation in (0.25, 0.5, 1, 2)]
    ['1%', '7%', '38%', '87%']
    >>> f"{series_error(q, k, v, order=6):.0%}"
    '4%'

    Some queries, spread evenly over the length, are answered both ways over all keys they attend to: as many as make
    `pairs`, so that the price is bounded, and all of them where that is few. Without values the error is that of the
    weights, which is what values that have nothing to do with the keys would show.

    With a `limit`, four times as many are looked at, again and again, until there is no doubt on which side of it the
    error over all queries lies, or MOST_PAIRS is reached. An error that sits in a few queries unlike all others can
    hide from a sample; where all are read, none can.

    Shapes: query (B, A, T, D), key (B, G, S, D), value (B, G, S, H).
    """
    check_order(order, allow_odd)
    check_whole("taylor", "pairs", pairs)
    check_limit("limit", limit)
    request = AttentionRequest.make(
        query,
        key,
        key if value is None else value,
        is_causal=is_causal,
        pattern=pattern,
        scale=scale,
        key_padding_mask=key_padding_mask,
        cu_seqlens=cu_seqlens,
        offset=offset,
        order=order,
        feature_map=feature_map,
        layer="taylor",
    )
    check_features(choose_map(feature_map, order), order, query.shape[3])
    return request_error(request, pairs, limit, has_values=value is not None)


@torch.no_grad()
def request_error(
    request: AttentionRequest, pairs: int = PAIRS, limit: float | None = None, has_values: bool = True
) -> float:
    """`series_error` of a request that has an order; of its weights alone where its values are none."""
    assert request.order is not None
    batch, _ = request.padded()
    phi = build_map(choose_map(request.feature_map, request.order), request.order, batch.q.mT)
    question = _Question(
        q=batch.q,
        k=batch.k,
        v=batch.v if has_values else None,
        phi=phi,
        pattern=batch.pattern,
        scale=batch.scale,
        key_padding=batch.key_padding_mask,
        no_query=batch.key_padding_mask if request.cu_seqlens is not None else None,
        offset=batch.offset,
    )
    while True:
        sample = question.answered(pairs)
        if limit is None or pairs >= MOST_PAIRS or sample.is_clear_of(limit):
            return sample.error
        pairs = min(4 * pairs, MOST_PAIRS)


def check_limit(name: str, limit: Any) -> None:
    """Refuses what is not an error above 0, or None."""
    number = isinstance(limit, Real) and not isinstance(limit, bool)
    if limit is not None and not (number and 0 < limit < math.inf):
        raise ShapeError(f"taylor: {name} is {limit!r}. Give an error above 0, as 0.05 for 5 %, or None.")


class _Sample(NamedTuple):
    """Of each query looked at, the squared norms of the difference and of softmax's answer: (texts, heads, queries).

    A query stands for `weight` many, itself among them.
    """

    difference: Tensor
    answer: Tensor
    weight: Tensor

    @property
    def error(self) -> float:
        total = (self.weight * self.answer).sum()
        # 0 / 0 where no query attends to any key: no error then.
        return float(((self.weight * self.difference).sum() / torch.where(total == 0, 1, total)).sqrt())

    def is_clear_of(self, limit: float) -> bool:
        """Whether there is no doubt that the error of all queries lies on the same side of a limit as that of these."""
        square = self.error**2
        away = abs(square - limit**2) * (self.weight * self.answer).sum()
        # The variance of a quotient of two such sums, times the lower one squared: none where all stand for themselves.
        rest = self.difference - square * self.answer
        doubt = (self.weight * (self.weight - 1) * rest**2).sum().sqrt()
        return not (away < CLEAR * doubt or (rest.numel() < FEW and doubt > 0))


class _Question(NamedTuple):
    """What is to be answered both ways. `no_query` is True for a query (B, T) that only fills up a text."""

    q: Tensor
    k: Tensor
    v: Tensor | None
    phi: FeatureMap
    pattern: Pattern
    scale: float
    key_padding: Tensor | None
    no_query: Tensor | None
    offset: int

    def answered(self, pairs: int) -> _Sample:
        """By so many pairs, a part of the queries at a time, so that their number costs time and no memory."""
        (B, A, T, _), S = self.q.shape, self.k.shape[2]
        texts = _spread(B, pairs // max(1, A * S)).to(self.q.device)
        row = max(1, len(texts) * A * S)
        queries, weight = _positions(T, pairs // row, alike=self.pattern.kind == "full")
        parts = [self._norms(texts, few) for few in queries.to(self.q.device).split(max(1, PAIRS // row))]
        difference, answer = (torch.cat(norms, -1) for norms in zip(*parts, strict=True))
        return _Sample(difference, answer, weight.to(difference) * B / max(1, len(texts)))

    def _norms(self, texts: Tensor, queries: Tensor) -> tuple[Tensor, Tensor]:
        """The squared norms of the difference and of softmax's answer: twice (texts, heads, queries)."""
        exact = torch.promote_types(self.q.dtype, torch.float32)
        A, S = self.q.shape[1], self.k.shape[2]
        q = self.q[texts][:, :, queries].to(exact) * self.scale
        k = share(self.k[texts].to(exact), A)
        seen = self.pattern.mask_mod(None, None, queries[:, None] + self.offset, torch.arange(S, device=q.device))
        if self.key_padding is not None:
            seen = seen & ~self.key_padding[texts, None, None, :]
        if self.no_query is not None:
            seen = seen & ~self.no_query[texts][:, None, queries, None]
        # A query that attends to no key has no weights in either.
        seen = seen.expand(*q.shape[:3], S)
        softmax = torch.softmax((q @ k.mT).masked_fill(~seen, -torch.inf), -1).masked_fill(~seen, 0)
        series = self.phi.weights(q.mT, k.mT) * seen
        total = series.sum(-1, keepdim=True)
        difference = series / torch.where(seen.any(-1, keepdim=True), total, 1) - softmax
        if self.v is not None:
            values = share(self.v[texts].to(exact), A)
            difference, softmax = difference @ values, softmax @ values
        return difference.square().sum(-1), softmax.square().sum(-1)


def _positions(T: int, most: int, alike: bool) -> tuple[Tensor, Tensor]:
    """Some of the positions 0 ... T - 1, at most so many, and how many each of them stands for.

    Spread evenly where all are alike. Else the first few matter most: they attend to the fewest keys, so that their
    answers are the largest. Then every octave, 0 ... n, n ... 2n, 2n ... 4n, gets as many, the first one all its own.
    """
    octaves = 1
    while not alike and octaves < most and (most // octaves) << (octaves - 1) < T:
        octaves += 1
    positions, weights = [], []
    for start, stop in pairwise([0, *(-(-T >> octave) for octave in reversed(range(octaves)))]):
        some = _spread(stop - start, most // octaves)
        positions.append(start + some)
        weights.append(torch.full((len(some),), (stop - start) / max(1, len(some))))
    return torch.cat(positions), torch.cat(weights)


def _spread(count: int, most: int) -> Tensor:
    """The middles of so many even parts of 0 ... count - 1; every one where that is few enough. At least one if any."""
    parts = min(count, max(1, most))
    return (torch.arange(parts) * count + count // 2) // max(1, parts)


class SeriesWarning(UserWarning):
    """The series is far from the softmax that it stands for: logits are too large for its order."""


class Watch:
    """Says when the error of a layer is to be measured, and warns once if it passes a limit.

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
            f"than {self.limit:.0%}: logits are too large for it. Use qk_norm=True, a smaller scale, "
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
