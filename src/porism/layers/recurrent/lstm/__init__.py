"""The LSTM layer: gates that let in, keep and let out what its memory holds."""

from porism.layers.recurrent.lstm.functional import lstm
from porism.layers.recurrent.lstm.layer import LSTM

__all__ = ["LSTM", "lstm"]
