"""Gradients of one step from the loss down to the state: softmax, cross-entropy, and the projection onto words."""

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from porism.claims.checks.compare import ROUNDING, answered, compared, difference
from porism.claims.claim import Claim, Finding, Statement
from porism.claims.topics.recurrent.step import (
    GIVEN,
    ElmanStep,
    derivative,
    derivative_of,
    derivatives_of,
    gradient_by,
    random_step,
    take,
)

OfLabel = Callable[[Tensor, Tensor], Tensor]
"""From a label y and a prediction yhat, (1, V) each."""


def labelled(step: ElmanStep, y: Tensor) -> ElmanStep:
    return take({name: getattr(step, name) for name in GIVEN} | {"y": y})


STEP = random_step(D=3, H=5, V=4)
SPREAD = torch.tensor([[0.1, 0.2, 0.3, 0.4]], dtype=torch.float64)
LABELS = {
    "one word": STEP.y,
    "spread over words": SPREAD,
    "spread, with a word left out": torch.tensor([[0.5, 0.0, 0.25, 0.25]], dtype=torch.float64),
    "two words at once": torch.tensor([[1.0, 0.0, 1.0, 0.0]], dtype=torch.float64),
    "weighed too little": 0.7 * SPREAD,
}
"""The first three sum to one."""
BY_LABEL = {where: labelled(STEP, y) for where, y in LABELS.items()}


def terms_of_the_loss(words: Literal["same", "other"]) -> Callable[[OfLabel], Finding]:
    """form(y, yhat) against d(y[j] log yhat[j]) / dalpha[k], entry (j, k): where j = k, or where it is not."""
    same = torch.eye(STEP.alpha.shape[1], dtype=torch.bool)
    selected = same if words == "same" else ~same

    def judge(form: OfLabel) -> Finding:
        def true(step: ElmanStep) -> Tensor:
            # The term of word j alone is the loss, less its sign, under the label that has this word only.
            alone = [labelled(step, step.y * row) for row in torch.eye(len(same), dtype=torch.float64)]
            return torch.cat([-derivative(one, "E", "alpha") for one in alone])

        return compared(
            (where, true(step)[selected], form(step.y, step.yhat).expand(same.shape)[selected])
            for where, step in BY_LABEL.items()
        )

    return judge


def gradient_of_each_score(form: Callable[[Tensor, Tensor, int], Tensor]) -> Finding:
    """form(y, yhat, k) against element k of dE/dalpha for labels of all kinds."""
    return compared(
        (f"{where}, word {k}", derivative(step, "E", "alpha")[0, k], form(step.y[0], step.yhat[0], k))
        for where, step in BY_LABEL.items()
        for k in range(step.y.shape[1])
    )


def gradient_where_labels_sum_to_one(form: OfLabel) -> Finding:
    """form(y, yhat) against dE/dalpha for labels that sum to one, one-hot or not."""
    return compared(
        (where, derivative(step, "E", "alpha"), form(step.y, step.yhat))
        for where, step in BY_LABEL.items()
        if _sums_to_one(step.y)
    )


def labels_for_the_difference(form: Callable[[Tensor], bool]) -> Finding:
    """form(y), whether a label makes dE/dalpha the difference yhat - y, against autograd."""
    return answered(
        (
            f"Is it so for {where}?",
            difference(derivative(step, "E", "alpha"), step.yhat - step.y) <= ROUNDING,
            form(step.y),
        )
        for where, step in BY_LABEL.items()
    )


def _is_one_word(y: Tensor) -> bool:
    return sorted(y[0].tolist()) == [0.0] * (y.shape[1] - 1) + [1.0]


def _sums_to_one(y: Tensor) -> bool:
    return abs(float(y.sum()) - 1) <= ROUNDING


def _identity(row: Tensor) -> Tensor:
    return torch.eye(row.shape[1], dtype=row.dtype)


def _softmax_slope(step: ElmanStep) -> Tensor:
    # dyhat[k] / dalpha[j] = yhat[k] ([k = j] - yhat[j])
    return step.yhat[0].diag() - step.yhat.T @ step.yhat


CLAIMS: tuple[Statement, ...] = (
    Claim(
        id="001-02",
        topic="recurrent",
        where="1(b)",
        says="The derivative of the scores alpha = h U + b2 by U is the transposed state.",
        verdict="imprecise",
        precise=(
            "It has three indices: alpha[k] by U[i, j] is h[i] where j = k, and zero elsewhere. The transposed state "
            "is shorthand; set left of yhat - y it gives the gradient by U."
        ),
        judge=derivative_of("alpha", "U"),
        stated=lambda s: s.h.T,
        corrected=lambda s: torch.einsum("i,jk->kij", s.h[0], _identity(s.alpha)),
        right_where=lambda s: s.h.numel() == s.alpha.numel() == 1,
        computable=False,
    ),
    Claim(
        id="001-03",
        topic="recurrent",
        where="1(b)",
        says="A word's own term y[k] log yhat[k] has the derivative y[k] (1 - yhat[k]) by the word's score.",
        verdict="holds",
        formulas=("y_k*(1 - yhat_k)",),
        judge=terms_of_the_loss("same"),
        stated=lambda y, yhat: y * (1 - yhat),
        # The slope of the softmax itself, the logarithm forgotten.
        rival=lambda y, yhat: y * yhat * (1 - yhat),
    ),
    Claim(
        id="001-04",
        topic="recurrent",
        where="1(b)",
        says="The term y[j] log yhat[j] of another word has the derivative -y[j] yhat[k] by the score of word k.",
        verdict="holds",
        formulas=("-y_j*yhat_k",),
        judge=terms_of_the_loss("other"),
        stated=lambda y, yhat: -y.T * yhat,
        rival=lambda y, yhat: -(y * yhat).T * yhat,
    ),
    Claim(
        id="001-05",
        topic="recurrent",
        where="1(b)",
        says="All terms together give -y[k] + yhat[k] times the sum of y over the other words.",
        verdict="wrong",
        precise=(
            "The sum runs over all words, that of word k with them; as stated y[k] yhat[k] is missing. The result at "
            "the end of the derivation, yhat - y, is right all the same."
        ),
        formulas=("yhat_k*sum(y) - y_k",),
        judge=gradient_of_each_score,
        stated=lambda y, yhat, k: -y[k] + (y.sum() - y[k]) * yhat[k],
        corrected=lambda y, yhat, k: -y[k] + y.sum() * yhat[k],
        right_where=lambda y, yhat, k: y[k] == 0,
    ),
    Claim(
        id="001-06",
        topic="recurrent",
        where="1(b)",
        says="The label is one-hot, in other words it sums to one, and this makes the gradient yhat - y.",
        verdict="imprecise",
        precise="They are not the same: a one-hot label sums to one, so do many others, and the sum alone is needed.",
        judge=labels_for_the_difference,
        stated=_is_one_word,
        corrected=_sums_to_one,
        right_where=lambda y: _is_one_word(y) or not _sums_to_one(y),
    ),
    Claim(
        id="001-07",
        topic="recurrent",
        where="1(b)",
        says="Where the label sums to one, the gradient of the cross-entropy by the scores is yhat - y.",
        verdict="holds",
        precise="Otherwise yhat is taken as often as the label sums to.",
        formulas=("yhat*sum(y) - y",),
        judge=gradient_where_labels_sum_to_one,
        stated=lambda y, yhat: yhat - y,
        # Through the slope of the softmax once more.
        rival=lambda y, yhat: (yhat - y) * yhat * (1 - yhat),
    ),
    Claim(
        id="001-08",
        topic="recurrent",
        where="1(b)",
        says="The gradient by U is the product of the transposed state and yhat - y, H by V.",
        verdict="holds",
        judge=gradient_by("U"),
        stated=lambda s: s.h.T @ (s.yhat - s.y),
        # That of the likelihood, which grows where the loss falls.
        rival=lambda s: s.h.T @ (s.y - s.yhat),
    ),
    Claim(
        id="001-09",
        topic="recurrent",
        where="1(b)",
        says="The scores change by b2 as the identity, so that the gradient by b2 is yhat - y.",
        verdict="holds",
        judge=derivatives_of(("E", "b2"), ("alpha", "b2")),
        stated=lambda s: (s.yhat - s.y, _identity(s.alpha)),
        # Through the softmax once more, though yhat - y has been through it.
        rival=lambda s: ((s.yhat - s.y) @ _softmax_slope(s), _softmax_slope(s)),
    ),
    Claim(
        id="001-10",
        topic="recurrent",
        where="1(b)",
        says="The scores change by the state as U transposed, so that the gradient by the state is (yhat - y) U^T.",
        verdict="holds",
        precise="Row k of such a derivative belongs to score k. Later losses, which reach the state too, are left out.",
        judge=derivatives_of(("E", "h"), ("alpha", "h")),
        stated=lambda s: ((s.yhat - s.y) @ s.U.T, s.U.T),
        # Through the softmax once more, though yhat - y has been through it.
        rival=lambda s: ((s.yhat - s.y) @ _softmax_slope(s) @ s.U.T, _softmax_slope(s) @ s.U.T),
    ),
)
