"""The order of a walk: every pixel once, and neighbours where they are said to be."""

import pytest
import torch

from porism.costing.alphabet import X, Y
from porism.errors import RecipeError
from porism.layers.recurrent.grid.cost import drawing, parallel_steps
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


def test_the_drawing_numbers_diagonals_and_counts_cells_at_once() -> None:
    front, at_once = drawing({"Y": 3, "X": 5}).split("\n\n")
    title, *rows = front.splitlines()
    assert title == f"one direction, 3 x 5 cells: {parallel_steps().subs({Y: 3, X: 5})} steps, each a diagonal"
    steps = [int(step) for row in rows for step in row.split()]
    assert steps == [y + x + 1 for y in range(3) for x in range(5)]
    bars = [line.count("■") for line in at_once.splitlines()[1:]]
    assert bars == [steps.count(step) for step in range(1, 8)]
    for letters, message in (({"T": 3}, "no letter T to set. It has Y, X"), ({"Y": 99}, "Y=99,X=6 does not fit")):
        with pytest.raises(RecipeError, match=message):
            drawing(letters)
