"""Tokens of a head as the engine that copies tiles finds them: one matrix of rows, whatever lies in which order."""

import torch
from torch import Tensor
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

ALIGNMENT = 16
"""Bytes that the engine asks of where a matrix begins."""


def described(x: Tensor, tokens: int) -> tuple[TensorDescriptor, tuple[int, int, int]]:
    """x (B, A, T, D) in tiles of so many tokens, and where a token of a head lies.

    That is row batch * y_batch + head * y_head + token, from column head * y_column on. A tile that goes on beyond the
    text has rows of another head, or zeros. What lies otherwise is copied.
    """
    B, A, T, D = x.shape
    if x.data_ptr() % ALIGNMENT or not (x.is_contiguous() or x.transpose(1, 2).is_contiguous()):
        x = x.clone(memory_format=torch.contiguous_format)
    layout = gl.NVMMASharedLayout.get_default_for([tokens, D], gl.bfloat16)
    if x.is_contiguous():
        return TensorDescriptor.from_tensor(x.view(B * A * T, D), [tokens, D], layout), (A * T, T, 0)
    rows = x.transpose(1, 2).reshape(B * T, A * D)
    return TensorDescriptor.from_tensor(rows, [tokens, D], layout), (T, 0, D)
