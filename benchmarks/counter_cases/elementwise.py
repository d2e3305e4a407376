"""Layers that multiply no matrices: a counter of products is to say 0."""

from torch import nn

from counter_cases.case import Case, call
from counter_cases.inputs import asking, words
from porism.costing.alphabet import B, C, D, T, X, Y

ELEMENTWISE = [
    Case("Embedding", lambda V, D, B, T: call(nn.Embedding(V, D), words(V, B, T)), 0, 0, 0),
    Case(
        "EmbeddingBag",
        lambda V, D, B, T: call(nn.EmbeddingBag(V, D, mode="sum"), words(V, B, T)),
        0,
        0,
        B * T * D,
    ),
    # One operation an element that goes in, by convention: a kernel's passes over it are its own affair.
    Case("LayerNorm", lambda B, T, D: call(nn.LayerNorm(D), asking(B, T, D)), 0, 0, B * T * D),
    Case(
        "BatchNorm2d",
        lambda B, C, Y, X: call(nn.BatchNorm2d(C), asking(B, C, Y, X)),
        0,
        0,
        B * C * Y * X + 1,  # and the batches are counted
    ),
    Case("GroupNorm", lambda B, C, Y, X: call(nn.GroupNorm(2, C), asking(B, C, Y, X)), 0, 0, B * C * Y * X),
    Case(
        "RMSNorm",
        lambda B, T, D: call(nn.RMSNorm(D), asking(B, T, D)),
        0,
        0,
        # torch runs the parts: square, mean, scale and weight a number; the added epsilon and the root a token.
        4 * B * T * D + 2 * B * T,
    ),
]
