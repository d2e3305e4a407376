"""The oracle: every pair of query and key written out, clear and slow. Other kinds of attention start from it too."""

from collections.abc import Callable

import torch
from torch import Tensor

from porism.layers.attention.pattern import Pattern

Weight = Callable[[Tensor], Tensor]
"""From logits (..., T, S) to weights that are not yet divided by the sum of their row."""


def exponential(logits: Tensor) -> Tensor:
    """exp(z), with the row's largest z taken off, which goes out of the quotient and lets no exp overflow."""
    return torch.exp(logits - logits.detach().amax(-1, keepdim=True))


def attend(q: Tensor, k: Tensor, v: Tensor, weight: Weight, mask: Tensor, scale: float | None = None) -> Tensor:
    """o[i] = sum over j of w[i, j] v[j] / sum over j of w[i, j], with w = weight(scale q k^T) where mask is True.

    q (B, A, T, D), k (B, G, S, D), v (B, G, S, H), mask fit for (B, A, T, S) -> (B, A, T, H). A query that attends to
    no key, or whose weights are all 0, gives 0.
    """
    A, G = q.shape[1], k.shape[1]
    k, v = (x.repeat_interleave(A // G, dim=1) for x in (k, v))
    z = (q.shape[-1] ** -0.5 if scale is None else scale) * (q @ k.mT)
    # A pair that is not looked at must not be the row's largest.
    z = torch.where(mask, z, z.detach().amin(-1, keepdim=True))
    w = torch.where(mask, weight(z), 0)
    total = w.sum(-1, keepdim=True)
    return (w / torch.where(total == 0, 1, total)) @ v


def looked_at(
    pattern: Pattern, q: Tensor, k: Tensor, key_padding_mask: Tensor | None = None, offset: int = 0
) -> Tensor:
    """The mask of a pattern, less the keys that are padding: (T, S), or (B, 1, T, S) where there is padding."""
    mask = pattern.mask(q.shape[2], k.shape[2], offset, q.device)
    return mask if key_padding_mask is None else mask & ~key_padding_mask[:, None, None, :]


def softmax_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, scale: float | None = None) -> Tensor:
    """softmax(scale q k^T) v, over the keys that the mask shows."""
    return attend(q, k, v, exponential, mask, scale)


def multi_head(
    x: Tensor, W: Tensor, b: Tensor, W_O: Tensor, b_O: Tensor, heads: int, attention: Callable[..., Tensor]
) -> Tensor:
    """Self attention head by head: x (B, T, E), W (3 E, E) with b for queries, keys and values, W_O (E, E) with b_O.

    `attention` is that of one head, from q, k and v of (B, 1, T, D) to (B, 1, T, D). Weights are kept transposed, as
    torch keeps them.
    """
    rows = [part.chunk(heads) for part in W.chunk(3)]
    biases = [part.chunk(heads) for part in b.chunk(3)]
    answers = []
    for head in range(heads):
        q, k, v = (x @ rows[part][head].mT + biases[part][head] for part in range(3))
        answers.append(attention(q[:, None], k[:, None], v[:, None])[:, 0])
    return torch.cat(answers, dim=-1) @ W_O.mT + b_O
