"""Masks as nn.MultiheadAttention takes them, checked: True is left out, numbers are added to the logits."""

import torch
from torch import Tensor

from porism.errors import ShapeError
from porism.layers.operands import has_values


def check_mask(name: str, mask: Tensor, like: Tensor) -> None:
    """Refuses a mask that is no dense tensor of bool or of numbers to add, or is on another device than `like`."""
    if not isinstance(mask, Tensor) or mask.layout is not torch.strided or mask.is_nested:
        kind = f"nested or {mask.layout}" if isinstance(mask, Tensor) else f"a {type(mask).__name__}"
        raise ShapeError(f"attention: {name} is {kind}, wanted a dense tensor of bool or of numbers to add.")
    if mask.dtype != torch.bool and not mask.is_floating_point():
        raise ShapeError(
            f"attention: {name} is {mask.dtype}, wanted bool, or floating numbers to add to the logits. "
            f"Convert it with {name}.bool()."
        )
    if mask.device != like.device:
        raise ShapeError(
            f"attention: {name} is on {mask.device}, the queries on {like.device}, wanted one device. "
            f"Move it with {name}.to({str(like.device)!r})."
        )


def padding_of(mask: Tensor, like: Tensor) -> Tensor:
    """True for a pad. A mask of numbers, as nn.TransformerEncoderLayer makes it, has -inf there and 0 elsewhere."""
    check_mask("key_padding_mask", mask, like)
    if mask.dtype == torch.bool:
        return mask
    padding = mask == -torch.inf
    other = ~padding & (mask != 0)
    if not has_values(mask):
        # Nobody waits for the answer: the check runs with the kernels.
        torch._assert_async(~other.any(), "attention: key_padding_mask adds numbers other than -inf and 0.")
    elif other.any():
        raise ShapeError(
            f"attention: key_padding_mask adds {mask[other][0].item():g}, wanted -inf for a pad and 0 for a key. "
            "Give a mask of bool, True for a pad."
        )
    return padding


def is_causal_mask(mask: Tensor) -> Tensor:
    """Whether a mask (..., T, S) leaves out just what lies ahead of each query, as one bool on its device."""
    ahead = torch.full_like(mask, True if mask.dtype == torch.bool else -torch.inf).triu_(1)
    return (mask == ahead).all()
