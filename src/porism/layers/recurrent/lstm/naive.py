"""The oracle: a loop over the equations of the README, clear and slow. Row vectors throughout."""

import torch
from torch import Tensor


def lstm(
    x: Tensor,
    h: Tensor,
    c: Tensor,
    I: Tensor,  # noqa: E741 - the letter of the equations
    H: Tensor,
    b: Tensor | None = None,
    mask: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """h[t] and c[t] of every step: x (T, B, D), h and c (B, H), I (D, 4H), H (H, 4H), b (4H) -> (T, B, H) each.

    `mask` (B, H) is multiplied into each h[t-1].
    """
    states, memories = [], []
    for x_t in x:
        z = x_t @ I + (h if mask is None else h * mask) @ H
        let_in, forget, new, let_out = (z if b is None else z + b).chunk(4, -1)
        c = torch.sigmoid(forget) * c + torch.sigmoid(let_in) * torch.tanh(new)
        h = torch.sigmoid(let_out) * torch.tanh(c)
        states.append(h)
        memories.append(c)
    return torch.stack(states), torch.stack(memories)
