"""What judges are made of: comparing numbers, counting operations one by one, and exponents of growth."""

from porism.claims.judges.compared import Case, Impossible, compared, counted_equal, tried
from porism.claims.judges.slopes import slope
from porism.claims.judges.tally import Tally, tallied

__all__ = ["Case", "Impossible", "Tally", "compared", "counted_equal", "slope", "tallied", "tried"]
