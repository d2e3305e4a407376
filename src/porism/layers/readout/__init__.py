"""The projection onto a vocabulary with its softmax cross-entropy."""

from porism.layers.readout.functional import linear_cross_entropy
from porism.layers.readout.layer import Readout

__all__ = ["Readout", "linear_cross_entropy"]
