"""States given by the user have the shape that the layer gives, on every way through it."""

import pytest
import torch

from porism.errors import ShapeError
from porism.layers import LSTM

T, B, D, H = 3, 4, 2, 5

pytestmark = pytest.mark.usefixtures("double")


@pytest.mark.parametrize("options", [{}, {"recurrent_dropout": 0.5}, {"proj_size": 2}], ids=str)
@pytest.mark.parametrize("shape", [(3, B, H), (1, B, H), (2, B + 1, H), (2, B, H + 1), (2, 1, H)], ids=str)
def test_states_of_another_shape_are_refused(options: dict[str, float], shape: tuple[int, ...]) -> None:
    layer = LSTM(D, H, num_layers=2, **options)  # type: ignore[arg-type]
    good = torch.zeros(2, B, layer.proj_size or H), torch.zeros(2, B, H)
    layer(torch.zeros(T, B, D), good)
    for hx in ((good[0], torch.zeros(shape)), (torch.zeros(shape), good[1])):
        with pytest.raises(ShapeError, match="layers \\* directions, B, width"):
            layer(torch.zeros(T, B, D), hx)


def test_a_sequence_without_a_batch_takes_states_without_one() -> None:
    layer, x = LSTM(D, H), torch.randn(T, D)
    hx = torch.randn(1, H), torch.randn(1, H)
    y, (h, c) = layer(x, hx)
    expected, (h_n, c_n) = layer(x[:, None], (hx[0][:, None], hx[1][:, None]))
    assert torch.equal(y, expected[:, 0])
    assert torch.equal(h, h_n[:, 0])
    assert torch.equal(c, c_n[:, 0])
    with pytest.raises(ShapeError, match="layers \\* directions"):
        layer(x, (torch.zeros(2, H), torch.zeros(2, H)))
