"""The order of a walk: every pixel once, and neighbours where they are said to be."""

import pytest
import torch

from porism.layers.recurrent.grid.kernels.diagonals import DIRECTIONS, by_diagonals, by_rows, diagonals, order

SIZES = [(1, 1), (1, 7), (7, 1), (2, 2), (3, 5), (5, 3), (63, 2)]
CPU = torch.device("cpu")


@pytest.mark.parametrize(("Y", "X"), SIZES)
def test_neighbours_lie_where_a_step_says(Y: int, X: int) -> None:
    B = 2
    # Of every row of the walk: image, row, column.
    pixels = torch.cartesian_prod(torch.arange(B), torch.arange(Y), torch.arange(X))[order(B, Y, X, "top-left", CPU)]
    walk = diagonals(B, Y, X)
    assert len(walk) == Y + X - 1
    assert [row for step in walk for row in range(step.pixels.start, step.pixels.stop)] == list(range(B * Y * X))
    for diagonal, step in enumerate(walk):
        here = pixels[step.pixels]
        assert (here[:, 1] + here[:, 2] == diagonal).all()
        assert (pixels[step.right] - pixels[step.left]).tolist() == [[0, 0, 1]] * int((here[:, 2] > 0).sum())
        assert (pixels[step.below] - pixels[step.above]).tolist() == [[0, 1, 0]] * int((here[:, 1] > 0).sum())


@pytest.mark.parametrize(
    ("direction", "wanted"),
    [
        ("top-left", [0, 1, 3, 2, 4, 5]),
        ("top-right", [2, 1, 5, 0, 4, 3]),
        ("bottom-left", [3, 4, 0, 5, 1, 2]),
        ("bottom-right", [5, 4, 2, 3, 1, 0]),
    ],
)
def test_a_corner_comes_first(direction: str, wanted: list[int]) -> None:
    assert order(1, 2, 3, direction, CPU).tolist() == wanted


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_there_and_back(direction: str) -> None:
    B, C, Y, X = 2, 3, 4, 5
    image = torch.randn(B, Y, X, C)
    places = order(B, Y, X, direction, CPU)
    walked = by_diagonals(image, places)
    vertical, horizontal = direction.split("-")
    first = image[:, -1 if vertical == "bottom" else 0, -1 if horizontal == "right" else 0]
    assert torch.equal(walked[:B], first)
    assert torch.equal(by_rows(walked, places, B, Y, X), image)
