"""What the claims on images are judged by is itself right."""

from itertools import takewhile

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from porism.claims.checks.count import Noted, Tally
from porism.claims.topics.images.downsampling import (
    OWN_LAYOUT,
    SHRINK,
    change_by_shift,
    layout,
    net,
    numbers_in,
    smallest_test_set,
    without_downsampling,
)
from porism.claims.topics.images.grid import GridWeights, influence, scalar_scan, scan_tally, turns_of
from porism.layers.recurrent.grid import naive
from porism.layers.recurrent.grid.cost import cost
from porism.layers.recurrent.grid.kernels.diagonals import diagonals
from porism.tasks.images.recipes import PUBLISHED_PARAMETERS


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


def test_layouts_with_other_paddings_have_other_numbers_of_parameters() -> None:
    """The note of 003-37: the layout was searched for, and is the only one of these that gives both nets the number."""
    sizes = {
        padding: [numbers_in(layout(pooled, padding)) for pooled in (True, False)]
        for padding in ((0, 0), (0, 1), (1, 0), (1, 1))
    }
    assert [padding for padding, both in sizes.items() if both == [PUBLISHED_PARAMETERS] * 2] == [OWN_LAYOUT]
    assert all(numbers_in(net(pooled, 28)) == PUBLISHED_PARAMETERS for pooled in (True, False))


def test_pools_multiply_before_they_skip() -> None:
    """The note of 003-38."""

    def multiplied(pooled: bool) -> int:
        convolutions = takewhile(lambda layer: not isinstance(layer, torch.nn.Flatten), net(pooled, 28))
        with FlopCounterMode(display=False) as counter:
            torch.nn.Sequential(*convolutions)(torch.zeros(1, 1, 28, 28, device="meta"))
        return int(counter.get_total_flops() // 2)

    assert [multiplied(True), multiplied(False)] == [222_336, 55_584]


def test_how_far_noise_changes_when_it_moves() -> None:
    """The notes of 003-39a. Two windows share two of four pixels: maxima correlate by 3/8, means by 1/2."""
    changes = {way: change_by_shift(way, 1) for way in SHRINK}
    assert changes == pytest.approx({"maxima": 1.25**0.5, "means": 1.0, "every second pixel": 2**0.5}, rel=0.01)
    assert all(change_by_shift(way, 2) == 0 for way in SHRINK)


def test_an_anti_diagonal_is_computed_at_once() -> None:
    """The note of 004-08."""
    for rows, columns in ((3, 3), (2, 4)):
        turns = turns_of(influence(rows, columns).view(rows * columns, -1))
        assert max(turns) == rows + columns - 1
        assert max(turns.count(turn) for turn in turns) == min(rows, columns)


def test_the_published_accuracies_tell_how_many_images_there_were() -> None:
    assert smallest_test_set() == (529, 438, 431)


def test_maxima_of_windows_that_share_half_their_pixels_correlate_by_three_eighths() -> None:
    """Uniform numbers, nearly: all images of 2 x 3 pixels in so many greys."""
    greys = 9
    pixels = torch.cartesian_prod(*[torch.arange(greys, dtype=torch.float64)] * 6).view(-1, 1, 2, 3)
    left, right = (SHRINK["maxima"](pixels[..., start : start + 2]).flatten() for start in (0, 1))
    correlation = float(torch.corrcoef(torch.stack([left, right]))[0, 1])
    assert correlation == pytest.approx(3 / 8, abs=0.01)
