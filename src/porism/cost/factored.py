"""Formulas as people write them: what all terms share stands in front."""

from sympy import Expr, Function, factor, factor_terms

MOST_GENERATORS = 6
"""Letters, and floors or ceilings of them, up to which a polynomial is taken apart wholly. With more of them that takes
anything from a moment to hours, by the luck of the points it is tried at."""


def factored(formula: Expr) -> Expr:
    """
    >>> from porism.cost import B, D, H, T
    >>> factored(2 * B * D * H * T + 2 * B * H**2 * T)
    2*B*H*T*(D + H)
    """
    generators = formula.free_symbols | formula.atoms(Function)
    return factor(formula) if len(generators) <= MOST_GENERATORS else factor_terms(formula)
