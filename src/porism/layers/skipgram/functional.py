"""What people import: the word vectors, and the loss of predicting contexts by the softmax or an estimate of it."""

from typing import Any

import torch
from torch import Tensor

from porism.errors import ShapeError
from porism.layers.autocast import without_autocast
from porism.layers.derivative import first_derivative_only
from porism.layers.operands import check_indices, check_operands, has_values
from porism.layers.readout import linear_cross_entropy
from porism.layers.skipgram.estimators import ESTIMATORS, Estimate, estimate
from porism.layers.skipgram.gradient import gathered, sampled_gradient, summed_by_row

CHOICES = ("full", *ESTIMATORS)


def skipgram(v: Tensor, U: Tensor, contexts: Tensor, reduction: str = "mean") -> Tensor:
    """-log softmax(U v)[j], exactly.

    >>> skipgram(torch.zeros(3, 5), torch.zeros(9, 5), torch.tensor([0, 4, 8]))     # log 9
    tensor(2.1972)

    Shapes: v (B, D), U (V, D), contexts (B,) -> a scalar, the `mean` or the `sum`.
    """
    _check_vectors(v, U)
    _check_words("contexts", contexts, (len(v),), U)
    _check_reduction(reduction)
    return linear_cross_entropy(v, U, contexts, reduction=reduction)


def sampled_loss(
    v: Tensor, U: Tensor, contexts: Tensor, samples: Tensor, q: Tensor, estimator: str, reduction: str = "mean"
) -> Tensor:
    """The loss of an estimator, whose gradient is the estimate. `uniform` and `importance` give the exact loss.

    >>> v, U, j = torch.zeros(3, 5), torch.zeros(9, 5), torch.tensor([0, 4, 8])
    >>> k, q = torch.randint(9, (3, 7)), torch.full((9,), 1 / 9)
    >>> sampled_loss(v, U, j, k, q, "self-normalised")
    tensor(2.1972)

    Shapes: v (B, D), U (V, D), contexts (B,), samples (B, m), q (V,) what they were drawn with -> a scalar.
    """
    _check_vectors(v, U)
    _check_probabilities(q, U)
    return _sampled_loss(v, U, contexts, samples, q, estimator, reduction)


def _sampled_loss(
    v: Tensor, U: Tensor, contexts: Tensor, samples: Tensor, q: Tensor, estimator: str, reduction: str = "mean"
) -> Tensor:
    """The same with vectors that fit, and probabilities that were looked at when the noise was made."""
    _check_words("contexts", contexts, (len(v),), U)
    _check_samples(samples, len(v), U)
    if estimator not in ESTIMATORS:
        raise ShapeError(f"skipgram: estimator is {estimator!r}. Choose from {', '.join(ESTIMATORS)}.")
    _check_reduction(reduction)
    with without_autocast(v):
        total: Tensor = _SampledLoss.apply(v, U, contexts.long(), samples.long(), q, estimator)  # type: ignore[no-untyped-call]
        # Divided before it is rounded: a sum of losses may be beyond the largest float16.
        loss = total / len(v) if reduction == "mean" else total
        return loss if loss.dtype is v.dtype else loss.to(torch.promote_types(v.dtype, U.dtype))


class _SampledLoss(torch.autograd.Function):
    """The sum of the losses. What the backward pass needs of the samples is one number each."""

    @staticmethod
    def forward(ctx: Any, v: Tensor, U: Tensor, j: Tensor, k: Tensor, q: Tensor, estimator: str) -> Tensor:
        found = estimate(estimator, v, U, j, k, q)
        ctx.save_for_backward(v, U, j, k, found.context, found.samples)
        return found.losses.sum()

    @staticmethod
    @first_derivative_only
    def backward(ctx: Any, scale: Tensor) -> tuple[Tensor | None, ...]:
        v, U, j, k, context, samples = ctx.saved_tensors
        hand = sampled_gradient(Estimate(scale, context * scale, samples * scale), v, U, j, k)
        return hand.v.to(v.dtype), gathered(hand, U) if ctx.needs_input_grad[1] else None, None, None, None, None


def _descend_rows(vectors: Tensor, rows: Tensor, gradient: Tensor, rate: float) -> None:
    """vectors[r] -= rate * gradient, for every time that a row comes."""
    if gradient.dtype is not vectors.dtype:
        # Many small changes, each rounded to a lower precision as it is added, would come to nothing.
        rows, gradient = summed_by_row(rows, gradient)
        vectors.index_add_(0, rows, (-rate * gradient).to(vectors.dtype))
    else:
        vectors.index_add_(0, rows, gradient, alpha=-rate)


def _check_vectors(v: Tensor, U: Tensor) -> None:
    check_operands("skipgram", v=v, U=U)
    if v.dim() != 2 or U.dim() != 2 or v.shape[1] != U.shape[1]:
        raise ShapeError(
            f"skipgram: v is {tuple(v.shape)} and U {tuple(U.shape)}, wanted (B, D) and (V, D) of one width. "
            "Reshape them."
        )


def _check_probabilities(q: Tensor, U: Tensor) -> None:
    """They may be of another floating type than the vectors, as those of `Noise` are."""
    check_operands("skipgram", q=q)
    if q.device != U.device:
        raise ShapeError(
            f"skipgram: q is on {q.device}, U on {U.device}, wanted one device. Move it with q.to({str(U.device)!r})."
        )
    if tuple(q.shape) != (len(U),):
        raise ShapeError(f"skipgram: q is {tuple(q.shape)}, wanted ({len(U)},). Give a probability for each word.")
    if q.requires_grad and torch.is_grad_enabled():
        raise ShapeError("skipgram: q asks for a gradient, and there is none by it. Pass q.detach().")
    if has_values(q):
        least, most = (float(value) for value in torch.aminmax(q.detach()))
        if not 0 < least <= most <= 1:
            raise ShapeError(
                f"skipgram: q runs from {least:g} to {most:g}, wanted probabilities above 0 and up to 1. "
                "Divide frequencies by their sum."
            )


def _check_samples(samples: Tensor, batch: int, U: Tensor) -> None:
    check_indices("skipgram", "samples", samples, U.shape[0], like=U)
    if samples.dim() != 2 or samples.shape[0] != batch or samples.shape[1] == 0:
        raise ShapeError(
            f"skipgram: samples are {tuple(samples.shape)}, wanted ({batch}, m) with m from 1 on, some for each pair. "
            "Leave them out to have them drawn."
        )


def _check_words(name: str, words: Tensor, shape: tuple[int, ...] | None, vectors: Tensor) -> None:
    """Numbers of rows of `vectors`, on their device; shape (B,), or that of the words."""
    check_indices("skipgram", name, words, vectors.shape[0], like=vectors)
    if shape is None:
        if words.dim() != 1:
            raise ShapeError(f"skipgram: {name} are {tuple(words.shape)}, wanted (B,). Flatten them.")
    elif tuple(words.shape) != shape:
        raise ShapeError(
            f"skipgram: {name} are {tuple(words.shape)}, wanted {shape}, as many as words. "
            "Pass pairs of a word and a context."
        )
    if words.numel() == 0:
        raise ShapeError(f"skipgram: {name} are empty, {tuple(words.shape)}, wanted one or more. Skip the batch.")


def _check_reduction(reduction: str) -> None:
    if reduction not in ("mean", "sum"):
        raise ShapeError(f"skipgram: reduction is {reduction!r}. Choose mean or sum.")
