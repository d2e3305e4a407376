"""The loop over time in torch's own operations: on a CPU, and in double precision on any device."""

import torch
from torch import Tensor
from torch.nn.functional import linear

from porism.layers.recurrent.kernels.transpose import transposed

ACTIVATE = {"sigmoid": torch.sigmoid_, "tanh": torch.tanh_, "relu": torch.relu_}


def forward(
    x: Tensor,
    h0: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias: Tensor | None,
    mask: Tensor | None,
    nonlinearity: str,
) -> Tensor:
    """h[0] to h[T], (T+1, B, H). `mask` (B, H) is multiplied into every h[t-1] on its way to the product."""
    # One product over all T B rows; it is not fed back, so it may be of a lower type.
    inputs = linear(x, weight_ih, bias).to(h0.dtype)
    h = inputs.new_empty(x.shape[0] + 1, *h0.shape)
    steps = h.unbind()
    steps[0].copy_(h0)
    activate, recurrent = ACTIVATE[nonlinearity], transposed(weight_hh, len(x), len(h0))
    for inputs_t, h_previous, h_t in zip(inputs.unbind(), steps, steps[1:], strict=False):
        # h[t] = act(x[t] I + (m h[t-1]) H + b)
        kept = h_previous if mask is None else h_previous * mask
        activate(torch.addmm(inputs_t, kept, recurrent, out=h_t))
    return h
