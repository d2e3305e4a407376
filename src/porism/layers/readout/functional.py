"""The projection onto a vocabulary together with its softmax cross-entropy, which never holds all scores at once."""

from typing import Any

import torch
from torch import Tensor, nn

from porism.errors import ShapeError
from porism.layers.autocast import autocast_dtype, without_autocast
from porism.layers.derivative import first_derivative_only
from porism.layers.operands import check_indices, check_operands, check_whole
from porism.layers.readout.gradient import Gradient, accumulate, product_dtype, scores


def linear_cross_entropy(
    h: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    reduction: str = "mean",
    block: int | None = None,
) -> Tensor:
    """cross_entropy(h U + b, targets), a block of rows at a time.

    >>> h, weight, targets = torch.randn(1280, 100, requires_grad=True), torch.randn(9, 100), torch.randint(9, (1280,))
    >>> loss = linear_cross_entropy(h, weight, None, targets)
    >>> torch.allclose(loss, nn.functional.cross_entropy(h @ weight.T, targets))
    True

    Where a gradient is needed it is computed on the way forward, while a block of scores is at hand: three matrix
    products in all, and no scores are kept or computed twice. Under autocast the operands of the products are of its
    type; the softmax, the loss and the sums over rows are float32, as they are for operands of lower precision.

    Shapes: h (..., H), weight (V, H), bias (V), targets (...) -> a scalar, the `mean` or the `sum`. `block` is the
    number of rows taken at once.
    """
    _check(h, weight, bias, targets, reduction, block)
    chosen = autocast_dtype(h, weight) or h.dtype
    operand = product_dtype(chosen, h.device)
    rows, V = h.reshape(-1, h.shape[-1]), len(weight)
    if block is None:
        block = _block_rows(len(rows), V * _exact(operand).itemsize, h.is_cuda)
    # Asked here: inside an autograd.Function gradients are always off.
    learns = torch.is_grad_enabled()
    wanted = tuple(learns and part is not None and part.requires_grad for part in (h, weight, bias))
    with without_autocast(h):
        total: Tensor = _SummedLoss.apply(  # type: ignore[no-untyped-call]
            rows, weight, bias, targets.reshape(-1).long(), operand, block, wanted
        )
        return total / len(rows) if reduction == "mean" else total


class _SummedLoss(torch.autograd.Function):
    """The sum of the losses. Its gradient is ready when it is: the backward pass only scales it."""

    @staticmethod
    def forward(
        ctx: Any,
        h: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        operand: torch.dtype,
        block: int,
        wanted: tuple[bool, bool, bool],
    ) -> Tensor:
        exact = _exact(operand)
        wanted_h, wanted_weight, wanted_bias = wanted
        # The backward pass may bring a factor of 65,536: until then float16 would lose what is small.
        kept = exact if h.dtype is torch.float16 else h.dtype
        sums = Gradient(
            torch.empty_like(h, dtype=kept) if wanted_h else None,
            torch.zeros_like(weight, dtype=exact) if wanted_weight else None,
            torch.zeros_like(weight[:, 0], dtype=exact) if wanted_bias else None,
        )
        ctx.dtypes = h.dtype, weight.dtype, None if bias is None else bias.dtype
        h, weight, bias = h.to(operand), weight.to(operand), None if bias is None else bias.to(exact)
        room = h.new_empty(min(block, len(h)), len(weight)) if operand is exact else None
        total = h.new_zeros((), dtype=exact)
        for start in range(0, len(h), block):
            rows = slice(start, min(start + block, len(h)))
            z = scores(h[rows], weight, bias, None if room is None else room[: rows.stop - start])
            if any(wanted):
                losses = accumulate(z, h[rows], weight, targets[rows], rows, sums)
            else:
                losses = nn.functional.cross_entropy(z, targets[rows], reduction="sum")
            # Not in place: torch.compile of torch 2.11 loses the gradient of an answer that was changed in place.
            total = total + losses.sum()
        ctx.save_for_backward(*sums)
        return total

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, scale: Tensor) -> tuple[Tensor | None, ...]:
        parts = [
            None if part is None else (part * scale).to(dtype)
            for part, dtype in zip(ctx.saved_tensors, ctx.dtypes, strict=True)
        ]
        return *parts, None, None, None, None


def _exact(operand: torch.dtype) -> torch.dtype:
    """The type of scores, softmax, loss and sums."""
    return torch.promote_types(operand, torch.float32)


def _block_rows(rows: int, row_bytes: int, on_gpu: bool) -> int:
    """Rows to take at once, in blocks of even size.

    On a CPU a block of scores is to stay in the cache, yet be tall enough for the products to run at full speed; on a
    GPU it only has to fit, and few launches are better.
    """
    budget = 2**28 if on_gpu else 10 * 2**20
    most = max(64, budget // row_bytes)
    blocks = -(-rows // most)
    return -(-rows // blocks) if blocks else 1


def _check_width(h: Tensor, weight: Tensor) -> None:
    if weight.dim() != 2:
        raise ShapeError(f"readout: weight is {tuple(weight.shape)}, wanted (V, H), a row for each word. Reshape it.")
    if h.dim() == 0 or h.shape[-1] != weight.shape[-1]:
        raise ShapeError(
            f"readout: h is {tuple(h.shape)}, wanted (..., {weight.shape[-1]}), the width of the weight "
            f"{tuple(weight.shape)}. Pass the states, with their width last."
        )


def _check(h: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, reduction: str, block: int | None) -> None:
    check_operands("readout", h=h, weight=weight, bias=bias)
    _check_width(h, weight)
    V = len(weight)
    if bias is not None and tuple(bias.shape) != (V,):
        raise ShapeError(f"readout: bias is {tuple(bias.shape)}, wanted ({V},), one for each word. Reshape bias.")
    check_indices("readout", "targets", targets, V, like=h)
    if targets.shape != h.shape[:-1]:
        raise ShapeError(
            f"readout: targets are {tuple(targets.shape)}, wanted {tuple(h.shape[:-1])}, one for each row of h "
            f"{tuple(h.shape)}. Pass the number of the right word for each state."
        )
    if targets.numel() == 0:
        raise ShapeError(f"readout: targets are empty, {tuple(targets.shape)}, wanted one or more. Skip the batch.")
    if reduction not in ("mean", "sum"):
        raise ShapeError(f"readout: reduction is {reduction!r}. Choose mean or sum.")
    if block is not None:
        check_whole("readout", "block", block)
