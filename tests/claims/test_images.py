"""What the claims on images are judged by is itself right."""

import pytest
import torch

from porism.claims.checks.count import Noted, Tally
from porism.claims.topics.images.downsampling import SHRINK, smallest_test_set, without_downsampling
from porism.claims.topics.images.grid import GridWeights, influence, scalar_scan, scan_tally
from porism.layers.recurrent.grid import naive
from porism.layers.recurrent.grid.cost import cost
from porism.layers.recurrent.grid.kernels.diagonals import diagonals


@pytest.mark.parametrize(("n", "C", "H"), [(1, 2, 3), (3, 1, 2)])
def test_the_walk_that_is_counted_is_the_layers(n: int, C: int, H: int) -> None:
    draw = torch.Generator().manual_seed(n)
    x = torch.randn(1, C, n, n, generator=draw, dtype=torch.float64)
    W_in, W_left, W_top = (torch.randn(rows, H, generator=draw, dtype=torch.float64) for rows in (C, H, H))

    def noted(matrix: torch.Tensor) -> list[list[Noted]]:
        return [[Noted(number, tally) for number in row] for row in matrix.tolist()]

    tally = Tally()
    states = scalar_scan(
        [noted(row) for row in x[0].permute(1, 2, 0)],
        GridWeights(noted(W_in), noted(W_left), noted(W_top)),
        [Noted(0.0, tally)] * H,
    )
    found = torch.tensor([[[number.value for number in state] for state in row] for row in states], dtype=x.dtype)
    assert torch.allclose(found.permute(2, 0, 1), naive.grid(x, W_in, W_left, W_top)[0], rtol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 7])
def test_leaving_out_the_zeros_around_saves_four_n_squares_of_the_width(n: int) -> None:
    C, H = 3, 2
    tally = scan_tally(n, C, H)
    # The layer leaves them out, and counts two operations for a multiplication.
    assert 2 * tally.mul - cost().at(B=1, C=C, H=H, Y=n, X=n)["flops"] == 4 * n * H**2
    assert tally.sigma == n**2 * H


def test_the_layers_walk_takes_as_many_steps_as_states_have_to_wait() -> None:
    assert len(diagonals(1, 2, 4)) == 5
    assert influence(2, 4)[1, 0, :, 1:].sum() == 0


def test_the_net_without_downsampling_is_the_one_of_the_spec() -> None:
    assert sum(parameter.numel() for parameter in without_downsampling(28).parameters()) == 3_501_692


def test_the_published_accuracies_tell_how_many_images_there_were() -> None:
    assert smallest_test_set() == (529, 438, 431)


def test_maxima_of_windows_that_share_half_their_pixels_correlate_by_three_eighths() -> None:
    """Uniform numbers, nearly: all images of 2 x 3 pixels in so many greys."""
    greys = 9
    pixels = torch.cartesian_prod(*[torch.arange(greys, dtype=torch.float64)] * 6).view(-1, 1, 2, 3)
    left, right = (SHRINK["maxima"](pixels[..., start : start + 2]).flatten() for start in (0, 1))
    correlation = float(torch.corrcoef(torch.stack([left, right]))[0, 1])
    assert correlation == pytest.approx(3 / 8, abs=0.01)
