"""What judges are made of: comparing numbers and answers, counting operations one by one, and exponents of growth."""

from porism.claims.judges.answered import answered
from porism.claims.judges.assumed import where
from porism.claims.judges.compared import Case, Impossible, compared, counted_equal, tried
from porism.claims.judges.slopes import slope
from porism.claims.judges.tally import Tally, tallied

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
