"""Settings of torch that a test asks for by name."""

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture
def fresh_memory_is_nan() -> Iterator[None]:
    """Fills all new memory with NaN, so that what is read before it is written, or never written, shows.

    That is a part of torch's deterministic mode. What it says of operations that are not deterministic is left aside.
    """
    torch.use_deterministic_algorithms(True, warn_only=True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.fixture
def double() -> Iterator[None]:
    """float64 unless a test says otherwise, from a fixed seed."""
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)
