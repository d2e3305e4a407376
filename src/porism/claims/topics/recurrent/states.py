"""Gradients of one step through the recurrence: from the state's sigmoid to I, H, b1 and the state before."""

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from porism.claims.checks.compare import Case, compared
from porism.claims.claim import Claim, Finding, Statement
from porism.claims.topics.recurrent.step import (
    STEPS,
    ElmanStep,
    Formula,
    derivative,
    derivative_of,
    gradient_by,
    is_one_wide,
)
from porism.layers.recurrent.elman import naive
from porism.layers.recurrent.elman.gradient import local_gradient, trace_back
from porism.layers.recurrent.elman.naive import LanguageModelWeights
from porism.runs.exhibits import Lines


class AtOneTime(Protocol):
    """The gradient of the loss at time t alone, with h[t-1] as a number that is given."""

    def __call__(self, weights: LanguageModelWeights, x: Tensor, y: Tensor, t: int) -> LanguageModelWeights: ...


def slope_of_the_sigmoid(form: Callable[[Tensor], Tensor]) -> Finding:
    """form(h), h being the sigmoid of z, against autograd by z, over the whole range in which it is not flat."""
    z = torch.linspace(-20, 20, 63, dtype=torch.float64, requires_grad=True)
    h = naive.ACTIVATIONS["sigmoid"](z)
    (true,) = torch.autograd.grad(h.sum(), z)
    return compared([("z from -20 to 20", true, form(h.detach()))])


def sizes_of_gradients(form: Callable[[ElmanStep], dict[str, Tensor]]) -> Finding:
    """The rows and columns of form(step), a gradient a name, against those of what each is taken by."""
    return compared(
        (f"d{by} at {where}", list(derivative(step, "E", by).shape), list(given.shape))
        for where, step in STEPS.items()
        for by, given in form(step).items()
    )


def gradients_at_one_time(form: AtOneTime) -> Finding:
    """form against autograd of E[t] by I, H and b1, with the state before given, for the first and for later steps."""
    weights, (x, y) = random_weights(), random_words(T=8)
    cases: list[Case] = []
    for t in (1, 7):
        before = naive.elman(weights.L[x], weights.h0, weights.I, weights.H, weights.b1)[t - 1]
        leaves = LanguageModelWeights(*(weight.clone().requires_grad_() for weight in weights))
        naive.language_model(leaves._replace(h0=before), x[t : t + 1], y[t : t + 1]).backward()
        found = form(weights, x, y, t)
        cases += [(f"d{name}, t={t}", getattr(leaves, name).grad, getattr(found, name)) for name in ("I", "H", "b1")]
    return compared(cases)


def random_weights(D: int = 3, H: int = 5, V: int = 7, B: int = 1, seed: int = 1) -> LanguageModelWeights:
    draw = torch.Generator().manual_seed(seed)
    shapes = (V, D), (D, H), (H, H), (H, V), (H,), (V,), (B, H)
    drawn = LanguageModelWeights._make(torch.randn(shape, generator=draw, dtype=torch.float64) for shape in shapes)
    return drawn._replace(h0=drawn.h0.sigmoid())


def random_words(T: int, V: int = 7, B: int = 1, seed: int = 2) -> tuple[Tensor, Tensor]:
    """Words to read and words to predict, (T, B) each."""
    words = torch.randint(V, (2, T, B), generator=torch.Generator().manual_seed(seed))
    return words[0], words[1]


def traced_gradient(weights: LanguageModelWeights, x: Tensor, y: Tensor, t: int) -> LanguageModelWeights:
    """The gradient of E[t] through every step up to t."""
    e = weights.L[x[: t + 1]]
    h = naive.elman(e, weights.h0, weights.I, weights.H, weights.b1)
    before = torch.cat([weights.h0[None], h[:-1]])
    delta = trace_back(weights, x, y, t)
    # dE[t]/dH = sum h[s-1]^T delta[t->s], and so for I; dE[t]/db1 = sum delta[t->s]         s from the first step to t
    return local_gradient(weights, x, y, t)._replace(
        I=(e.mT @ delta).sum(0), H=(before.mT @ delta).sum(0), b1=delta.sum((0, 1))
    )


def _reach_of_a_loss() -> Lines:
    drawn, (x, y), t = random_weights(B=64), random_words(T=16, B=64), 15
    lines = {}
    for scale in (1, 2, 4, 8):
        # A matrix that keeps lengths, so that its scale alone says how much of a push lasts.
        weights = drawn._replace(H=scale * torch.linalg.qr(drawn.H).Q)
        sizes = trace_back(weights, x, y, t).norm(dim=(1, 2)).flip(0)
        lines[f"H {scale} times a rotation"] = [
            (float(back), float(size / sizes[0])) for back, size in enumerate(sizes)
        ]
    return Lines(
        title="How far back a loss reaches",
        about="The size of delta[t->s] against that of delta[t->t], which is all that step t alone has.",
        x="steps back from t",
        y="size of delta",
        lines=lines,
        log_y=True,
    )


# The formulas as the source has them. sigma is h, and all are of the size of what they are taken by.
def _outer(s: ElmanStep) -> Tensor:
    return s.h.T @ (1 - s.h)


STATED: dict[str, Formula] = {
    "U": lambda s: s.h.T @ (s.yhat - s.y),
    "b2": lambda s: s.yhat - s.y,
    "I": lambda s: s.e.T @ (1 - s.h) @ s.h.T @ (s.yhat - s.y) @ s.U.T,
    "H": lambda s: s.U @ (s.yhat - s.y).T @ s.before @ _outer(s),
    "b1": lambda s: (s.yhat - s.y) @ s.U.T @ _outer(s),
    "before": lambda s: (s.yhat - s.y) @ s.U.T @ _outer(s) @ s.H,
}


def _diagonal(row: Tensor) -> Tensor:
    return row[0].diag()


def _selecting(row: Tensor, chosen: Tensor) -> Tensor:
    """Entry (k, i, j) is row[i] chosen[k] where j = k, and zero elsewhere."""
    return torch.einsum("i,jk->kij", row[0], _diagonal(chosen))


def _all_ones(step: ElmanStep) -> Tensor:
    return torch.ones_like(step.h)


DELTA = "h_j*(1 - h_j)*sum_k((yhat_k - y_k)*U_jk)"
ELEMENTWISE = "The sigmoid acts element by element, so that its derivative is the diagonal matrix of h (1 - h)"

CLAIMS: tuple[Statement, ...] = (
    Claim(
        id="001-11",
        topic="recurrent",
        where="1(b)",
        says="The slope of the sigmoid is sigma (1 - sigma).",
        verdict="holds",
        formulas=("sigma*(1 - sigma)",),
        judge=slope_of_the_sigmoid,
        stated=lambda h: h * (1 - h),
        # That of tanh.
        rival=lambda h: 1 - h * h,
    ),
    Claim(
        id="001-12",
        topic="recurrent",
        where="1(b)",
        says="The derivative of the state by beta, the sum inside the sigmoid, is the row 1 - h times the column h.",
        verdict="wrong",
        precise=f"That product is a single number. {ELEMENTWISE}, H by H; only at a width of one are the two the same.",
        judge=derivative_of("h", "beta"),
        stated=lambda s: (1 - s.h) @ s.h.T,
        corrected=lambda s: _diagonal(s.slope),
        right_where=is_one_wide,
        computable=False,
    ),
    Claim(
        id="001-13",
        topic="recurrent",
        where="1(b)",
        says="The derivative of the state by I is the column e times the row 1 - h times the column h.",
        verdict="wrong",
        precise="It has three indices: h[k] by I[i, j] is e[i] h[k] (1 - h[k]) where j = k, and zero elsewhere.",
        judge=derivative_of("h", "I"),
        stated=lambda s: s.e.T @ (1 - s.h) @ s.h.T,
        corrected=lambda s: _selecting(s.e, s.slope),
        right_where=is_one_wide,
        computable=False,
    ),
    Claim(
        id="001-14",
        topic="recurrent",
        where="1(b)",
        says="The gradient by I is e^T (1 - h) h^T (yhat - y) U^T.",
        verdict="wrong",
        precise=(
            "It is e^T delta, where delta is (yhat - y) U^T times h (1 - h) element by element. The stated form has "
            "the right size, and is right at a width of one only."
        ),
        formulas=(DELTA,),
        judge=gradient_by("I"),
        stated=STATED["I"],
        corrected=lambda s: s.e.T @ s.delta,
        right_where=is_one_wide,
    ),
    Claim(
        id="001-15",
        topic="recurrent",
        where="1(b)",
        says="The gradient by the state is U (yhat - y)^T.",
        verdict="imprecise",
        precise="The numbers are right, as a column; everywhere else in the derivation it is a row, (yhat - y) U^T.",
        judge=gradient_by("h"),
        stated=lambda s: s.U @ (s.yhat - s.y).T,
        corrected=lambda s: (s.U @ (s.yhat - s.y).T).T,
        right_where=is_one_wide,
        computable=False,
    ),
    Claim(
        id="001-16",
        topic="recurrent",
        where="1(b)",
        says="The derivative of the state by beta is the column h times the row 1 - h.",
        verdict="wrong",
        precise=f"{ELEMENTWISE}. Of the stated product the diagonal is right, and all the rest has to be zero.",
        judge=derivative_of("h", "beta"),
        stated=_outer,
        corrected=lambda s: _outer(s).diag().diag(),
        right_where=is_one_wide,
    ),
    Claim(
        id="001-17",
        topic="recurrent",
        where="1(b)",
        says="The derivative of beta by H is the state before.",
        verdict="imprecise",
        precise=(
            "It has three indices: beta[k] by H[i, j] is h[t-1][i] where j = k, and zero elsewhere. As shorthand it is "
            "the transposed state, and stands left of the gradient by beta."
        ),
        judge=derivative_of("beta", "H"),
        stated=lambda s: s.before,
        corrected=lambda s: _selecting(s.before, _all_ones(s)),
        right_where=is_one_wide,
        computable=False,
    ),
    Claim(
        id="001-18",
        topic="recurrent",
        where="1(b)",
        says="The derivative of the state by H is the state before times the column h times the row 1 - h.",
        verdict="wrong",
        precise="It has three indices: h[k] by H[i, j] is h[t-1][i] h[k] (1 - h[k]) where j = k, and zero elsewhere.",
        judge=derivative_of("h", "H"),
        stated=lambda s: s.before @ _outer(s),
        corrected=lambda s: _selecting(s.before, s.slope),
        right_where=is_one_wide,
        computable=False,
    ),
    Claim(
        id="001-19",
        topic="recurrent",
        where="1(b)",
        says="The gradient by H is U (yhat - y)^T h[t-1] h^T (1 - h).",
        verdict="wrong",
        precise="It is h[t-1]^T delta, where delta is (yhat - y) U^T times h (1 - h) element by element.",
        formulas=(DELTA,),
        judge=gradient_by("H"),
        stated=STATED["H"],
        corrected=lambda s: s.before.T @ s.delta,
        right_where=is_one_wide,
    ),
    Claim(
        id="001-20",
        topic="recurrent",
        where="1(b)",
        says="The derivative of beta by b1 is the identity.",
        verdict="holds",
        judge=derivative_of("beta", "b1"),
        stated=lambda s: _diagonal(_all_ones(s)),
        # That of the state, one sigmoid further.
        rival=lambda s: _diagonal(s.slope),
    ),
    Claim(
        id="001-21",
        topic="recurrent",
        where="1(b)",
        says="The gradient by beta is (yhat - y) U^T h^T (1 - h).",
        verdict="wrong",
        precise=f"{ELEMENTWISE}, not the product of a column and a row: delta is (yhat - y) U^T times h (1 - h).",
        formulas=(DELTA,),
        judge=gradient_by("beta"),
        stated=STATED["b1"],
        corrected=lambda s: s.delta,
        right_where=is_one_wide,
    ),
    Claim(
        id="001-22",
        topic="recurrent",
        where="1(b)",
        says="The gradient by b1 is (yhat - y) U^T h^T (1 - h).",
        verdict="wrong",
        precise="It is delta, the gradient by beta: (yhat - y) U^T times h (1 - h) element by element.",
        formulas=(DELTA,),
        judge=gradient_by("b1"),
        stated=STATED["b1"],
        corrected=lambda s: s.delta,
        right_where=is_one_wide,
    ),
    Claim(
        id="001-23",
        topic="recurrent",
        where="1(b)",
        says="The derivative of beta by the state before is H.",
        verdict="wrong",
        precise="It is H transposed, in the layout in which alpha = h U has the derivative U transposed.",
        judge=derivative_of("beta", "before"),
        stated=lambda s: s.H,
        corrected=lambda s: s.H.T,
        right_where=is_one_wide,
    ),
    Claim(
        id="001-24",
        topic="recurrent",
        where="1(b)",
        says="The derivative of the state by the state before is h^T (1 - h) H.",
        verdict="wrong",
        precise="It is the diagonal matrix of h (1 - h) times H transposed.",
        judge=derivative_of("h", "before"),
        stated=lambda s: _outer(s) @ s.H,
        corrected=lambda s: _diagonal(s.slope) @ s.H.T,
        right_where=is_one_wide,
    ),
    Claim(
        id="001-25",
        topic="recurrent",
        where="1(b)",
        says="The gradient by the state before is (yhat - y) U^T h^T (1 - h) H.",
        verdict="wrong",
        precise="It is delta H^T. Two things are amiss: the product of column and row, and a transposition.",
        judge=gradient_by("before"),
        stated=STATED["before"],
        corrected=lambda s: s.delta @ s.H.T,
        right_where=is_one_wide,
    ),
    Claim(
        id="001-26",
        topic="recurrent",
        where="1(b)",
        says="The sizes of the gradients by U, b2, I, H, b1 and the state before come out as they must.",
        verdict="holds",
        precise="All six have the right size, and four of them are wrong nevertheless: a size is no evidence.",
        judge=sizes_of_gradients,
        stated=lambda s: {by: formula(s) for by, formula in STATED.items()},
        # As torch keeps them, for vectors that are columns.
        rival=lambda s: {by: formula(s).T for by, formula in STATED.items()},
    ),
    Claim(
        id="001-27",
        topic="recurrent",
        where="1(b)",
        says=(
            "For time step t only, with the state before as a constant, the gradients of the loss by I, H and b1 are "
            "those of step t."
        ),
        verdict="holds",
        precise=(
            "The state before was made by the same weights: in full every earlier step s adds its own part, with the "
            "delta that is traced back from t to s. The source leaves out the gradient by L: the row of the word that "
            "is read gets delta I^T."
        ),
        picture=_reach_of_a_loss,
        judge=gradients_at_one_time,
        stated=local_gradient,
        # Through all the steps before, as if the state were not given.
        rival=traced_gradient,
    ),
)
