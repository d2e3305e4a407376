"""Masks of keys and of pairs, checked, and the one dense mask that fused kernels take."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from porism.costing.counting.fake import is_counted
from porism.errors import ShapeError
from porism.layers.attention.pattern import Pattern
from porism.layers.operands import FEW, has_values


def check_mask(layer: str, name: str, mask: Tensor, like: Tensor) -> None:
    """Refuses a mask that is no dense tensor of bool or of numbers to add, or is on another device than `like`."""
    if not isinstance(mask, Tensor) or mask.layout is not torch.strided or mask.is_nested:
        kind = f"nested or {mask.layout}" if isinstance(mask, Tensor) else f"a {type(mask).__name__}"
        raise ShapeError(f"{layer}: {name} is {kind}, expected a dense tensor of bool or of numbers to add.")
    if mask.dtype != torch.bool and not mask.is_floating_point():
        raise ShapeError(
            f"{layer}: {name} is {mask.dtype}, expected bool, or floating numbers to add to the logits. "
            f"Convert it with {name}.bool()."
        )
    if mask.device != like.device:
        raise ShapeError(
            f"{layer}: {name} is on {mask.device}, the queries on {like.device}, expected one device. "
            f"Move it with {name}.to({str(like.device)!r})."
        )


def padding_of(layer: str, mask: Tensor, B: int, S: int, like: Tensor) -> Tensor:
    """key_padding_mask (B, S) as bool, True for a pad, on the device of `like`; or a refusal.

    A mask of numbers, as nn.TransformerEncoderLayer makes it, has -inf for a pad and 0 elsewhere.
    """
    check_mask(layer, "key_padding_mask", mask, like)
    if mask.shape != (B, S):
        raise ShapeError(
            f"{layer}: key_padding_mask is {tuple(mask.shape)}, expected {(B, S)}: batch and keys, True for a pad."
        )
    if mask.dtype == torch.bool:
        return mask
    padding = mask == -torch.inf
    other = ~padding & (mask != 0)
    if not has_values(mask):
        # Nobody waits for the answer: the check runs with the kernels.
        torch._assert_async(~other.any(), "attention: key_padding_mask adds numbers other than -inf and 0.")
    elif other.any():
        raise ShapeError(
            f"{layer}: key_padding_mask adds {mask[other][0].item():g}, expected -inf for a pad and 0 for a key. "
            "Give a mask of bool, True for a pad."
        )
    return padding


def without_padding(x: Tensor, padding: Tensor) -> Tensor:
    """Keys or values (B, G, S, D) with zeros for pads (B, S), where those could be NaN or infinite.

    A weight of 0 hides a key, but not its NaN or infinity: 0 times those is NaN, in the answer and in gradients.
    """
    return x if is_finite(x) else x.masked_fill(padding[:, None, :, None], 0)


def is_finite(x: Tensor) -> bool:
    """Whether all numbers are known to be finite: their sum is, on a CPU, where it can be read without waiting.

    Where operations are counted they are taken to be: that is what runs as long as a training goes well.
    """
    if not is_looked_at(x):
        return False
    total = x.detach().sum()
    return is_counted(x) or math.isfinite(total.item())


def is_looked_at(x: Tensor) -> bool:
    """Whether a run looks at the numbers of x: on a CPU, where nobody waits for them; also where it is counted."""
    return (x.is_cpu and is_counted(x)) or has_values(x)


def attention_mask(layer: str, mask: Tensor, q: Tensor, k: Tensor) -> Tensor:
    """attn_mask with four sizes, each of them one or that of the pairs; or a refusal."""
    check_mask(layer, "attn_mask", mask, q)
    expected = (*q.shape[:3], k.shape[2])
    shape = (1,) * (4 - mask.dim()) + tuple(mask.shape)
    if len(shape) != 4 or any(size not in (1, full) for size, full in zip(shape, expected, strict=True)):
        raise ShapeError(
            f"{layer}: attn_mask is {tuple(mask.shape)}, expected one that broadcasts to {expected}: batch, heads, "
            "queries, keys. Add the sizes that are missing with unsqueeze."
        )
    return mask.view(shape)


def is_causal_mask(mask: Tensor) -> Tensor:
    """Whether a mask (..., T, S) leaves out just what comes after each query, as one bool on its device."""
    ahead = torch.full_like(mask, True if mask.dtype == torch.bool else -torch.inf).triu_(1)
    return (mask == ahead).all()


class Mask(NamedTuple):
    """What `scaled_dot_product_attention` takes: True for a pair that attends, or numbers to add to the logits.

    A row that attends to nothing would be 0 / 0. It attends to everything here and `blind` is True for it, (..., T, 1),
    so that its answer is set to 0 afterwards, which sets its gradient to 0 as well. None if there is no such row.
    """

    pairs: Tensor
    blind: Tensor | None

    def hide_blind(self, answer: Tensor) -> Tensor:
        """Answers or weights (..., T, H) with zeros for the rows that attend to nothing."""
        return answer if self.blind is None else answer.masked_fill(self.blind, 0)

    def added_to(self, logits: Tensor) -> Tensor:
        hidden = self.pairs.dtype == torch.bool
        return logits.masked_fill(~self.pairs, -torch.inf) if hidden else logits + self.pairs


def dense_mask(
    q: Tensor, k: Tensor, pattern: Pattern, offset: int, key_padding_mask: Tensor | None, attn_mask: Tensor | None
) -> Mask | None:
    """All limits as one mask that fits (B, A, T, S); None where there are none."""
    everywhere = pattern.attends_to_all(k.shape[2], offset)
    if everywhere and attn_mask is None and key_padding_mask is not None:
        return _padding_mask(key_padding_mask)
    limits = []
    if not everywhere:
        limits.append(pattern.mask(q.shape[2], k.shape[2], offset, q.device)[None, None])
    if key_padding_mask is not None:
        limits.append(~key_padding_mask[:, None, None, :])
    added = None
    if attn_mask is not None:
        added = attn_mask.to(q.dtype) if attn_mask.is_floating_point() else None
        # Only -inf hides a key. A NaN is added as it is, so that it shows in the answer and not as a key less.
        limits.append(attn_mask if added is None else added != -torch.inf)
    if not limits:
        return None
    attended = limits[0]
    for limit in limits[1:]:
        attended = attended & limit
    blind = ~attended.any(-1, keepdim=True)
    if added is None:
        return Mask(attended | blind, blind)
    return Mask(added.masked_fill(~attended, -torch.inf).masked_fill(blind, 0), blind)


def _padding_mask(padding: Tensor) -> Mask:
    """The mask of padding alone (B, S). Texts of pads only are rare: nothing is done for them where none is seen."""
    B, S = padding.shape
    attended = (~padding).view(B, 1, 1, S)
    if is_looked_at(padding) and not _some_row_full(padding):
        return Mask(attended, None)
    blind = padding.all(-1).view(B, 1, 1, 1)
    return Mask(attended | blind, blind)


def _some_row_full(padding: Tensor) -> bool:
    """Whether a text is padding from end to end; where operations are counted, none is."""
    if is_counted(padding):
        padding.all(-1).any()
        return False
    if padding.numel() <= FEW:
        return any(all(row) for row in padding.tolist())
    return bool(padding.all(-1).any())
