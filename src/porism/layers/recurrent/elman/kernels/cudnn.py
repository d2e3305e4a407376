"""The layer through torch's fused tanh and relu kernels: cuDNN on a GPU. The sigmoid goes in disguise."""

import torch
from torch import Tensor


def fused(
    x: Tensor, h0: Tensor, weight_ih: Tensor, weight_hh: Tensor, bias: Tensor | None, nonlinearity: str
) -> Tensor:
    """Every state h[1] to h[T], (T, B, H). Autograd sees through all of it."""
    if nonlinearity == "sigmoid":
        return (fused(x, *tanh_disguise(h0, weight_ih, weight_hh, bias), "tanh") + 1) / 2
    kernel = torch.rnn_tanh if nonlinearity == "tanh" else torch.rnn_relu
    # The kernels add two biases, and cuDNN keeps room for both even where there are none: ours is the first.
    zero = torch.zeros_like(weight_hh[0])
    weights = in_one_chunk([weight_ih, weight_hh, zero if bias is None else bias, zero])
    # cuDNN reads the first state as one piece of memory.
    y, _ = kernel(x, h0.contiguous().unsqueeze(0), weights, True, 1, 0.0, torch.is_grad_enabled(), False, False)
    return y


def tanh_disguise(
    h0: Tensor, weight_ih: Tensor, weight_hh: Tensor, bias: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The first state, weights and bias of the tanh layer whose states g are 2 h - 1 of this sigmoid layer.

    tanh(z / 2) = 2 sigmoid(z) - 1, so with h = (g + 1) / 2
    g[t] = tanh((x[t] I + b + colsum(H) / 2) / 2 + g[t-1] H / 4).
    """
    # torch keeps H transposed: its column sums are the row sums of weight_hh.
    shift = weight_hh.sum(1) / 2
    return 2 * h0 - 1, weight_ih / 2, weight_hh / 4, (shift if bias is None else bias + shift) / 2


def in_one_chunk(weights: list[Tensor]) -> list[Tensor]:
    """The same weights side by side in one piece of memory, as cuDNN asks (it warns and copies otherwise).

    It has the matrices of all layers before the biases of all.
    """
    order = sorted(range(len(weights)), key=lambda i: -weights[i].dim())
    parts = torch.cat([weights[i].flatten() for i in order]).split([weights[i].numel() for i in order])
    placed = dict(zip(order, parts, strict=True))
    return [placed[i].view_as(weight) for i, weight in enumerate(weights)]
