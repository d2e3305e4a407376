"""The ways to attend: for each the function that goes it, and the questions it can answer."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from porism.errors import ShapeError
from porism.layers.attention.dense import series_of_all, softmax_of_all
from porism.layers.attention.hybrid.functional import hybrid_attention
from porism.layers.attention.pattern import FULL, Pattern
from porism.layers.attention.request import Question, scale_of
from porism.layers.attention.softmax.functional import attend as softmax
from porism.layers.attention.taylor.functional import taylor_attention
from porism.layers.attention.window.functional import attend as near

MOST_WEIGHTS = 2**25
"""Bytes of weights from which on a choice does not hold them all. A backward pass needs a few times as much, and
tensors of this size are new memory from the system every time, which takes as long as the products."""

ORDER = 2
"""The order of a series that was asked for without one."""


class Options(NamedTuple):
    """What the functional forms take beside q, k and v."""

    pattern: Pattern = FULL
    scale: float | None = None
    key_padding: Tensor | None = None
    cumulative_lengths: Sequence[int] | Tensor | None = None
    dropout_p: float = 0.0
    offset: int = 0
    order: int | None = None
    window: int | None = None


class Way:
    """One way to attend."""

    name: str
    is_dense = False
    """Whether it holds all weights at once."""

    def answers(self, asked: Question) -> bool:
        """Whether it computes what is asked for."""
        raise NotImplementedError

    def kind(self, asked: Question) -> str:
        """The name, and what makes one of its calls differ from another in the time that a unit of work takes."""
        return self.name

    def attend(self, q: Tensor, k: Tensor, v: Tensor, options: Options) -> Tensor:
        """The answer to operands that an `AttentionRequest` has checked."""
        raise NotImplementedError


class Softmax(Way):
    name = "softmax"

    def answers(self, asked: Question) -> bool:
        return True

    def kind(self, asked: Question) -> str:
        if asked.is_masked:
            return "softmax with a dense mask"
        return "causal softmax" if asked.is_limited else self.name

    def attend(self, q: Tensor, k: Tensor, v: Tensor, options: Options) -> Tensor:
        return softmax(q, k, v, *_checked(q, options))


class Window(Way):
    name = "window"

    def answers(self, asked: Question) -> bool:
        return asked.pattern.kind in ("sliding", "block")

    def kind(self, asked: Question) -> str:
        return self.name if asked.pattern.kind == "sliding" else "window in blocks"

    def attend(self, q: Tensor, k: Tensor, v: Tensor, options: Options) -> Tensor:
        if options.pattern.window is None or options.pattern.kind == "block-causal":
            raise ShapeError(
                f"attention: mechanism 'window' came with a {options.pattern.kind} pattern, which has no window. "
                "Give a sliding or a block pattern, or take mechanism 'softmax'."
            )
        return near(q, k, v, *_checked(q, options))


class DenseSoftmax(Way):
    name = "dense softmax"
    is_dense = True

    def answers(self, asked: Question) -> bool:
        return _fits_densely(asked)

    def kind(self, asked: Question) -> str:
        return "dense softmax with a mask" if asked.is_limited else self.name

    def attend(self, q: Tensor, k: Tensor, v: Tensor, options: Options) -> Tensor:
        _check_dense(self.name, options)
        return softmax_of_all(q, k, v, options.pattern, scale_of(q, options.scale), options.key_padding, options.offset)


class Taylor(Way):
    name = "taylor"

    def answers(self, asked: Question) -> bool:
        return asked.order is not None and asked.pattern.kind in ("full", "causal", "block-causal") and asked.keeps_all

    def kind(self, asked: Question) -> str:
        return self.name if asked.pattern.kind == "full" else "causal taylor"

    def attend(self, q: Tensor, k: Tensor, v: Tensor, options: Options) -> Tensor:
        answer: Tensor = taylor_attention(q, k, v, order=_order(options), **_common(options))
        return answer


class DenseTaylor(Taylor):
    name = "dense taylor"
    is_dense = True

    def answers(self, asked: Question) -> bool:
        return super().answers(asked) and _fits_densely(asked)

    def kind(self, asked: Question) -> str:
        return "dense taylor with a mask" if asked.is_limited else self.name

    def attend(self, q: Tensor, k: Tensor, v: Tensor, options: Options) -> Tensor:
        _check_dense(self.name, options)
        return series_of_all(
            q, k, v, _order(options), options.pattern, scale_of(q, options.scale), options.key_padding, options.offset
        )


class Hybrid(Way):
    name = "hybrid"

    def answers(self, asked: Question) -> bool:
        wanted = asked.order is not None and asked.window is not None
        return wanted and asked.pattern.kind in ("full", "causal") and asked.keeps_all

    def kind(self, asked: Question) -> str:
        return self.name if asked.pattern.kind == "full" else "causal hybrid"

    def attend(self, q: Tensor, k: Tensor, v: Tensor, options: Options) -> Tensor:
        if options.window is None:
            raise ShapeError(
                "attention: mechanism 'hybrid' came without a window. Give window=64 or so: the keys that stay exact."
            )
        return hybrid_attention(q, k, v, window=options.window, order=_order(options), **_common(options))


WAYS: dict[str, Way] = {
    way.name: way for way in (Softmax(), Window(), DenseSoftmax(), Taylor(), DenseTaylor(), Hybrid())
}
EXACT = ("softmax", "window", "dense softmax")
SERIES = ("taylor", "dense taylor")


def candidates(asked: Question, mechanism: str = "auto") -> list[Way]:
    """The ways among which to choose, all of which compute what was asked for, up to rounding.

    By the series: those of its order. Else what is exact; with an order also the series, which is as far off as was
    allowed; with a window too the hybrid instead, since near keys have to be exact.
    """
    names: tuple[str, ...]
    if mechanism == "series":
        names = SERIES
    elif asked.order is None:
        names = EXACT
    else:
        names = (*EXACT, *SERIES) if asked.window is None else (*EXACT, "hybrid")
    # What the series cannot do, it refuses itself.
    return [WAYS[name] for name in names if WAYS[name].answers(asked)] or [WAYS["taylor"]]


def _checked(q: Tensor, options: Options) -> tuple[Any, ...]:
    """What the functions behind softmax and window attention take, in their order."""
    pattern, scale, key_padding, cumulative_lengths, dropout_p, offset, *_ = options
    return pattern, scale_of(q, scale), key_padding, cumulative_lengths, dropout_p, offset


def _common(options: Options) -> dict[str, Any]:
    """What the functional forms of the series take."""
    return {
        "pattern": options.pattern,
        "scale": options.scale,
        "key_padding": options.key_padding,
        "cumulative_lengths": options.cumulative_lengths,
        "dropout_p": options.dropout_p,
        "offset": options.offset,
    }


def _order(options: Options) -> int:
    return ORDER if options.order is None else options.order


def _fits_densely(asked: Question) -> bool:
    single = asked.dtype in (torch.float32, torch.float64) and not asked.ragged and asked.keeps_all
    return single and asked.heads * asked.T * asked.S * asked.dtype.itemsize < MOST_WEIGHTS


def _check_dense(name: str, options: Options) -> None:
    if options.cumulative_lengths is not None or options.dropout_p:
        raise ShapeError(
            f"attention: mechanism {name!r} came with cumulative_lengths or dropout_p, which it does not know. "
            "Pad the texts with key_padding, and drop from the answer."
        )
