"""The backward pass by hand: a line of maths above a line of code, no autograd. The README derives every line.

z[t] = x[t] I + h[t-1] H + b are the four sums of a step in torch's order: in, forget, new, out; delta[t] is the
gradient with respect to them. The layer itself goes back by torch's kernels.
"""

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


@torch.no_grad()
def gradient(
    dy: Tensor,
    x: Tensor,
    h0: Tensor,
    c0: Tensor,
    I: Tensor,  # noqa: E741
    H: Tensor,
    b: Tensor,
) -> LSTMGradient:
    """From the gradient dy (T, B, H) that reaches every h[t] from outside the recurrence."""
    gates, h, c = _forward(x, h0, c0, I, H, b)
    delta = torch.empty_like(gates)
    # Nothing reaches h[T] and c[T] from a later step.
    dh, dc = torch.zeros_like(h0), torch.zeros_like(c0)
    for t in reversed(range(len(x))):
        i, f, u, o = gates[t].chunk(4, 1)
        tanh_c = torch.tanh(c[t + 1])
        # g[t] = dy[t] + delta[t+1] H^T
        g = dy[t] + dh
        # dc[t] = dc[t+1] f[t+1] + g[t] o (1 - tanh(c)^2)
        dc = dc + g * o * (1 - tanh_c**2)
        # delta = what reaches each gate times its slope
        delta[t] = torch.cat(
            [dc * u * i * (1 - i), dc * c[t] * f * (1 - f), dc * i * (1 - u**2), g * tanh_c * o * (1 - o)], 1
        )
        # delta[t] H^T, and dc[t] f[t], for the step before
        dh, dc = delta[t] @ H.mT, dc * f
    rows = delta.flatten(0, 1)
    # dx = delta I^T,   dI = sum x[t]^T delta[t],   dH = sum h[t-1]^T delta[t],   db = sum delta[t]
    return LSTMGradient(delta @ I.mT, dh, dc, x.flatten(0, 1).mT @ rows, h[:-1].flatten(0, 1).mT @ rows, rows.sum(0))


def _forward(
    x: Tensor,
    h: Tensor,
    c: Tensor,
    I: Tensor,  # noqa: E741
    H: Tensor,
    b: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gates (T, B, 4H), and h[0] to h[T], c[0] to c[T], (T+1, B, H)."""
    gates, states, memories = [], [h], [c]
    for x_t in x:
        i, f, u, o = (x_t @ I + h @ H + b).chunk(4, 1)
        i, f, u, o = torch.sigmoid(i), torch.sigmoid(f), torch.tanh(u), torch.sigmoid(o)
        c = f * c + i * u
        h = o * torch.tanh(c)
        gates.append(torch.cat([i, f, u, o], 1))
        states.append(h)
        memories.append(c)
    return torch.stack(gates), torch.stack(states), torch.stack(memories)
