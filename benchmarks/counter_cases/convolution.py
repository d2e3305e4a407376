"""Convolutions and transposed ones, of one to three dimensions."""

import torch
from sympy import Expr, Integer, floor
from torch import nn

from counter_cases.case import Case, call
from counter_cases.inputs import asking
from counter_cases.products import summed
from porism.costing.alphabet import B, C, H, T, W, X, Y


def convolution(channels: Expr, taps: Expr, points: Expr) -> tuple[Expr, Expr]:
    """At every point all taps of all channels meet; back, so do the gradients of input and weight."""
    forward = 2 * B * channels * taps * points
    return forward, 2 * forward


# Points of the output where the kernel stays inside.
LONG, TALL, WIDE = T - W + 1, Y - W + 1, X - W + 1

CONVOLUTION = [
    Case("Conv1d", lambda B, C, H, W, T: call(nn.Conv1d(C, H, W), asking(B, C, T)), *convolution(C * H, W, LONG)),
    Case(
        "Conv2d",
        lambda B, C, H, W, Y, X: call(nn.Conv2d(C, H, W), asking(B, C, Y, X)),
        *convolution(C * H, W**2, TALL * WIDE),
    ),
    Case(
        "Conv2d, input fixed",
        lambda B, C, H, W, Y, X: call(nn.Conv2d(C, H, W), torch.randn(B, C, Y, X)),
        *2 * [convolution(C * H, W**2, TALL * WIDE)[0]],
    ),
    Case(
        "Conv3d",
        lambda B, C, H, W, T, Y, X: call(nn.Conv3d(C, H, W), asking(B, C, T, Y, X)),
        *convolution(C * H, W**3, LONG * TALL * WIDE),
    ),
    Case(
        "Conv2d, stride 2, padding 1",
        lambda B, C, H, W, Y, X: call(nn.Conv2d(C, H, W, stride=2, padding=1), asking(B, C, Y, X)),
        # The zeros of the padding are multiplied too.
        *convolution(C * H, W**2, (floor((Y + 2 - W) / 2) + 1) * (floor((X + 2 - W) / 2) + 1)),
    ),
    Case(
        "Conv2d, dilation 2",
        lambda B, C, H, W, Y, X: call(nn.Conv2d(C, H, W, dilation=2), asking(B, C, Y, X)),
        *convolution(C * H, W**2, (Y - 2 * (W - 1)) * (X - 2 * (W - 1))),
    ),
    Case(
        "Conv2d, 2 groups",
        lambda B, C, H, W, Y, X: call(nn.Conv2d(C, H, W, groups=2), asking(B, C, Y, X)),
        *convolution(C * H / 2, W**2, TALL * WIDE),
    ),
    Case(
        "Conv2d, depthwise",
        lambda B, C, W, Y, X: call(nn.Conv2d(C, C, W, groups=C), asking(B, C, Y, X)),
        *convolution(C, W**2, TALL * WIDE),
    ),
    Case(
        "Conv2d, separable",
        lambda B, C, H, W, Y, X: call(
            nn.Sequential(nn.Conv2d(C, C, W, groups=C), nn.Conv2d(C, H, 1)), asking(B, C, Y, X)
        ),
        *summed(convolution(C, W**2, TALL * WIDE), convolution(C * H, Integer(1), TALL * WIDE)),
    ),
    # Transposed, the taps meet at every point of the input.
    Case(
        "ConvTranspose1d",
        lambda B, C, H, W, T: call(nn.ConvTranspose1d(C, H, W), asking(B, C, T)),
        *convolution(C * H, W, T),
    ),
    Case(
        "ConvTranspose2d, stride 2",
        lambda B, C, H, W, Y, X: call(nn.ConvTranspose2d(C, H, W, stride=2), asking(B, C, Y, X)),
        *convolution(C * H, W**2, Y * X),
    ),
    Case(
        "ConvTranspose2d, 2 groups",
        lambda B, C, H, W, Y, X: call(nn.ConvTranspose2d(C, H, W, groups=2), asking(B, C, Y, X)),
        *convolution(C * H / 2, W**2, Y * X),
    ),
    Case(
        "ConvTranspose3d",
        lambda B, C, H, W, T, Y, X: call(nn.ConvTranspose3d(C, H, W), asking(B, C, T, Y, X)),
        *convolution(C * H, W**3, T * Y * X),
    ),
]
