"""One dense mask of all that limits a query: the pattern, padding, and a mask of the user's own."""

from typing import NamedTuple

import torch
from torch import Tensor

from porism.errors import ShapeError
from porism.layers.masks import check_mask
from porism.layers.pattern import Pattern


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
