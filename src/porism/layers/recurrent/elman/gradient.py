"""The backward pass by hand: a line of maths above a line of code, no autograd. The README derives every line.

h[t] = act(x[t] I + h[t-1] H + b) is the layer; the language model around it is `naive.language_model`. delta[t] is the
gradient with respect to the sum inside act at time t, and a[t] with respect to the scores h[t] U + b2.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from porism.layers.recurrent.elman.naive import LanguageModelWeights

ALL = (True,) * 5
"""Of x, h[0], I, H and b: which gradients are needed."""


def slope(h: Tensor, nonlinearity: str) -> Tensor:
    """act'(z), written in h = act(z) so that z need not be kept."""
    match nonlinearity:
        case "sigmoid":
            # sigmoid'(z) = h (1 - h)
            return h * (1 - h)
        case "tanh":
            # tanh'(z) = 1 - h^2
            return 1 - h * h
        case _:
            # relu'(z) = [z > 0] = [h > 0]      and 1 where h is NaN, as torch has it
            return (h != 0).to(h.dtype)


def back_through_time(
    dy: Tensor, h: Tensor, recurrent: Tensor, nonlinearity: str, mask: Tensor | None = None
) -> Tensor:
    """delta of every step, from the gradient dy that reaches every h[t] from outside the recurrence. All (T, B, H)."""
    slopes = slope(h, nonlinearity)
    delta = torch.empty_like(slopes)
    *earlier, (delta_next, dy_last, slope_last) = zip(delta.unbind(), dy.unbind(), slopes.unbind(), strict=True)
    # delta[T] = dy[T] * act'           delta[T+1] = 0, there is no step after the last
    torch.mul(dy_last, slope_last, out=delta_next)
    transposed = recurrent.mT
    for delta_t, dy_t, slope_t in reversed(earlier):
        if mask is None:
            # g[t] = dy[t] + delta[t+1] H^T
            torch.addmm(dy_t, delta_next, transposed, out=delta_t)
        else:
            # g[t] = dy[t] + m (delta[t+1] H^T)
            torch.addcmul(dy_t, delta_next @ transposed, mask, out=delta_t)
        # delta[t] = g[t] * act'
        delta_next = delta_t.mul_(slope_t)
    return delta


def layer_gradient(
    dy: Tensor,
    x: Tensor,
    states: Tensor,
    input: Tensor,
    recurrent: Tensor,
    nonlinearity: str,
    mask: Tensor | None = None,
    needed: tuple[bool, ...] = ALL,
    back_through_time: Callable[..., Tensor] = back_through_time,
) -> tuple[Tensor | None, ...]:
    """The gradients of x, h[0], I, H and b, None where one is not needed; delta by any kernel.

    dy (T, B, H), x (T, B, D), states h[0] to h[T] (T+1, B, H), I (D, H), H (H, H), mask m (B, H). x and I may be of a
    lower type than the rest; so are their gradients.
    """
    needs_x, needs_h0, needs_I, needs_H, needs_b = needed
    delta = back_through_time(dy, states[1:], recurrent, nonlinearity, mask)
    # dh[0] = m (delta[1] H^T)
    dh0 = delta[0] @ recurrent.mT if needs_h0 else None
    if dh0 is not None and mask is not None:
        dh0.mul_(mask)
    # dH = sum (m h[t-1])^T delta[t]    one product over all T B rows: the sum over t is inside it;
    #                                   as (sum delta[t]^T m h[t-1])^T, which lies in memory the way torch keeps weights
    rows = delta.flatten(0, 1)
    dH = (rows.mT @ _masked(states[:-1], mask).flatten(0, 1)).mT if needs_H else None
    rows = rows.to(x.dtype)
    # dx[t] = delta[t] I^T
    dx = (rows @ input.mT).view(x.shape) if needs_x else None
    # dI = sum x[t]^T delta[t]
    dI = (rows.mT @ x.flatten(0, 1)).mT if needs_I else None
    # db = sum delta[t]
    db = rows.sum(0) if needs_b else None
    return dx, dh0, dI, dH, db


def differentiable_gradient(
    dy: Tensor,
    x: Tensor,
    states: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    nonlinearity: str,
    mask: Tensor | None = None,
) -> tuple[Tensor, ...]:
    """`layer_gradient` without operations in place, for autograd to differentiate; weights as torch keeps them."""
    delta: list[Tensor] = []
    # m (delta[t+1] H^T)
    fed_back = torch.zeros_like(dy[0])
    for dy_t, slope_t in zip(reversed(dy.unbind()), reversed(slope(states[1:], nonlinearity).unbind()), strict=True):
        delta.insert(0, (dy_t + fed_back) * slope_t)
        fed_back = _masked(delta[0] @ weight_hh, mask)
    rows = torch.cat(delta)
    dH = rows.mT @ _masked(states[:-1], mask).flatten(0, 1)
    rows = rows.to(x.dtype)
    return (rows @ weight_ih).view(x.shape), fed_back, rows.mT @ x.flatten(0, 1), dH, rows.sum(0)


def _masked(h: Tensor, mask: Tensor | None) -> Tensor:
    return h if mask is None else h * mask


@torch.no_grad()
def gradient(weights: LanguageModelWeights, x: Tensor, y: Tensor, window: int | None = None) -> LanguageModelWeights:
    """The gradient of J with respect to everything in `weights`; x and y are words, (T, B).

    With `window` the gradient is cut at the borders of windows of so many steps, while the state is carried across:
    truncated backpropagation through time.
    """
    H, U, h0 = weights.H, weights.U, weights.h0
    e, h, a = _forward(weights, x, y)
    # g[t] = a[t] U^T + delta[t+1] H^T, the last term dropped at a border
    g = a @ U.mT
    steps = window or len(x)
    delta = torch.cat(
        [back_through_time(g[t : t + steps], h[t : t + steps], H, "sigmoid") for t in range(0, len(x), steps)]
    )
    before = torch.cat([h0[None], h[:-1]])
    # dh[0] = delta[1] H^T
    return _sums(weights, x, e, before, h, a, delta)._replace(h0=delta[0] @ H.mT)


@torch.no_grad()
def local_gradient(weights: LanguageModelWeights, x: Tensor, y: Tensor, t: int) -> LanguageModelWeights:
    """The gradient of E[t] at time t alone, the first step being t = 0: h[t-1] is taken as given, so h0 gets none."""
    e, h, a = _forward(weights, x, y)
    before = h[t - 1] if t else weights.h0
    # g[t] = a[t] U^T;  delta[t] = g[t] * h[t] (1 - h[t])
    delta = (a[t] @ weights.U.mT) * slope(h[t], "sigmoid")
    now = slice(t, t + 1)
    return _sums(weights, x[now], e[now], before[None], h[now], a[now], delta[None])


@torch.no_grad()
def trace_back(weights: LanguageModelWeights, x: Tensor, y: Tensor, t: int) -> Tensor:
    """One loss traced back through time: delta[t->s] for every s from the first step to t, (t+1, B, H)."""
    _, h, a = _forward(weights, x, y)
    # delta[t->t] = (a[t] U^T) * h[t] (1 - h[t])
    traced = [(a[t] @ weights.U.mT) * slope(h[t], "sigmoid")]
    for s in range(t, 0, -1):
        # delta[t->s-1] = (delta[t->s] H^T) * h[s-1] (1 - h[s-1])
        traced.append((traced[-1] @ weights.H.mT) * slope(h[s - 1], "sigmoid"))
    return torch.stack(traced[::-1])


def _forward(weights: LanguageModelWeights, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """e[t], h[t] and a[t] of every step."""
    L, I, H, U, b1, b2, h = weights  # noqa: E741
    # e[t] = x[t] L
    e = L[x]
    states = []
    for e_t in e:
        # h[t] = sigmoid(h[t-1] H + e[t] I + b1)
        h = torch.sigmoid(h @ H + e_t @ I + b1)
        states.append(h)
    h = torch.stack(states)
    # a[t] = yhat[t] - y[t]
    a = torch.softmax(h @ U + b2, dim=-1) - one_hot(y, len(b2))
    return e, h, a


def _sums(
    weights: LanguageModelWeights, x: Tensor, e: Tensor, before: Tensor, h: Tensor, a: Tensor, delta: Tensor
) -> LanguageModelWeights:
    """The sums over time and batch that turn delta and a into the gradients of the parameters."""
    return LanguageModelWeights(
        # dL[w] = sum over t with x[t] = w of delta[t] I^T
        L=torch.zeros_like(weights.L).index_add(0, x.flatten(), (delta @ weights.I.mT).flatten(0, 1)),
        # dI = sum e[t]^T delta[t]
        I=e.flatten(0, 1).mT @ delta.flatten(0, 1),
        # dH = sum h[t-1]^T delta[t]
        H=before.flatten(0, 1).mT @ delta.flatten(0, 1),
        # dU = sum h[t]^T a[t]
        U=h.flatten(0, 1).mT @ a.flatten(0, 1),
        # db1 = sum delta[t]
        b1=delta.flatten(0, 1).sum(0),
        # db2 = sum a[t]
        b2=a.flatten(0, 1).sum(0),
        h0=torch.zeros_like(weights.h0),
    )
