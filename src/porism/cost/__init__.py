"""From code to formula: what a layer or a model costs."""

from porism.cost.alphabet import ALPHABET, SYMBOLS, A, B, C, D, E, H, K, M, N, T, V, W, X, Y
from porism.cost.formula import Cost

__all__ = ["ALPHABET", "SYMBOLS", "A", "B", "C", "Cost", "D", "E", "H", "K", "M", "N", "T", "V", "W", "X", "Y"]
