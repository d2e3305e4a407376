"""The loop over time in torch's own operations, forward and back: on a CPU, and in double precision on any device."""

import torch
from torch import Tensor
from torch.nn.functional import linear

from porism.layers.recurrent.kernels.transpose import transposed


def forward(
    x: Tensor,
    h0: Tensor,
    c0: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias: Tensor | None,
    mask: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """h[0] to h[T] and c[0] to c[T], (T+1, B, H), and the gates (T, B, 4H): in, forget, new, out.
    c is float32 or better.

    `mask` (B, H) is multiplied into every h[t-1] on its way to the product.
    """
    # One product over all T B rows; it is not fed back, so it may be of a lower type.
    gates = linear(x, weight_ih, bias).to(h0.dtype)
    H = h0.shape[1]
    h = gates.new_empty(len(x) + 1, *h0.shape)
    # The memory is a sum over all steps.
    c = h.new_empty(h.shape, dtype=torch.promote_types(h.dtype, torch.float32))
    h[0], c[0] = h0, c0
    recurrent = transposed(weight_hh, len(x), len(h0))
    let_in, forget, new, let_out = gates.chunk(4, -1)
    in_and_forget = gates[..., : 2 * H]
    steps = zip(gates, in_and_forget, let_in, forget, new, let_out, h, h[1:], c, c[1:], strict=False)
    for z, in_and_forget_t, i, f, u, o, h_previous, h_t, c_previous, c_t in steps:
        z.addmm_(h_previous if mask is None else h_previous * mask, recurrent)
        in_and_forget_t.sigmoid_()
        u.tanh_()
        o.sigmoid_()
        # c[t] = f c[t-1] + i u,   h[t] = o tanh(c[t])
        torch.mul(f, c_previous, out=c_t).addcmul_(i, u)
        torch.tanh(c_t, out=h_t).mul_(o)
    return h, c, gates


def back_through_time(
    dy: Tensor, dc: Tensor, c: Tensor, gates: Tensor, weight_hh: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor]:
    """delta of every step (T, B, 4H), and dc[0] (B, H).

    From the gradients that reach every h[t] (T, B, H) and c[T] (B, H) from outside, c[0] to c[T] (T+1, B, H) and the
    gates (T, B, 4H).
    """
    H = dc.shape[1]
    tanh_c = torch.tanh(c[1:])
    # What reaches c[t] of one that reaches h[t]: o (1 - tanh(c)^2)
    to_c = (1 - tanh_c * tanh_c).mul_(gates[..., 3 * H :])
    # What reaches the sums inside the gates, of one that reaches c[t]: u i (1 - i), c[t-1] f (1 - f), i (1 - u^2);
    # and of one that reaches h[t]: tanh(c) o (1 - o)
    let_in, forget, new, let_out = gates.chunk(4, -1)
    slopes = torch.empty_like(gates)
    torch.mul(new, let_in, out=slopes[..., :H]).mul_(1 - let_in)
    torch.mul(c[:-1], forget, out=slopes[..., H : 2 * H]).mul_(1 - forget)
    torch.mul(let_in, 1 - new * new, out=slopes[..., 2 * H : 3 * H])
    torch.mul(tanh_c, let_out, out=slopes[..., 3 * H :]).mul_(1 - let_out)
    delta = slopes
    dc, g, later = dc.to(c.dtype, copy=True), dy[-1], delta[-1]
    to_new = delta.view(*delta.shape[:2], 4, H)[:, :, :3]
    steps = zip(delta, to_new, delta[..., 3 * H :], dy, to_c, forget, strict=True)
    for t, (delta_t, through_c, through_h, dy_t, to_c_t, f) in reversed(list(enumerate(steps))):
        # g[t] = dy[t] + m (delta[t+1] H^T)
        if t < len(dy) - 1:
            g = torch.addmm(dy_t, later, weight_hh) if mask is None else torch.addcmul(dy_t, later @ weight_hh, mask)
        # dc[t] = dc[t+1] f[t+1] + g[t] o (1 - tanh(c)^2)
        dc.addcmul_(g, to_c_t)
        # delta[t] = what reaches each gate times its slope
        through_c.mul_(dc.unsqueeze(1))
        through_h.mul_(g)
        dc.mul_(f)
        later = delta_t
    return delta, dc
