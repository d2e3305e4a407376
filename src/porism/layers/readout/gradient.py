"""The gradient of the cross-entropy by hand: a line of maths above a line of code, no autograd.

z = h U + b, p = softmax(z), J = sum of -log p[y] over the rows that count; U is kept transposed as `weight` (V, H). The
README derives it.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from porism.costing.counting.passes import counted_as_backward
from porism.layers.operands import has_values

LARGEST_SAFE, LEAST_SAFE = 30.0, -20.0
"""Between them the largest score of a row may lie for exp(z) to be taken without it: no sum overflows, and what is lost
to underflow is below e^-67 of its sum."""


class Workspace(NamedTuple):
    """Where every block's scores are written, (n, V): new memory for each would take longer than filling it.

    rounded: space for the same in the type of the operands, where a product answers in that type and no other.
    """

    scores: Tensor
    rounded: Tensor | None

    def of(self, rows: int) -> "Workspace":
        return Workspace(self.scores[:rows], None if self.rounded is None else self.rounded[:rows])


class ReadoutGradient(NamedTuple):
    """dJ/dh (N, H), dJ/dU transposed (V, H) and dJ/db (V); None for what is not needed."""

    h: Tensor | None
    weight: Tensor | None
    bias: Tensor | None


@torch.no_grad()
def gradient(
    h: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    counted: Tensor | None = None,
    label_smoothing: float = 0.0,
) -> ReadoutGradient:
    """The gradient of the summed loss, all rows at once: h (N, H), weight (V, H), bias (V), targets, counted (N)."""
    dtype = product_dtype(h.dtype, h.device)
    h, weight, bias = h.to(dtype), weight.to(dtype), None if bias is None else bias.to(dtype)
    workspace = workspace_for(len(h), h, weight)
    z = scores(h, transposed(weight), bias, workspace)
    dh, dweight = torch.empty_like(h, dtype=z.dtype), torch.zeros_like(weight, dtype=z.dtype)
    sums = ReadoutGradient(dh, dweight, None if bias is None else torch.zeros_like(bias, dtype=z.dtype))
    accumulate(z, h, weight, targets, counted, label_smoothing, slice(None), sums, workspace)
    return sums


def product_dtype(dtype: torch.dtype, device: torch.device) -> torch.dtype:
    """The type of the operands of products: of float16 only where a product of them can be answered in float32."""
    return torch.float32 if dtype is torch.float16 and device.type != "cuda" else dtype


def workspace_for(rows: int, h: Tensor, weight: Tensor) -> Workspace | None:
    """For blocks of so many rows; None on a GPU in lower precision, where a product answers in new memory."""
    if not _is_low(h):
        return Workspace(h.new_empty(rows, len(weight)), None)
    if h.is_cuda:
        return None
    return Workspace(h.new_empty(rows, len(weight), dtype=torch.float32), h.new_empty(rows, len(weight)))


def transposed(weight: Tensor) -> Tensor:
    """U (H, V) of `weight` (V, H), as the scores are taken from it.

    In lower precision on a CPU its rows are laid end to end, once for all blocks: the product then takes half the time.
    """
    return weight.mT.contiguous() if _is_low(weight) and not weight.is_cuda else weight.mT


def scores(h: Tensor, U: Tensor, bias: Tensor | None, workspace: Workspace | None) -> Tensor:
    """z = h U + b, (n, V), in the workspace if there is one: float32 for operands of lower precision, else of their
    own type."""
    if workspace is None:
        z = _product(h, U)
    elif workspace.rounded is not None:
        z = workspace.scores.copy_(_product(h, U, workspace.rounded))
    elif bias is None:
        return torch.mm(h, U, out=workspace.scores)
    else:
        return torch.addmm(bias, h, U, out=workspace.scores)
    return z if bias is None else z.add_(bias)


def accumulate(
    z: Tensor,
    h: Tensor,
    weight: Tensor,
    targets: Tensor,
    counted: Tensor | None,
    label_smoothing: float,
    rows: slice,
    sums: ReadoutGradient,
    workspace: Workspace | None,
) -> Tensor:
    """Adds the gradient of a block of `rows` to `sums`; answers the block's losses, (n).

    z (n, V) are the block's `scores` and are overwritten; h (n, H), targets (n) and counted (n), False for a row that
    is ignored, are the block's own. Operands of products are of the type of h and weight, all else is of that of z.
    """
    y = targets[:, None]
    z_y, z_max = z.gather(1, y).squeeze(1), z.amax(1)
    if label_smoothing:
        # -log p[y], with smoothing e: z[y] becomes (1 - e) z[y] + e mean(z)
        z_y = z_y.lerp(z.mean(1), label_smoothing)
    if _exp_is_safe(z, z_max):
        # p = exp(z) / s, s = sum of exp(z)     in place, so that a block stays in the cache
        p = torch.exp(z, out=z)
        s = p.sum(1)
        p.div_(s[:, None])
        # -log p[y] = z_max - z[y] + log(s / exp(z_max))
        losses = z_max - z_y + (s / z_max.exp()).log()
    else:
        # p = softmax(z)
        p = torch.softmax(z, 1, out=z)
        # -log p[y] = z_max - z[y] - log p_max  the largest p never underflows, p[y] may
        losses = z_max - z_y - p.amax(1).log()
    if counted is not None:
        losses = losses.masked_fill(~counted, 0.0)
    with counted_as_backward():
        _accumulate_from(p, h, weight, y, counted, label_smoothing, rows, sums, workspace)
    return losses


def _exp_is_safe(z: Tensor, z_max: Tensor) -> bool:
    """Whether exp(z) needs no shift by z_max: where numbers can be looked at, which on a GPU would be waited for."""
    if not has_values(z):
        return False
    least, largest = torch.aminmax(z_max)
    return float(largest) <= LARGEST_SAFE and float(least) >= LEAST_SAFE


def _accumulate_from(
    p: Tensor,
    h: Tensor,
    weight: Tensor,
    y: Tensor,
    counted: Tensor | None,
    label_smoothing: float,
    rows: slice,
    sums: ReadoutGradient,
    workspace: Workspace | None,
) -> None:
    """The same from the softmax p (n, V), which is overwritten, and the targets y (n, 1)."""
    # a = p - onehot(y)                         a is dJ/dz, row by row; with smoothing e: p - (1 - e) onehot(y) - e / V
    a = p.scatter_add_(1, y, p.new_full(y.shape, label_smoothing - 1.0))
    if label_smoothing:
        a.sub_(label_smoothing / p.shape[1])
    if counted is not None:
        a.masked_fill_(~counted[:, None], 0.0)
    if sums.bias is not None:
        # db = sum of a                         fastest as a product
        torch.addmv(sums.bias, a.mT, a.new_ones(len(a)), out=sums.bias)
    if _is_low(h):
        _accumulate_rounded(a, h, weight, rows, sums, workspace)
        return
    if sums.h is not None:
        # dh = a U^T
        sums.h[rows] = a @ weight
    if sums.weight is not None:
        # dU^T = sum of a^T h
        torch.addmm(sums.weight, a.mT, h, out=sums.weight)


def _accumulate_rounded(
    a: Tensor, h: Tensor, weight: Tensor, rows: slice, sums: ReadoutGradient, workspace: Workspace | None
) -> None:
    """dh and dU of a block, with a rounded once to the type of h and weight."""
    rounded = (
        torch.empty_like(a, dtype=h.dtype) if workspace is None or workspace.rounded is None else workspace.rounded
    )
    # |a| is at most 1. float16 holds nothing below 2^-24, and above 2^15 there is room.
    unit = 2.0**15 if h.dtype is torch.float16 else 1.0
    # A copy takes less than half of a product into another type.
    rounded = rounded.copy_(a) if unit == 1 else torch.mul(a, unit, out=rounded)
    if sums.h is not None:
        sums.h[rows] = _product(rounded, weight) / unit
    if sums.weight is not None:
        sums.weight.add_(_product(rounded.mT, h), alpha=1 / unit)


def _product(a: Tensor, b: Tensor, out: Tensor | None = None) -> Tensor:
    """a b of operands of lower precision: in float32 on a GPU, since a sum over many rows may be beyond the largest
    float16; in their own type on a CPU, which has no other."""
    return torch.mm(a, b, out_dtype=torch.float32) if a.is_cuda else torch.mm(a, b, out=out)


def _is_low(x: Tensor) -> bool:
    return x.dtype in (torch.bfloat16, torch.float16)
