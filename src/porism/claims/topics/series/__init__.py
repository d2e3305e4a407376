"""Attention by a series: how good a cut series is, which features give it, and what the order of products saves.

The truth comes from the layer's own code (`layers/taylor`), from SymPy, from enumeration, and from runs that count.
Diag(v) is the diagonal matrix of the sums of weights, where books write D, which is the width here.
"""

from porism.claims.claim import Statement
from porism.claims.topics.series import answers, counting, features, operations, truncation

CLAIMS: tuple[Statement, ...] = (
    *truncation.CLAIMS,
    *features.CLAIMS,
    *counting.CLAIMS,
    *answers.CLAIMS,
    *operations.CLAIMS,
)
