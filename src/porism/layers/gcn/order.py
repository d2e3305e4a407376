"""Ahat (x W) or (Ahat x) W? The same numbers at different prices: the stored entries times the width decide."""


def project_first(D: int, H: int, learns_weight: bool = True, learns_x: bool = True) -> bool:
    """Whether to multiply with W before spreading over the graph, features of width D into H.

    >>> project_first(1433, 16), project_first(16, 64)
    (True, False)

    The product with W costs the same either way. Spreading costs E times the width it happens at: H after the product,
    D before it. On the way back it happens again, at width H for whatever is learned, at width D for x alone. So
    features that are given, in a layer that learns, are spread first unless H is at most half of D. On a draw W comes
    first: it keeps x, which is there anyhow, where the other order keeps Ahat x.

    >>> project_first(64, 64), project_first(64, 64, learns_x=False)
    (True, False)
    """
    after = H * (1 + (learns_weight or learns_x))
    before = D * (1 + learns_x)
    return after <= before
