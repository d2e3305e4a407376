"""Numbers of a user's data that are NaN or infinite: found where data is read, and named by their place."""

import torch
from torch import Tensor

from porism.errors import DataError


def check_finite(x: Tensor, where: str, what: str = "value at") -> None:
    """Refuse NaN and infinity, with the position of the first and how many there are.

    where: what the data is called, such as a file or a split. what: what one number is.

    >>> check_finite(torch.tensor([[0.0, 1.0], [float("nan"), 2.0]]), "train", "feature at")
    Traceback (most recent call last):
    porism.errors.DataError: train: the feature at [1, 0] is nan, expected finite numbers. ...
    """
    if not (x.is_floating_point() or x.is_complex()) or (finite := torch.isfinite(x)).all():
        return
    bad = ~finite
    place = bad.nonzero()[0].tolist()
    raise DataError(
        f"{where}: the {what} {place} is {x[tuple(place)].item():g}, expected finite numbers. Remove or replace it: "
        f"{int(bad.sum()):,} of {x.numel():,} are not finite."
    )
