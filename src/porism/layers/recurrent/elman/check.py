"""What `porism check gradients` compares for this layer."""

from collections.abc import Iterator

import torch
from torch import Tensor

from porism.layers.cases import GradientCase
from porism.layers.recurrent.elman import naive
from porism.layers.recurrent.elman.gradient import gradient, layer_gradient, local_gradient, trace_back
from porism.layers.recurrent.elman.naive import ACTIVATIONS, LanguageModelWeights

B, T, D, H, V = 2, 7, 3, 5, 9
WINDOW = 3
"""Divides T with a remainder."""


def cases(seed: int) -> Iterator[GradientCase]:
    draw = torch.Generator().manual_seed(seed)
    for nonlinearity in ACTIVATIONS:
        yield _layer(draw, nonlinearity)
    weights = LanguageModelWeights(
        L=_normal(draw, V, D),
        I=_normal(draw, D, H),
        H=_normal(draw, H, H),
        U=_normal(draw, H, V),
        b1=_normal(draw, H),
        b2=_normal(draw, V),
        h0=_normal(draw, B, H),
    )
    x, y = (torch.randint(V, (T, B), generator=draw) for _ in range(2))
    yield _whole(weights, x, y)
    yield _truncated(weights, x, y)
    yield _local(weights, x, y, t=4)
    yield _traced(weights, x, y, t=4)


def _layer(draw: torch.Generator, nonlinearity: str) -> GradientCase:
    """The backward pass that the layer itself uses."""
    at = {
        "x": _normal(draw, T, B, D),
        "h0": _normal(draw, B, H),
        "I": _normal(draw, D, H),
        "H": _normal(draw, H, H),
        "b": _normal(draw, H),
    }
    dy = _normal(draw, T, B, H)

    def weighted_states(x: Tensor, h0: Tensor, I: Tensor, H: Tensor, b: Tensor) -> Tensor:  # noqa: E741
        return (naive.elman(x, h0, I, H, b, nonlinearity) * dy).sum()

    h = naive.elman(at["x"], at["h0"], at["I"], at["H"], at["b"], nonlinearity)
    hand = layer_gradient(dy, at["x"], torch.cat([at["h0"][None], h]), at["I"], at["H"], nonlinearity)
    by_hand = {name: part for name, part in zip(at, hand, strict=True) if part is not None}
    return GradientCase(nonlinearity, weighted_states, at, by_hand)


def _whole(weights: LanguageModelWeights, x: Tensor, y: Tensor) -> GradientCase:
    def J(*point: Tensor) -> Tensor:
        return naive.language_model(LanguageModelWeights(*point), x, y)

    return GradientCase("language", J, weights._asdict(), gradient(weights, x, y)._asdict())


def _truncated(weights: LanguageModelWeights, x: Tensor, y: Tensor) -> GradientCase:
    """Truncation takes the state at a border as given: every later window starts from a constant."""
    borders = _states(weights, x)[WINDOW - 1 : T - 1 : WINDOW]

    def J(*point: Tensor) -> Tensor:
        at = LanguageModelWeights(*point)
        starts = [at.h0, *borders]
        return torch.stack(
            [
                naive.language_model(at._replace(h0=h0), x_w, y_w)
                for h0, x_w, y_w in zip(starts, x.split(WINDOW), y.split(WINDOW), strict=True)
            ]
        ).sum()

    hand = gradient(weights, x, y, window=WINDOW)
    return GradientCase("truncated", J, weights._asdict(), hand._asdict())


def _local(weights: LanguageModelWeights, x: Tensor, y: Tensor, t: int) -> GradientCase:
    """E[t] with h[t-1] taken as given."""
    before = _states(weights, x)[t - 1]
    now = slice(t, t + 1)

    def E(*point: Tensor) -> Tensor:
        return naive.language_model(LanguageModelWeights._make([*point, before]), x[now], y[now])

    *at, _ = weights._asdict().items()
    return GradientCase("local", E, dict(at), local_gradient(weights, x, y, t)._asdict())


def _traced(weights: LanguageModelWeights, x: Tensor, y: Tensor, t: int) -> GradientCase:
    """delta[t->s] is what E[t] gains when the sum inside the sigmoid grows at time s: a push added there shows it."""
    e = weights.L[x]

    def E(push: Tensor) -> Tensor:
        h = weights.h0
        for s in range(t + 1):
            h = torch.sigmoid(h @ weights.H + e[s] @ weights.I + weights.b1 + push[s])
        yhat = torch.softmax(h @ weights.U + weights.b2, dim=-1)
        return -yhat.gather(1, y[t][:, None]).log().sum()

    no_push = torch.zeros(t + 1, B, H, dtype=torch.float64)
    return GradientCase("traced", E, {"push": no_push}, {"push": trace_back(weights, x, y, t)})


def _states(weights: LanguageModelWeights, x: Tensor) -> Tensor:
    return naive.elman(weights.L[x], weights.h0, weights.I, weights.H, weights.b1)


def _normal(draw: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(shape, generator=draw, dtype=torch.float64)
