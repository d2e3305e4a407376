import pytest
import torch

from porism.layers.recurrent.kernels import transpose
from porism.layers.recurrent.kernels.transpose import transposed


@pytest.mark.parametrize(("steps", "rows", "copied"), [(2, 9, True), (1, 9, False), (2, 8, False)])
def test_the_matrix_is_copied_for_many_steps_of_many_rows(
    steps: int, rows: int, copied: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transpose, "COPIED", True)
    weight = torch.arange(6.0).view(2, 3)
    found = transposed(weight, steps, rows)
    assert torch.equal(found, weight.mT)
    assert found.is_contiguous() is copied


def test_elsewhere_it_is_read_as_it_lies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transpose, "COPIED", False)
    weight = torch.arange(6.0).view(2, 3)
    assert transposed(weight, 20, 16).data_ptr() == weight.data_ptr()
