"""Merged vectors are as far as one process would have brought them, where that can be computed."""

import pytest
import torch

from porism.tasks.words.model.merging import CURVATURE, merge_scales


@pytest.mark.parametrize("size", [1, 2, 7, 64])
def test_rows_that_fall_toward_a_minimum_come_as_far_as_in_one_process(size: int) -> None:
    # A row x falls toward a by h rate (a - x) with each of n gradients; occurrences with one context give n = 2 each.
    rate, window, a = 1e-4, 1, 3.0
    occurrences = torch.tensor([0.0, 0.5, 50, 5_000, 500_000], dtype=torch.float64)
    noise = torch.tensor([0.0, 0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
    words, contexts = merge_scales(occurrences, noise, window, 5, rate, size)
    for scale, n in (
        (words, 2 * occurrences),
        (contexts, 2 * (occurrences + 5 * occurrences.sum() * noise)),
    ):
        start = torch.zeros(5, dtype=torch.float64)
        in_each = a + (start - a) * torch.exp(-CURVATURE * rate * n)
        in_one = a + (start - a) * torch.exp(-CURVATURE * rate * n * size)
        merged = start + (in_each - start) * scale.squeeze(1).double()
        assert torch.allclose(merged, in_one, rtol=1e-5, atol=1e-12)
        assert scale.shape == (5, 1)
        assert scale.isfinite().all()
        assert (scale >= 1 - 1e-6).all()
        assert (scale <= size * (1 + 1e-6)).all()


def test_rare_words_are_summed_and_frequent_ones_averaged() -> None:
    words, _ = merge_scales(torch.tensor([0.0, 1e-9, 1e9]), torch.zeros(3), 5, 5, rate=0.025, size=4)
    assert words.squeeze(1).tolist() == pytest.approx([4, 4, 1])
