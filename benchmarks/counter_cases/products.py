"""Matrix products, and models of which a part learns, or is run again."""

import torch
from sympy import Expr
from torch import nn

from counter_cases.case import Case, call
from counter_cases.inputs import asking
from counter_cases.models import Adapted, Checkpointed, frozen
from porism.costing.alphabet import A, B, D, H, K, N, T, V


def projected(tokens: Expr, width: Expr, out: Expr, times: int = 1) -> tuple[Expr, Expr]:
    """Linear layers over the tokens of a batch: a product forward, and two back, towards input and weight."""
    return 2 * times * B * tokens * width * out, 4 * times * B * tokens * width * out


def summed(*parts: tuple[Expr, Expr]) -> tuple[Expr, Expr]:
    """The two passes of several parts together."""
    return sum(forward for forward, _ in parts), sum(backward for _, backward in parts)


LINEAR = 2 * B * D * H

PRODUCTS = [
    Case("Linear", lambda B, D, H: call(nn.Linear(D, H), asking(B, D)), LINEAR, 2 * LINEAR),
    Case("Linear, 3-D input", lambda B, T, D, H: call(nn.Linear(D, H), asking(B, T, D)), T * LINEAR, 2 * T * LINEAR),
    Case("Linear, input fixed", lambda B, D, H: call(nn.Linear(D, H), torch.randn(B, D)), LINEAR, LINEAR),
    Case(
        "Bilinear",
        lambda B, D, H, V: call(nn.Bilinear(D, H, V), asking(B, D), asking(B, H)),
        # x W for each output, then the dot product with the other input.
        2 * B * V * D * H + 2 * B * V * H,
        # A full contraction for each of three factors; the outer product of the other two before it is elementwise.
        3 * 2 * B * V * D * H,
    ),
    Case(
        "matmul",
        lambda B, A, T, D, H: call(torch.matmul, asking(B, A, T, D), asking(D, H)),
        A * T * LINEAR,
        2 * A * T * LINEAR,
    ),
    Case("bmm", lambda B, T, D, H: call(torch.bmm, asking(B, T, D), asking(B, D, H)), T * LINEAR, 2 * T * LINEAR),
    Case("addmm", lambda B, D, H: call(torch.addmm, asking(H), asking(B, D), asking(D, H)), LINEAR, 2 * LINEAR),
    Case(
        "baddbmm",
        lambda B, T, D, H: call(torch.baddbmm, asking(B, T, H), asking(B, T, D), asking(B, D, H)),
        T * LINEAR,
        2 * T * LINEAR,
    ),
    Case(
        "einsum",
        lambda B, T, D, H: call(torch.einsum, "btd,bhd->bth", asking(B, T, D), asking(B, H, D)),
        T * LINEAR,
        2 * T * LINEAR,
    ),
    Case("mv, matrix fixed", lambda T, D: call(torch.mv, torch.randn(T, D), asking(D)), 2 * T * D, 2 * T * D),
    Case(
        "cdist by pairs",
        lambda B, T, N, D: call(torch.cdist, asking(B, T, D), asking(B, N, D)),
        # Each coordinate of a pair is squared and added; back, multiplied and added for each of the two.
        2 * B * T * N * D,
        4 * B * T * N * D,
    ),
    Case(
        "cdist by a product",
        lambda B, T, N, D: call(torch.cdist, asking(B, T, D), asking(B, N, D), compute_mode="use_mm_for_euclid_dist"),
        # x^2 - 2 x y + y^2 as one product: the rows have a squared norm and a one more. Back, the plain rows.
        2 * B * T * N * (D + 2),
        4 * B * T * N * D,
    ),
]

LEARNED_IN_PART = [
    Case("Linear, weight frozen", lambda B, D, H: call(frozen(nn.Linear(D, H)), asking(B, D)), LINEAR, LINEAR),
    Case(
        "frozen Linear, then a head",
        lambda B, D, H, V: call(nn.Sequential(frozen(nn.Linear(D, H)), nn.Linear(H, V)), asking(B, D)),
        2 * B * D * H + 2 * B * H * V,
        2 * B * D * H + 4 * B * H * V,
    ),
    Case(
        "frozen Linear, then a head, input fixed",
        lambda B, D, H, V: call(nn.Sequential(frozen(nn.Linear(D, H)), nn.Linear(H, V)), torch.randn(B, D)),
        2 * B * D * H + 2 * B * H * V,
        # Nothing below the head asks, so only its weight's product is left.
        2 * B * H * V,
    ),
    Case(
        "low-rank adapter",
        lambda B, T, D, K: call(Adapted(D, K), asking(B, T, D)),
        2 * B * T * D**2 + 4 * B * T * D * K,
        2 * B * T * D**2 + 8 * B * T * D * K,
    ),
    Case(
        "checkpointed segment",
        lambda B, D, H: call(Checkpointed(D, H), asking(B, D)),
        2 * LINEAR,
        # Run once more, then back.
        2 * LINEAR + 4 * LINEAR,
    ),
]
