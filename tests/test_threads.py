"""Every test begins with one thread, whatever those before it have set."""

import pytest
import torch


@pytest.mark.parametrize("test", ["one", "another"])
def test_a_test_does_not_find_the_threads_of_the_one_before(test: str) -> None:
    assert torch.get_num_threads() == 1
    torch.set_num_threads(2)
