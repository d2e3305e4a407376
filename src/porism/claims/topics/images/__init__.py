"""Images: nets that make them smaller by pools or by strides, and a recurrent net that walks over them."""

from porism.claims.claim import Statement
from porism.claims.topics.images import downsampling, walks

CLAIMS: tuple[Statement, ...] = downsampling.CLAIMS + walks.CLAIMS
