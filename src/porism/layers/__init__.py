"""The architectures. Each folder holds one: its equations, oracle, layer, gradient by hand and cost."""

from porism.layers.elman import Elman
from porism.layers.readout import Readout

__all__ = ["Elman", "Readout"]
