"""Attention: parameters and operations.

D is the width of the whole layer and A the number of its heads, which are D / A wide unless given otherwise.
"""

from porism.claims.claim import Statement
from porism.claims.topics.attention.heads import CLAIMS as OF_HEADS
from porism.claims.topics.attention.parameters import CLAIMS as OF_PARAMETERS
from porism.claims.topics.attention.products import CLAIMS as OF_PRODUCTS
from porism.claims.topics.attention.shares import CLAIMS as OF_SHARES
from porism.claims.topics.attention.single import CLAIMS as OF_A_SINGLE_HEAD
from porism.claims.topics.attention.weights import CLAIMS as OF_WEIGHTS

CLAIMS: tuple[Statement, ...] = (
    *OF_PARAMETERS,
    *OF_PRODUCTS,
    *OF_WEIGHTS,
    *OF_A_SINGLE_HEAD,
    *OF_HEADS,
    *OF_SHARES,
)
