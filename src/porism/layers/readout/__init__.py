"""The projection onto a vocabulary with its softmax cross-entropy."""

from porism.layers.readout.layer import Readout, linear_cross_entropy

__all__ = ["Readout", "linear_cross_entropy"]
