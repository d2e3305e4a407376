import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from porism.layers.dropout import dropout


@given(size=st.integers(1, 70), keep=st.floats(0.001, 0.999), seed=st.integers(0, 2**31))
def test_what_is_kept_is_scaled_and_the_gradient_has_the_same_holes(size: int, keep: float, seed: int) -> None:
    torch.manual_seed(seed)
    x = torch.rand(size, 1, dtype=torch.float64).add_(1).requires_grad_()
    y = dropout(x, keep)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    assert y.shape == x.shape
    assert torch.equal(y, x * gradient)
    kept = gradient[gradient != 0]
    assert torch.allclose(kept * keep, torch.ones_like(kept), rtol=1e-2)


@pytest.mark.parametrize("keep", [0.1, 0.5, 0.9])
def test_the_share_and_the_mean_are_right(keep: float) -> None:
    torch.manual_seed(3)
    size = 400_000
    y = dropout(torch.ones(size), keep)
    five_sigma = 5 * math.sqrt(keep * (1 - keep) / size)
    assert abs((y != 0).double().mean().item() - keep) < five_sigma
    assert abs(y.double().mean().item() - 1) < five_sigma / keep
    # The four that share a draw are independent of each other.
    together = (y != 0).view(-1, 4).all(1).double().mean().item()
    assert abs(together - keep**4) < 5 * math.sqrt(keep**4 / (size / 4))


def test_all_is_kept_where_that_is_asked_for_and_the_seed_decides() -> None:
    x = torch.rand(7, 9)
    assert dropout(x, 1.0) is x
    torch.manual_seed(1)
    first, second = dropout(x, 0.5), dropout(x, 0.5)
    assert not torch.equal(first, second)
    torch.manual_seed(1)
    assert torch.equal(dropout(x, 0.5), first)
