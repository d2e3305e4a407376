"""One alphabet: a letter means one thing in the formulas, the shape comments, the docs and `--at`."""

from sympy import Symbol

ALPHABET: dict[str, str] = {
    "B": "batch",
    "T": "length",
    "D": "width",
    "H": "hidden width",
    "A": "heads",
    "M": "features of a feature map",
    "K": "order of a series",
    "W": "window",
    "V": "vocabulary",
    "N": "nodes",
    "E": "edges",
    "C": "channels",
    "Y": "rows",
    "X": "columns",
}

SYMBOLS: dict[str, Symbol] = {letter: Symbol(letter, integer=True, positive=True) for letter in ALPHABET}

B, T, D, H, A, M, K, W, V, N, E, C, Y, X = SYMBOLS.values()
