"""Attention: torch's layers, its fused kernel, and plain products."""

from sympy import Expr
from torch import nn
from torch.nn import functional

from counter_cases.case import Case, call
from counter_cases.inputs import asking
from counter_cases.models import Attending, Gated, attention_by_products
from counter_cases.products import projected, summed
from porism.costing.alphabet import A, B, D, H, M, T, W


def attention(queries: Expr, keys: Expr, width: Expr, fused: bool = True) -> tuple[Expr, Expr]:
    """Scores and their sum of values, all heads together `width` wide.

    Each of the two products goes back by two. A fused kernel has not kept the scores and computes them once more: five.
    Causal or not, the whole square counts.
    """
    product = 2 * B * queries * keys * width
    return 2 * product, (5 if fused else 4) * product


SELF = summed(projected(T, D, D, times=4), attention(T, T, D))
# Queries and results are T long, keys and values W.
CROSS = summed(projected(T, D, D, times=2), projected(W, D, D, times=2), attention(T, W, D))
FEED_FORWARD = projected(T, D, M, times=2)

ATTENTION = [
    Case("MultiheadAttention, self", lambda T, B, D, A: call(Attending(D, A), asking(T, B, D)), *SELF),
    Case(
        "MultiheadAttention, weights shown",
        lambda T, B, D, A: call(Attending(D, A, weights=True), asking(T, B, D)),
        *summed(projected(T, D, D, times=4), attention(T, T, D, fused=False)),
    ),
    Case(
        "MultiheadAttention, cross",
        lambda T, W, B, D, A: call(Attending(D, A), asking(T, B, D), asking(W, B, D)),
        *CROSS,
    ),
    Case(
        "TransformerEncoderLayer",
        lambda T, B, D, A, M: call(nn.TransformerEncoderLayer(D, A, M, dropout=0.0), asking(T, B, D)),
        *summed(SELF, FEED_FORWARD),
    ),
    Case(
        "TransformerDecoderLayer",
        lambda T, W, B, D, A, M: call(
            nn.TransformerDecoderLayer(D, A, M, dropout=0.0), asking(T, B, D), asking(W, B, D)
        ),
        *summed(SELF, CROSS, FEED_FORWARD),
    ),
    Case(
        "SDPA",
        lambda B, A, T, D: call(functional.scaled_dot_product_attention, *[asking(B, A, T, D) for _ in range(3)]),
        *attention(T, T, A * D),
    ),
    Case(
        "SDPA, causal",
        lambda B, A, T, D: call(
            functional.scaled_dot_product_attention, *[asking(B, A, T, D) for _ in range(3)], is_causal=True
        ),
        *attention(T, T, A * D),
    ),
    Case(
        "SDPA, two heads a key",
        lambda B, A, T, D: call(
            functional.scaled_dot_product_attention,
            *[asking(B, heads, T, D) for heads in (2 * A, A, A)],
            enable_gqa=True,
        ),
        *attention(T, T, 2 * A * D),
    ),
    Case(
        "SDPA, cross",
        lambda B, A, T, W, D: call(
            functional.scaled_dot_product_attention, *[asking(B, A, length, D) for length in (T, W, W)]
        ),
        *attention(T, W, A * D),
    ),
    Case(
        "SDPA, values of another width",
        lambda B, A, T, W, D, H: call(
            functional.scaled_dot_product_attention, asking(B, A, T, D), asking(B, A, W, D), asking(B, A, W, H)
        ),
        # No fused kernel on the CPU takes these.
        2 * B * A * T * W * (D + H),
        4 * B * A * T * W * (D + H),
    ),
    Case(
        "attention by matmul",
        lambda B, A, T, D: call(attention_by_products, *[asking(B, A, T, D) for _ in range(3)]),
        *attention(T, T, A * D, fused=False),
    ),
    Case("gated feed-forward", lambda B, T, D, H: call(Gated(D, H), asking(B, T, D)), *projected(T, D, H, times=3)),
]
