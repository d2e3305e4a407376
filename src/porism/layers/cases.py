"""The cases by which a layer and its kernels are tried: each layer's check.py writes its own."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import Tensor

LAYERS = {
    "attention": "porism.layers.attention.softmax",
    "elman": "porism.layers.recurrent.elman",
    "gcn": "porism.layers.gcn",
    "grid": "porism.layers.recurrent.grid",
    "hybrid": "porism.layers.attention.hybrid",
    "lstm": "porism.layers.recurrent.lstm",
    "readout": "porism.layers.readout",
    "skipgram": "porism.layers.skipgram",
    "taylor": "porism.layers.attention.taylor",
    "window": "porism.layers.attention.window",
}
"""Every layer, by the name that the command line knows, and the package it lies in."""


@dataclass(frozen=True)
class GradientCase:
    """A scalar function, a point, and the gradient that was derived by hand there. Float64 throughout."""

    name: str
    function: Callable[..., Tensor]
    at: Mapping[str, Tensor]
    by_hand: Mapping[str, Tensor]


@dataclass(frozen=True)
class KernelCase:
    """A layer's function, which takes its kernels where it can, and its oracle; a point in float32."""

    name: str
    function: Callable[..., Tensor]
    oracle: Callable[..., Tensor]
    at: Mapping[str, Tensor]
