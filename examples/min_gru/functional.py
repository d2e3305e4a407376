"""The function that the layer calls: operands checked once, the gates of all steps in two products."""

from typing import Any

import torch
from torch import Tensor

from examples.min_gru.gradient import gradient
from porism.errors import ShapeError
from porism.layers.autocast import autocast_dtype, without_autocast
from porism.layers.operands import check_operands


def min_gru(x: Tensor, weight_z: Tensor, weight_c: Tensor) -> Tensor:
    """States (T, B, H) of minGRU over x (T, B, D)."""
    if x.dim() != 3 or x.shape[-1] != weight_z.shape[-1]:
        raise ShapeError(
            f"min_gru: input is {tuple(x.shape)}, expected (T, B, {weight_z.shape[-1]}). Put the width last."
        )
    check_operands("min_gru", input=x, weight_z=weight_z, weight_c=weight_c)
    dtype = autocast_dtype(x, weight_z, weight_c) or x.dtype
    with without_autocast(x):
        h: Tensor = _MinGRU.apply(x.to(dtype), weight_z.to(dtype), weight_c.to(dtype))  # type: ignore[no-untyped-call]
    return h


class _MinGRU(torch.autograd.Function):
    """Kept for the backward pass are x and the states; gates are computed again, so that they can be differentiated."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, weight_z: Tensor, weight_c: Tensor) -> Tensor:
        z, c = torch.sigmoid(x @ weight_z.mT), x @ weight_c.mT  # T B H
        states = [(1 - z[0]) * c[0]]
        for z_t, c_t in zip(z[1:], c[1:], strict=True):
            states.append(z_t * states[-1] + (1 - z_t) * c_t)
        return torch.stack(states)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs, output)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, ...]:
        return tuple(gradient(dy, *ctx.saved_tensors))
