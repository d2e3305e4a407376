"""Fourier transforms and alignments."""

import torch

from counter_cases.case import Case, call
from counter_cases.inputs import asking, words
from counter_cases.models import align
from porism.costing.alphabet import B, K, T, W

COMPLEX_TRANSFORM = 5 * B * 2**K * K  # the usual 5 n log2 n of n points, here 2^K

SIGNALS = [
    Case(
        "fft",
        lambda B, K: call(torch.fft.fft, asking(B, 2**K, dtype=torch.complex64)),
        COMPLEX_TRANSFORM,
        COMPLEX_TRANSFORM,
    ),
    Case(
        "rfft",
        lambda B, K: call(torch.fft.rfft, asking(B, 2**K)),
        COMPLEX_TRANSFORM / 2,
        # torch fills the missing half with zeros and transforms it as complex numbers.
        COMPLEX_TRANSFORM,
    ),
    Case(
        "irfft",
        lambda B, K: call(torch.fft.irfft, asking(B, 2**K // 2 + 1, dtype=torch.complex64)),
        COMPLEX_TRANSFORM / 2,
        COMPLEX_TRANSFORM / 2,
    ),
    Case(
        "CTC loss",
        lambda T, B, V, W: call(align, asking(T, B, V), 1 + words(V - 1, B, W)),
        # W labels have 2 W + 1 states with the blanks. Two additions and a product a state and step; back, the same
        # from the end, one to join both ways, one to add to the label's share.
        3 * B * T * (2 * W + 1),
        5 * B * T * (2 * W + 1),
        needs_values=True,
    ),
]
