"""The alphabet as symbols, which formulas are written in."""

from functools import lru_cache

from sympy import Expr, Function, Symbol, factor, factor_terms

from porism.costing.letters import ALPHABET

SYMBOLS: dict[str, Symbol] = {letter: Symbol(letter, integer=True, positive=True) for letter in ALPHABET}

B, T, D, H, A, M, K, W, V, N, E, C, Y, X, G, S, L = SYMBOLS.values()

MOST_GENERATORS = 6
"""Letters, and floors or ceilings of them, up to which a polynomial is taken apart wholly. With more of them that takes
anything from a moment to hours, depending on the points it is tried at."""


@lru_cache(maxsize=1000)  # the formulas of a model are asked for again and again: by kind, by submodule, run by run
def factored(formula: Expr) -> Expr:
    """
    >>> from porism.costing.alphabet import B, D, H, T
    >>> factored(2 * B * D * H * T + 2 * B * H**2 * T)
    2*B*H*T*(D + H)
    """
    generators = formula.free_symbols | formula.atoms(Function)
    return factor(formula) if len(generators) <= MOST_GENERATORS else factor_terms(formula)
