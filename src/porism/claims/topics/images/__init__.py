"""Images: nets that make them smaller by pools or by strides, and a recurrent net that grid over them."""

from porism.claims.claim import Statement
from porism.claims.topics.images import downsampling, grid

CLAIMS: tuple[Statement, ...] = downsampling.CLAIMS + grid.CLAIMS
