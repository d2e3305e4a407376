"""The layer that chooses is the layer of its pattern, whole and token by token."""

import pytest
import torch
from tests.layers.attention.auto.conftest import EXACT, SLIDING, Device

from porism.errors import ShapeError
from porism.layers import (
    Attention,
    AutoAttention,
    WindowAttention,
)
from porism.layers.attention.pattern import FULL, Pattern


def test_the_layer_is_the_one_of_its_pattern(device: Device) -> None:
    x = torch.randn(2, 40, 12)
    plain, near = Attention(12, 3, batch_first=True), WindowAttention(12, 3, window_size=5, batch_first=True)
    for layer, pattern, causal in ((plain, FULL, False), (plain, FULL, True), (near, SLIDING, False)):
        auto = AutoAttention(12, 3, pattern=pattern, batch_first=True)
        auto.load_state_dict(layer.state_dict())
        for name in EXACT:
            device.prefer(name)
            torch.testing.assert_close(auto(x, is_causal=causal)[0], layer(x, is_causal=causal)[0])


def test_decoding_equals_the_whole_pass() -> None:
    x = torch.randn(2, 9, 12)
    for pattern in (FULL, SLIDING):
        layer = AutoAttention(12, 3, pattern=pattern, batch_first=True)
        whole, state, parts = layer(x, is_causal=True)[0], None, []
        for token in x.split(1, dim=1):
            y, state = layer.decode(token, state)
            parts.append(y)
        torch.testing.assert_close(torch.cat(parts, dim=1), whole)


def test_the_layer_refuses_what_it_cannot_decode() -> None:
    x = torch.randn(9, 2, 12)
    with pytest.raises(ShapeError, match="with an order may go two ways, and a state fits only one of them."):
        AutoAttention(12, 3, order=2).decode(x)
    ahead = AutoAttention(12, 3, pattern=Pattern("sliding", window_size=3, lookahead=1))
    for call in (ahead.decode, lambda x: ahead(x, is_causal=True)):
        with pytest.raises(ShapeError, match="a sliding pattern that attends ahead. Give a pattern that does not"):
            call(x)
    with pytest.raises(ShapeError, match="window_size is 4 without an order"):
        AutoAttention(12, 3, window_size=4)
