"""Speech: what a decoder sees and remembers, and how alike two texts are."""

from porism.claims.claim import Statement
from porism.claims.topics.speech import decoders, similarities

CLAIMS: tuple[Statement, ...] = decoders.CLAIMS + similarities.CLAIMS
