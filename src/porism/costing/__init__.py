"""From code to formula: what a layer or a model costs.

>>> porism.cost(lambda D, H: torch.nn.LSTM(D, H), "T B D").flops
8*B*H*T*(D + H)
"""

from porism.costing.alphabet import ALPHABET, SYMBOLS, A, B, C, D, E, H, K, M, N, T, V, W, X, Y
from porism.costing.terms import Cost

__all__ = ["ALPHABET", "SYMBOLS", "A", "B", "C", "Cost", "D", "E", "H", "K", "M", "N", "T", "V", "W", "X", "Y"]
