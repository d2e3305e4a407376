"""What attention computes: from scores to weights, and from weights to the answer. The truth is the layer's."""

from collections.abc import Callable

import torch
from torch import Tensor

from porism.claims.checks.compare import compared
from porism.claims.claim import Claim, Finding, Statement
from porism.layers import softmax_attention
from porism.layers.attention.softmax.method import all_weights


def normal(*shape: int) -> Tensor:
    """Numbers by chance, the same at each call."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(7), dtype=torch.float64)


def weights_of(A: int) -> Callable[[Callable[[Tensor], Tensor]], Finding]:
    """form(S), S the scores of A heads (A, T, T), against the weights of the layer."""

    def judge(form: Callable[[Tensor], Tensor]) -> Finding:
        cases = []
        for T, D in ((1, 3), (5, 2), (7, 4)):
            q, k = normal(2, 1, A, T, D)
            cases.append((f"T={T}, D={D}", all_weights(q, k, None, scale=1.0)[0], form((q @ k.mT)[0])))
        return compared(cases)

    return judge


def answers(form: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Finding:
    """form(Q, K, V), each (B, A, T, D), against what the layer answers."""
    cases = []
    for T, D in ((1, 3), (7, 4), (5, 63)):
        q, k, v = normal(3, 2, 3, T, D)
        cases.append((f"T={T}, D={D}", softmax_attention(q, k, v), form(q, k, v)))
    return compared(cases)


def _over_sum_of_scores(S: Tensor) -> Tensor:
    return S.exp() / S.sum(-1, keepdim=True)


def _over_sum_of_powers(S: Tensor) -> Tensor:
    # exp(s_ij) / sum over k of exp(s_ik)
    return S.exp() / S.exp().sum(-1, keepdim=True)


CLAIMS: tuple[Statement, ...] = (
    Claim(
        id="000-09",
        topic="attention",
        where="I.2(b), algorithm 1",
        says="The weights of token i are the exponentials of its scores, divided by the sum of row i of the scores.",
        verdict="wrong",
        precise=(
            "They are divided by the sum of the exponentials. Divided by the sum of the scores a row does not sum to "
            "one, and is negative where that sum is."
        ),
        formulas=("exp(s_ij)/sum(exp(s_ik))",),
        judge=weights_of(1),
        stated=_over_sum_of_scores,
        corrected=_over_sum_of_powers,
    ),
    Claim(
        id="000-14",
        topic="attention",
        where="I.2(b), algorithm 2",
        says="In each head the exponential of score j, k is divided by the sum of row j of the scores.",
        verdict="wrong",
        precise="As in 000-09: it is divided by the sum of the exponentials of row j.",
        formulas=("exp(s_jk)/sum(exp(s_jl))",),
        judge=weights_of(3),
        stated=_over_sum_of_scores,
        corrected=_over_sum_of_powers,
    ),
    Claim(
        id="003-01",
        topic="attention",
        where="1.1",
        says="Attention is softmax(Q K^T / sqrt(D)) V.",
        verdict="holds",
        precise="D is the width of a key. Where 1.3 leaves the root out, it has to be taken into the queries.",
        judge=answers,
        stated=lambda q, k, v: (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v,
        rival=lambda q, k, v: (q @ k.mT).softmax(-1) @ v,
    ),
)
