"""The loss of predicting contexts: by the softmax over all words, or estimated from a few sampled ones."""

from typing import Any

import torch
from torch import Tensor

from porism.errors import ShapeError
from porism.layers.autocast import without_autocast
from porism.layers.operands import check_indices, check_operands, has_values
from porism.layers.operators import BackwardFunction, Function, call, call_backward, differentiate, register
from porism.layers.readout import linear_cross_entropy
from porism.layers.skipgram.estimators import ESTIMATORS, NEED_THE_NORMALISER, Estimate, estimate
from porism.layers.skipgram.gradient import gathered, sampled_gradient, summed_by_row

CHOICES = ("full", *ESTIMATORS)


def skipgram(v: Tensor, U: Tensor, context: Tensor, reduction: str = "mean") -> Tensor:
    """-log softmax(U v)[j], exactly.

    >>> skipgram(torch.zeros(3, 5), torch.zeros(9, 5), torch.tensor([0, 4, 8]))     # log 9
    tensor(2.1972)

    Shapes: v (B, D), U (V, D), context (B,) -> a scalar, the `mean` or the `sum`.
    """
    _check_vectors(v, U)
    check_words("context words", context, (len(v),), U)
    _check_reduction(reduction)
    # No word is ignored: all of them were looked at.
    return linear_cross_entropy(v, U, context, reduction=reduction)


def sampled_loss(
    v: Tensor, U: Tensor, context: Tensor, negatives: Tensor, q: Tensor, estimator: str, reduction: str = "mean"
) -> Tensor:
    """The loss of an estimator, whose gradient is the estimate. `uniform` and `importance` give the exact loss.

    >>> v, U, j = torch.zeros(3, 5), torch.zeros(9, 5), torch.tensor([0, 4, 8])
    >>> k, q = torch.randint(9, (3, 7)), torch.full((9,), 1 / 9)
    >>> sampled_loss(v, U, j, k, q, "self-normalised")
    tensor(2.1972)

    Shapes: v (B, D), U (V, D), context (B,), negatives (B, m), q (V,) what they were drawn with -> a scalar.
    """
    _check_vectors(v, U)
    _check_probabilities(q, U)
    return checked_sampled_loss(v, U, context, negatives, q, estimator, reduction)


def checked_sampled_loss(
    v: Tensor, U: Tensor, context: Tensor, negatives: Tensor, q: Tensor, estimator: str, reduction: str = "mean"
) -> Tensor:
    """The same with vectors that fit, and probabilities that were looked at when the noise was made."""
    check_words("context words", context, (len(v),), U)
    check_negatives(negatives, len(v), U)
    if estimator not in ESTIMATORS:
        raise ShapeError(f"skipgram: estimator is {estimator!r}. Choose from {', '.join(ESTIMATORS)}.")
    _check_reduction(reduction)
    with without_autocast(v):
        total: Tensor = call(OPERATOR, SampledLoss, v, U, context.long(), negatives.long(), q, estimator)[0]
        # Divided before it is rounded: a sum of losses may be beyond the largest float16.
        loss = total / len(v) if reduction == "mean" else total
        return loss if loss.dtype is v.dtype else loss.to(torch.promote_types(v.dtype, U.dtype))


def _forward(v: Tensor, U: Tensor, j: Tensor, k: Tensor, q: Tensor, estimator: str) -> tuple[Tensor, Tensor, Tensor]:
    """The sum of the losses, c_j (B,) and c_k (B, m)."""
    found = estimate(estimator, v, U, j, k, q)
    return found.losses.sum(), found.context.contiguous(), found.samples.contiguous()


def _shapes(v: Tensor, U: Tensor, j: Tensor, k: Tensor, *_: Any) -> tuple[Tensor, ...]:
    exact = torch.promote_types(v.dtype, torch.float32)
    return tuple(v.new_empty(shape, dtype=exact) for shape in ((), j.shape, k.shape))


def _flops(v: Any, U: Any, j: Any, k: Any, q: Any, estimator: str, **_: Any) -> int:
    """The scores of the context and of the samples, and of all words where the normaliser is needed."""
    (B, D), V, m = v, U[0], k[1]
    return int(2 * B * D * (1 + m + (V if estimator in NEED_THE_NORMALISER else 0)))


def _backward(
    scale: Tensor, v: Tensor, U: Tensor, j: Tensor, k: Tensor, c_j: Tensor, c_k: Tensor, needs_U: bool
) -> tuple[Tensor, Tensor]:
    """dv (B, D) and dU (V, D), empty where it is not needed."""
    hand = sampled_gradient(Estimate(scale, c_j * scale, c_k * scale), v, U, j, k)
    return hand.v.to(v.dtype), gathered(hand, U) if needs_U else U.new_empty(0)


def _backward_shapes(scale: Tensor, v: Tensor, U: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    return v.new_empty(v.shape), U.new_empty(U.shape if rest[-1] else (0,))


def _backward_flops(scale: Any, v: Any, U: Any, j: Any, k: Any, *_: Any, **__: Any) -> int:
    """Sums of rows for v, and multiples of v for the rows."""
    (B, D), m = v, k[1]
    return int(4 * B * D * (1 + m))


OPERATOR = register(
    "sampled_loss(Tensor v, Tensor U, Tensor j, Tensor k, Tensor q, str estimator) -> (Tensor, Tensor, Tensor)",
    _forward,
    _shapes,
    _flops,
)
BACKWARD = register(
    "sampled_loss_backward(Tensor scale, Tensor v, Tensor U, Tensor j, Tensor k, Tensor c_j, Tensor c_k, bool needs_U) "
    "-> (Tensor, Tensor)",
    _backward,
    _backward_shapes,
    _backward_flops,
)


class SampledLoss(Function):
    """The sum of the losses. What the backward pass needs of the samples is one number each."""

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
        _, c_j, c_k = output
        ctx.mark_non_differentiable(c_j, c_k)
        ctx.save_for_backward(*inputs[:4], c_j, c_k)

    @staticmethod
    def backward(ctx: Any, scale: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
        needs_U = ctx.needs_input_grad[1]
        dv, dU = call_backward(SampledLossBackward, scale, *ctx.saved_tensors, needs_U)
        return dv, dU if needs_U else None, None, None, None, None


class SampledLossBackward(BackwardFunction):
    """`porism::sampled_loss_backward`."""


differentiate(SampledLoss, OPERATOR)
differentiate(SampledLossBackward, BACKWARD)


def subtract_rows(vectors: Tensor, rows: Tensor, gradient: Tensor, lr: float) -> None:
    """vectors[r] -= lr * gradient, for every time that a row comes."""
    if gradient.dtype is not vectors.dtype:
        # Many small changes, each rounded to a lower precision as it is added, would come to nothing.
        rows, gradient = summed_by_row(rows, gradient)
        vectors.index_add_(0, rows, (-lr * gradient).to(vectors.dtype))
    else:
        vectors.index_add_(0, rows, gradient, alpha=-lr)


def _check_vectors(v: Tensor, U: Tensor) -> None:
    check_operands("skipgram", v=v, U=U)
    if v.dim() != 2 or U.dim() != 2 or v.shape[1] != U.shape[1]:
        raise ShapeError(
            f"skipgram: v is {tuple(v.shape)} and U {tuple(U.shape)}, expected (B, D) and (V, D) of one width. "
            "Reshape them."
        )


def _check_probabilities(q: Tensor, U: Tensor) -> None:
    """They may be of another floating type than the vectors, as those of `Noise` are."""
    check_operands("skipgram", q=q)
    if q.device != U.device:
        raise ShapeError(
            f"skipgram: q is on {q.device}, U on {U.device}, expected one device. Move it with q.to({str(U.device)!r})."
        )
    if tuple(q.shape) != (len(U),):
        raise ShapeError(f"skipgram: q is {tuple(q.shape)}, expected ({len(U)},). Give a probability for each word.")
    if q.requires_grad and torch.is_grad_enabled():
        raise ShapeError("skipgram: q asks for a gradient, and there is none by it. Pass q.detach().")
    if has_values(q):
        least, most = (float(value) for value in torch.aminmax(q.detach()))
        if not 0 < least <= most <= 1:
            raise ShapeError(
                f"skipgram: q runs from {least:g} to {most:g}, expected probabilities above 0 and up to 1. "
                "Divide frequencies by their sum."
            )


def check_negatives(negatives: Tensor, batch: int, U: Tensor) -> None:
    check_indices("skipgram", "negatives", negatives, U.shape[0], like=U)
    if negatives.dim() != 2 or negatives.shape[0] != batch or negatives.shape[1] == 0:
        raise ShapeError(
            f"skipgram: negatives are {tuple(negatives.shape)}, expected ({batch}, m) with m from 1 on, for each pair. "
            "Leave them out to have them drawn."
        )


def check_words(name: str, words: Tensor, shape: tuple[int, ...] | None, vectors: Tensor) -> None:
    """Numbers of rows of `vectors`, on their device; shape (B,), or that of the words."""
    check_indices("skipgram", name, words, vectors.shape[0], like=vectors)
    if shape is None:
        if words.dim() != 1:
            raise ShapeError(f"skipgram: {name} are {tuple(words.shape)}, expected (B,). Flatten them.")
    elif tuple(words.shape) != shape:
        raise ShapeError(
            f"skipgram: {name} are {tuple(words.shape)}, expected {shape}, as many as center words. "
            "Pass pairs of a word and a context."
        )
    if words.numel() == 0:
        raise ShapeError(f"skipgram: {name} are empty, {tuple(words.shape)}, expected one or more. Skip the batch.")


def _check_reduction(reduction: str) -> None:
    if reduction not in ("mean", "sum"):
        raise ShapeError(f"skipgram: reduction is {reduction!r}. Choose mean or sum.")
