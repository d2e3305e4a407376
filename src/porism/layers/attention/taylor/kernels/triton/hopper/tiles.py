"""Tokens of a head as the engine that copies tiles finds them, and the barriers at which warps wait for tiles."""

import torch
from torch import Tensor
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

ALIGNMENT = 16
"""Bytes that the engine asks of where a matrix begins."""


def described(x: Tensor, tokens: int, columns: int | None = None) -> tuple[TensorDescriptor, tuple[int, int, int]]:
    """x (B, A, T, D) in tiles of so many tokens, and of some or all columns; and where a token of a head lies.

    That is row batch * y_batch + head * y_head + token, from column head * y_column on. A tile that goes on beyond the
    text has rows of another head, or zeros. What lies otherwise is copied.
    """
    B, A, T, D = x.shape
    if x.data_ptr() % ALIGNMENT or not (x.is_contiguous() or x.transpose(1, 2).is_contiguous()):
        x = x.clone(memory_format=torch.contiguous_format)
    tile = [tokens, D if columns is None else columns]
    layout = gl.NVMMASharedLayout.get_default_for(tile, gl.bfloat16)
    if x.is_contiguous():
        return TensorDescriptor.from_tensor(x.view(B * A * T, D), tile, layout), (A * T, T, 0)
    rows = x.transpose(1, 2).reshape(B * T, A * D)
    return TensorDescriptor.from_tensor(rows, tile, layout), (T, 0, D)


@gluon.jit
def barriers(COUNT: gl.constexpr, ARRIVALS: gl.constexpr) -> gl.shared_memory_descriptor:
    """(COUNT, 1): each is passed with so many arrivals."""
    made = gl.allocate_shared_memory(gl.int64, [COUNT, 1], mbarrier.MBarrierLayout())
    for one in gl.static_range(COUNT):
        mbarrier.init(made.index(one), count=ARRIVALS)
    return made
