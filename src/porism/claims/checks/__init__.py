"""What decides a claim: comparing numbers and answers, and counting operations one by one."""

from porism.claims.checks.compare import Case, Impossible, answered, compared, counted_equal, slope, tried, where
from porism.claims.checks.count import Tally, tallied

__all__ = [
    "Case",
    "Impossible",
    "Tally",
    "answered",
    "compared",
    "counted_equal",
    "slope",
    "tallied",
    "tried",
    "where",
]
