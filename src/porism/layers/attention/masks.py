"""Masks as nn.MultiheadAttention takes them, checked: True is left out, numbers are added to the logits."""

from typing import NamedTuple

import torch
from torch import Tensor

from porism.errors import ShapeError
from porism.layers.attention.pattern import Pattern
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


class Mask(NamedTuple):
    """What `scaled_dot_product_attention` takes: True for a pair to look at, or numbers to add to the logits.

    A row that looks at nothing would be 0 / 0. It looks at everything here and `blind` is True for it, (..., T, 1), so
    that its answer is set to 0 afterwards, which sets its gradient to 0 as well.
    """

    pairs: Tensor
    blind: Tensor

    def added_to(self, logits: Tensor) -> Tensor:
        hidden = self.pairs.dtype == torch.bool
        return logits.masked_fill(~self.pairs, -torch.inf) if hidden else logits + self.pairs


def dense_mask(
    q: Tensor, k: Tensor, pattern: Pattern, offset: int, key_padding: Tensor | None, mask: Tensor | None
) -> Mask | None:
    """All limits as one mask that fits (B, A, T, S); None where there are none."""
    limits = []
    if not sees_all(pattern, k.shape[2], offset):
        limits.append(pattern.mask(q.shape[2], k.shape[2], offset, q.device)[None, None])
    if key_padding is not None:
        limits.append(~key_padding[:, None, None, :])
    added = None
    if mask is not None:
        mask = _fitted(mask, q, k)
        added = mask.to(q.dtype) if mask.is_floating_point() else None
        # Only -inf hides a key. A NaN is added as it is, so that it shows in the answer and not as a key less.
        limits.append(mask if added is None else added != -torch.inf)
    if not limits:
        return None
    seen = limits[0]
    for limit in limits[1:]:
        seen = seen & limit
    blind = ~seen.any(-1, keepdim=True)
    if added is None:
        return Mask(seen | blind, blind)
    return Mask(added.masked_fill(~seen, -torch.inf).masked_fill(blind, 0), blind)


def sees_all(pattern: Pattern, S: int, offset: int) -> bool:
    """Whether every query looks at all S keys, as those do that stand behind them in a causal pattern."""
    return pattern.kind == "full" or (pattern.kind == "causal" and offset >= S - 1)


def _fitted(mask: Tensor, q: Tensor, k: Tensor) -> Tensor:
    """The mask with four sizes, each of them one or that of the pairs."""
    check_mask("mask", mask, q)
    wanted = (*q.shape[:3], k.shape[2])
    shape = (1,) * (4 - mask.dim()) + tuple(mask.shape)
    if len(shape) != 4 or any(size not in (1, full) for size, full in zip(shape, wanted, strict=True)):
        raise ShapeError(
            f"attention: mask is {tuple(mask.shape)}, wanted one that broadcasts to {wanted}: batch, heads, queries, "
            "keys. Add the sizes that are missing with unsqueeze."
        )
    return mask.view(shape)
