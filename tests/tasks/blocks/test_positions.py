"""Position encodings against the formula, one element at a time."""

import math

import pytest
import torch

from porism.tasks.blocks.positions import sinusoidal_positions


@pytest.mark.parametrize("width", [1, 2, 7, 8])
def test_every_element_is_a_sine_or_a_cosine_of_its_position(width: int) -> None:
    encoded = sinusoidal_positions(63, width, torch.device("cpu")).double()
    assert encoded.shape == (63, width)
    half = -(-width // 2)
    for position in range(63):
        for column in range(width):
            angle = position * 10_000 ** (-2 * (column % half) / width)
            expected = math.sin(angle) if column < half else math.cos(angle)
            assert float(encoded[position, column]) == pytest.approx(expected, abs=1e-5)
