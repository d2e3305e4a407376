"""The order of a scan: anti-diagonal after anti-diagonal, each one's rows side by side in memory.

A batch of images (B, Y, X, ...) is taken apart into B Y X rows, a pixel of an image each. In the order of the scan come
first the pixels of diagonal 0, then those of diagonal 1, and so on; within a diagonal from top to bottom, and within a
pixel the images of the batch. So a diagonal is one piece of memory, and so are those of its pixels that have a left
neighbour, and the neighbours: both lie on the diagonal before, in the same order.
"""

from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

DIRECTIONS = ("top-left", "top-right", "bottom-left", "bottom-right")
"""The corner at which a scan starts; it ends at the opposite one."""


class PixelDiagonal(NamedTuple):
    """One diagonal: its rows, those with a left neighbour and the neighbours, those with a top one and the neighbours.

    `right` and `left` are of one length, as are `below` and `above`; they are empty on the first diagonal, and where
    the image is one pixel wide or high.
    """

    pixels: slice
    right: slice
    left: slice
    below: slice
    above: slice


@lru_cache(maxsize=64)
def diagonals(B: int, Y: int, X: int) -> tuple[PixelDiagonal, ...]:
    """The Y + X - 1 diagonals of an image.

    >>> [diagonal.pixels for diagonal in diagonals(1, 2, 2)]
    [slice(0, 1, None), slice(1, 3, None), slice(3, 4, None)]
    >>> diagonals(1, 2, 2)[1].left, diagonals(1, 2, 2)[2].left      # the left neighbour of the last is the lower one
    (slice(0, 1, None), slice(2, 3, None))
    """
    found: list[PixelDiagonal] = []
    start, before = 0, 0
    for diagonal in range(Y + X - 1):
        # Pixel (row, diagonal - row) lies inside for these rows of the image.
        top, bottom = max(0, diagonal - X + 1), min(Y, diagonal + 1)
        top_before = max(0, diagonal - X)

        def rows(first: int, last: int, begin: int, highest: int) -> slice:
            return slice((begin + first - highest) * B, (begin + max(first, last) - highest) * B)

        with_left, with_top = (top, min(bottom, diagonal)), (max(top, 1), bottom)
        found.append(
            PixelDiagonal(
                rows(top, bottom, start, top),
                rows(*with_left, start, top),
                rows(*with_left, before, top_before),
                rows(*with_top, start, top),
                rows(with_top[0] - 1, with_top[1] - 1, before, top_before),
            )
        )
        start, before = start + bottom - top, start
    return tuple(found)


def order(B: int, Y: int, X: int, direction: str, device: torch.device) -> Tensor:
    """(B Y X): which row of a batch (B, Y, X, ...) comes when in a scan.

    >>> order(1, 2, 3, "top-left", torch.device("cpu")).tolist()
    [0, 1, 3, 2, 4, 5]
    """
    vertical, horizontal = direction.split("-")
    row, column = torch.arange(Y, device=device), torch.arange(X, device=device)
    # The sort is stable, so that a diagonal goes from the scan's first row to its last.
    scan = (row[:, None] + column).flatten().argsort(stable=True)
    row = Y - 1 - row if vertical == "bottom" else row
    column = X - 1 - column if horizontal == "right" else column
    pixels = (row[:, None] * X + column).flatten()[scan]
    images = torch.arange(B, device=device) * (Y * X)
    return (pixels[:, None] + images).flatten()


def by_diagonals(image: Tensor, order: Tensor) -> Tensor:
    """(B, Y, X, C) -> (B Y X, C), in the order of the scan."""
    return image.reshape(len(order), image.shape[3]).index_select(0, order)


def by_rows(scanned: Tensor, order: Tensor, B: int, Y: int, X: int) -> Tensor:
    """The opposite: (B Y X, H) -> (B, Y, X, H)."""
    image = scanned.new_empty(B, Y, X, scanned.shape[1])
    image.view(scanned.shape).index_copy_(0, order, scanned)
    return image
