"""Linear projection and softmax cross-entropy in one, which never holds all scores at once."""

from numbers import Real
from typing import Any

import torch
from torch import Tensor, nn

from porism.errors import ShapeError
from porism.layers.autocast import autocast_dtype, without_autocast
from porism.layers.operands import (
    INTEGERS,
    MOST,
    check_indices,
    check_operands,
    check_whole,
    has_values,
)
from porism.layers.operators import (
    BackwardFunction,
    Function,
    call,
    call_backward,
    differentiate,
    may_need_gradient,
    register,
)
from porism.layers.readout.gradient import ReadoutGradient, accumulate, product_dtype, scores, transposed, workspace_for
from porism.layers.readout.kernels import cpu


def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    batch_chunk_size: int | None = None,
) -> Tensor:
    """cross_entropy(linear(input, linear_weight, linear_bias), target), a block of rows at a time.

    >>> input, weight, target = torch.randn(1280, 100), torch.randn(9, 100), torch.randint(9, (1280,))
    >>> loss = linear_cross_entropy(input, weight, target)
    >>> torch.allclose(loss, nn.functional.cross_entropy(input @ weight.T, target))
    True

    Called as torch's own `torch.nn.functional.linear_cross_entropy` (2.13) is, for targets that are indices. Rows whose
    target is `ignore_index` count neither in the loss nor in the mean. Where a gradient is needed it is computed on the
    way forward, while a block of scores is at hand: three matrix products in all, and no scores are kept or computed
    twice. Under autocast the operands of the products are of its type; the softmax, the loss and the sums over rows are
    float32, as they are for operands of lower precision.

    Shapes: input (..., H), linear_weight (V, H), linear_bias (V), target (...) -> a scalar, the `mean` or the `sum`.
    `batch_chunk_size` is the number of rows taken at once.
    """
    check_reduction(reduction)
    _check(input, linear_weight, linear_bias, target, batch_chunk_size)
    check_smoothing(label_smoothing)
    targets, counted = _counted(target.reshape(-1), ignore_index, linear_weight)
    operand = product_dtype(autocast_dtype(input, linear_weight) or input.dtype, input.device)
    rows, V = input.reshape(-1, input.shape[-1]), len(linear_weight)
    if batch_chunk_size is None:
        batch_chunk_size = _block_rows(len(rows), V * _exact(operand).itemsize, input.is_cuda)
    # Decided here: inside an autograd.Function gradients are always off.
    learns = torch.is_grad_enabled()
    needed = [learns and may_need_gradient(part) for part in (input, linear_weight, linear_bias)]
    operands = (rows, linear_weight, linear_bias, targets, counted)
    with without_autocast(input):
        total: Tensor
        total, *_ = call(
            OPERATOR, LinearCrossEntropy, *operands, float(label_smoothing), operand, batch_chunk_size, needed
        )
        if reduction == "sum":
            return total
        # A tensor also where it is known, so that the same is kept for the backward pass whatever the targets are.
        number = torch.full((), len(rows), device=total.device) if counted is None else counted.sum()
        # The mean of no rows is no number, as torch's is, and its gradient 0: a batch of padding teaches nothing.
        return total / number.clamp(min=1) + 0 / number


def _forward(
    h: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    counted: Tensor | None,
    label_smoothing: float,
    operand: torch.dtype,
    block: int,
    needed: list[bool],
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The sum of the losses, and its gradients by h, weight and bias: empty where they are not needed."""
    exact, (needs_h, needs_weight, needs_bias) = _exact(operand), needed
    sums = ReadoutGradient(
        torch.empty_like(h, dtype=_kept(h, operand)) if needs_h else None,
        torch.zeros_like(weight, dtype=exact) if needs_weight else None,
        torch.zeros_like(weight[:, 0], dtype=exact) if needs_bias else None,
    )
    h, weight, bias = h.to(operand), weight.to(operand), None if bias is None else bias.to(exact)
    workspace, U = workspace_for(min(block, len(h)), h, weight), transposed(weight)
    total = h.new_zeros((), dtype=exact)
    for start in range(0, len(h), block):
        rows = slice(start, min(start + block, len(h)))
        space = None if workspace is None else workspace.of(rows.stop - start)
        z = scores(h[rows], U, bias, space)
        counts = None if counted is None else counted[rows]
        if any(needed):
            losses = accumulate(z, h[rows], weight, targets[rows], counts, label_smoothing, rows, sums, space)
        else:
            y = targets[rows] if counts is None else targets[rows].masked_fill(~counts, -100)
            losses = nn.functional.cross_entropy(z, y, reduction="sum", label_smoothing=label_smoothing)
        # Not in place: torch.compile of torch 2.11 loses the gradient of an answer that was changed in place.
        total = total + losses.sum()
    dh, dweight, dbias = (total.new_empty(0) if part is None else part for part in sums)
    return total, dh, dweight, dbias


def _run(
    h: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    counted: Tensor | None,
    label_smoothing: float,
    operand: torch.dtype,
    block: int,
    needed: list[bool],
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """As `_forward`, by the kernel of a CPU as far as it comes."""
    if not cpu.fits(h, bias, operand):
        return _forward(h, weight, bias, targets, counted, label_smoothing, operand, block, needed)
    done = cpu.forward(
        h.to(operand),
        weight.to(operand),
        None if bias is None else bias.to(operand),
        targets,
        counted,
        label_smoothing,
        _kept(h, operand),
        block,
        needed,
    )
    if done.rows < len(h):
        rest = slice(done.rows, None)
        counts = None if counted is None else counted[rest]
        loss, dh, *sums = _forward(
            h[rest], weight, bias, targets[rest], counts, label_smoothing, operand, block, needed
        )
        if needed[0]:
            done.h[rest] = dh
        return done.loss + loss, done.h, done.weight + sums[0], done.bias + sums[1]
    return done.loss, done.h, done.weight, done.bias


def _shapes(h: Tensor, weight: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    operand, needed = rest[4], rest[6]
    shapes = (h.shape, weight.shape, weight.shape[:1])
    dtypes = (_kept(h, operand), _exact(operand), _exact(operand))
    return h.new_empty((), dtype=_exact(operand)), *(
        h.new_empty(shape, dtype=dtype) if is_needed else h.new_empty(0, dtype=_exact(operand))
        for shape, dtype, is_needed in zip(shapes, dtypes, needed, strict=True)
    )


def _kept(h: Tensor, operand: torch.dtype) -> torch.dtype:
    """Of dh: the backward pass may bring a factor of 65,536, and until then float16 would lose what is small."""
    return _exact(operand) if h.dtype is torch.float16 else h.dtype


def _flops(h: Any, weight: Any, *rest: Any, **__: Any) -> int:
    """The scores, dh and dweight are products of one size; dbias is one with ones."""
    (N, H), V, needed = h, weight[0], rest[-1]
    return int(2 * N * V * (H * (1 + needed[0] + needed[1]) + needed[2]))


OPERATOR = register(
    "linear_cross_entropy(Tensor h, Tensor weight, Tensor? bias, Tensor targets, Tensor? counted, "
    "float label_smoothing, ScalarType operand, int block, bool[] needed) -> (Tensor, Tensor, Tensor, Tensor)",
    _forward,
    _shapes,
    _flops,
    _run,
)


class LinearCrossEntropy(Function):
    """The sum of the losses, with its gradient ready: the backward pass only scales it."""

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        # Answers, so that a second derivative finds its way through them, and is refused.
        ctx.save_for_backward(*output[1:])
        ctx.dtypes = [None if part is None else part.dtype for part in inputs[:3]]

    @staticmethod
    def backward(ctx: Any, scale: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
        dtypes = [
            dtype if is_needed else None for dtype, is_needed in zip(ctx.dtypes, ctx.needs_input_grad, strict=False)
        ]
        found = call_backward(ScaledGradient, scale, *ctx.saved_tensors, dtypes)
        parts = (part if is_needed else None for part, is_needed in zip(found, ctx.needs_input_grad, strict=False))
        return *parts, *(None,) * 6


class ScaledGradient(BackwardFunction):
    """The gradients times the one number that the backward pass brings, each in its type; None is not needed."""

    @staticmethod
    def forward(
        scale: Tensor, dh: Tensor, dweight: Tensor, dbias: Tensor, dtypes: list[torch.dtype | None]
    ) -> tuple[Tensor, ...]:
        return tuple(
            part.new_empty(0) if dtype is None else (part * scale).to(dtype)
            for part, dtype in zip((dh, dweight, dbias), dtypes, strict=True)
        )


differentiate(LinearCrossEntropy, OPERATOR)


def check_reduction(reduction: str) -> None:
    if reduction not in ("mean", "sum"):
        raise ShapeError(
            f"readout: reduction is {reduction!r}. Choose mean or sum; for the loss of each row take "
            "torch.nn.functional.cross_entropy of the scores."
        )


def check_smoothing(label_smoothing: float) -> None:
    is_number = isinstance(label_smoothing, Real) and not isinstance(label_smoothing, bool)
    if not is_number or not 0 <= label_smoothing <= 1:
        raise ShapeError(f"readout: label_smoothing is {label_smoothing!r}. Give a number from 0 to 1.")


def _counted(target: Tensor, ignore_index: int, weight: Tensor) -> tuple[Tensor, Tensor | None]:
    """Targets from 0 to V - 1, and which rows count: None for all."""
    check_whole("readout", "ignore_index", ignore_index, least=-MOST)
    if target.dtype not in INTEGERS:
        check_indices("readout", "targets", target, len(weight), like=weight)
    # As int64: beside uint8 torch would take -100 for 156.
    target = target.long()
    counted = target != ignore_index
    if has_values(target) and bool(counted.all()):
        check_indices("readout", "targets", target, len(weight), like=weight)
        return target, None
    target = target.masked_fill(~counted, 0)
    check_indices("readout", "targets", target, len(weight), like=weight)
    return target, counted


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


def check_width(h: Tensor, weight: Tensor) -> None:
    if weight.dim() != 2:
        raise ShapeError(
            f"readout: linear_weight is {tuple(weight.shape)}, expected (V, H), a row for each word. Reshape it."
        )
    if h.dim() == 0 or h.shape[-1] != weight.shape[-1]:
        raise ShapeError(
            f"readout: input is {tuple(h.shape)}, expected (..., {weight.shape[-1]}), the width of the weight "
            f"{tuple(weight.shape)}. Pass the states, with their width last."
        )


def _check(h: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, block: int | None) -> None:
    check_operands("readout", input=h, linear_weight=weight, linear_bias=bias)
    check_width(h, weight)
    V = len(weight)
    if bias is not None and tuple(bias.shape) != (V,):
        raise ShapeError(
            f"readout: linear_bias is {tuple(bias.shape)}, expected ({V},), one for each word. Reshape it."
        )
    if not isinstance(target, Tensor) or target.layout is not torch.strided or target.is_nested:
        check_indices("readout", "targets", target, V, like=h)
    if target.shape != h.shape[:-1]:
        raise ShapeError(
            f"readout: target is {tuple(target.shape)}, expected {tuple(h.shape[:-1])}, one for each row of input "
            f"{tuple(h.shape)}. Pass the index of the right word for each state."
        )
    if target.numel() == 0:
        raise ShapeError(f"readout: target is empty, {tuple(target.shape)}, expected one or more. Skip the batch.")
    if block is not None:
        check_whole("readout", "batch_chunk_size", block)
