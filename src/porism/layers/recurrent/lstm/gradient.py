"""The backward pass by hand: a line of maths above a line of code, no autograd. The README derives every line.

z[t] = x[t] I + (m h[t-1]) H + b are the four sums of a step in torch's order: in, forget, new, out; delta[t] is the
gradient with respect to them. `layer_gradient` is what the layer runs, after a scan back through time by one of its
kernels; `gradient` is the whole of it in plain operations, which autograd can differentiate once more.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class LSTMGradient(NamedTuple):
    """Of x (T, B, D), h[0] and c[0] (B, H), I (D, 4H), H (H, 4H) and b (4H)."""

    x: Tensor
    h0: Tensor
    c0: Tensor
    I: Tensor  # noqa: E741 - the letter of the equations
    H: Tensor
    b: Tensor


def gradient(
    dy: Tensor,
    x: Tensor,
    h0: Tensor,
    c0: Tensor,
    I: Tensor,  # noqa: E741
    H: Tensor,
    b: Tensor | None = None,
    mask: Tensor | None = None,
    dc: Tensor | None = None,
) -> LSTMGradient:
    """From the gradients that reach every h[t] (T, B, H) and c[T] (B, H) from outside the recurrence."""
    gates, h, c = _forward(x, h0, c0, I, H, b, mask)
    delta: list[Tensor] = []
    # No later step reaches h[T].
    dh, dc = torch.zeros_like(h0), torch.zeros_like(c0) if dc is None else dc
    for t in reversed(range(len(x))):
        i, f, u, o = gates[t].chunk(4, 1)
        tanh_c = torch.tanh(c[t + 1])
        # g[t] = dy[t] + m (delta[t+1] H^T)
        g = dy[t] + dh
        # dc[t] = dc[t+1] f[t+1] + g[t] o (1 - tanh(c)^2)
        dc = dc + g * o * (1 - tanh_c**2)
        # delta = what reaches each gate times its slope
        parts = (dc * u * i * (1 - i), dc * c[t] * f * (1 - f), dc * i * (1 - u**2), g * tanh_c * o * (1 - o))
        delta.insert(0, torch.cat(parts, 1))
        # m (delta[t] H^T), and dc[t] f[t], for the step before
        dh, dc = masked(delta[0] @ H.mT, mask), dc * f
    rows = torch.cat(delta)
    # dx = delta I^T,   dI = sum x[t]^T delta[t],   dH = sum (m h[t-1])^T delta[t],   db = sum delta[t]
    return LSTMGradient(
        (rows @ I.mT).view(x.shape),
        dh,
        dc,
        x.flatten(0, 1).mT @ rows,
        masked(torch.stack(h[:-1]), mask).flatten(0, 1).mT @ rows,
        rows.sum(0),
    )


def _forward(
    x: Tensor,
    h: Tensor,
    c: Tensor,
    I: Tensor,  # noqa: E741
    H: Tensor,
    b: Tensor | None,
    mask: Tensor | None,
) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
    """The gates (B, 4H) of every step, and h[0] to h[T], c[0] to c[T], (B, H)."""
    gates, states, memories = [], [h], [c]
    for x_t in x:
        z = x_t @ I + masked(h, mask) @ H
        i, f, u, o = (z if b is None else z + b).chunk(4, 1)
        i, f, u, o = torch.sigmoid(i), torch.sigmoid(f), torch.tanh(u), torch.sigmoid(o)
        c = f * c + i * u
        h = o * torch.tanh(c)
        gates.append(torch.cat([i, f, u, o], 1))
        states.append(h)
        memories.append(c)
    return gates, states, memories


def layer_gradient(
    delta: Tensor,
    x: Tensor,
    h: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    mask: Tensor | None,
    needed: Sequence[bool],
) -> tuple[Tensor | None, Tensor, Tensor | None, Tensor | None, Tensor | None]:
    """The gradients of x, h[0], both weights and the bias from delta (T, B, 4H); all but h[0]'s None where not needed.

    x (T, B, D), h[0] to h[T] (T+1, B, H), weights as torch keeps them. x and weight_ih may be of a lower type than the
    rest; so are their gradients.
    """
    needs_x, needs_ih, needs_hh, needs_b = needed
    rows = delta.flatten(0, 1)
    # dh[0] = m (delta[1] H^T)
    dh0 = masked(delta[0] @ weight_hh, mask)
    # dH = sum (m h[t-1])^T delta[t]    one product over all T B rows: the sum over t is inside it
    dH = rows.mT @ masked(h[:-1], mask).flatten(0, 1) if needs_hh else None
    rows = rows.to(x.dtype)
    # dx[t] = delta[t] I^T
    dx = (rows @ weight_ih).view(x.shape) if needs_x else None
    # dI = sum x[t]^T delta[t]
    dI = rows.mT @ x.flatten(0, 1) if needs_ih else None
    # db = sum delta[t]
    db = rows.sum(0) if needs_b else None
    return dx, dh0, dI, dH, db


def masked(h: Tensor, mask: Tensor | None) -> Tensor:
    return h if mask is None else h * mask
