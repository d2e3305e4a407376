"""The cheapest way of its class is chosen, and says why."""

from typing import Any

import pytest
import torch
from tests.layers.attention.auto.conftest import DAY, SLIDING, Device, operands

from porism.costing.predicting import calibration
from porism.costing.predicting.calibration import MethodRates
from porism.layers import (
    choose_attention,
)
from porism.layers.attention.auto import attention
from porism.layers.attention.method import MOST_WEIGHTS
from porism.layers.attention.methods import METHODS
from porism.layers.attention.pattern import CAUSAL, FULL, Pattern


def chosen_among(device: Device, **asked: Any) -> set[str]:
    """All that is ever chosen, whatever would be the cheapest."""
    found = set()
    for name in METHODS:
        device.prefer(name)
        found.add(choose_attention(*operands(63, dtype=torch.float32), **asked).name)
    return found


def test_the_class_is_never_left(device: Device) -> None:
    series, hybrid = {"order": 2}, {"order": 2, "window_size": 5}
    assert chosen_among(device) == {"softmax", "dense-softmax"}
    assert chosen_among(device, pattern=SLIDING) == {"softmax", "dense-softmax", "window"}
    assert chosen_among(device, pattern=Pattern("sliding", window_size=63)) == {"softmax", "dense-softmax"}
    assert chosen_among(device, **series) == {"softmax", "dense-softmax", "taylor", "dense-taylor"}
    assert chosen_among(device, **hybrid) == {"softmax", "dense-softmax", "hybrid"}
    assert chosen_among(device, pattern=SLIDING, **series) == {"softmax", "dense-softmax", "window"}
    assert chosen_among(device, pattern=Pattern("block-causal", window_size=4), **hybrid) == {
        "softmax",
        "dense-softmax",
    }
    assert chosen_among(device, dropout_p=0.5, **series) == {"softmax"}
    assert chosen_among(device, mechanism="series") == {"taylor", "dense-taylor"}


def test_weights_that_take_much_memory_or_little_time_less_are_not_held(device: Device) -> None:
    device.prefer("dense-softmax")
    length = int((MOST_WEIGHTS / 4) ** 0.5)
    assert choose_attention(*operands(length, B=1, A=1, G=1, dtype=torch.float32)).name == "dense-softmax"
    assert choose_attention(*operands(length + 1, B=1, A=1, G=1, dtype=torch.float32)).name == "softmax"
    assert (
        choose_attention(*operands(2**10, B=1, A=8, G=8, dtype=torch.float32)).name == "softmax"
    )  # as many as the limit
    assert choose_attention(*operands(dtype=torch.bfloat16)).name == "softmax"
    for ratio, name in ((0.97, "softmax"), (0.9, "dense-softmax")):
        device.forget()
        rates = {"softmax": 1.0, "dense-softmax": ratio}
        device.monkeypatch.setattr(
            calibration,
            "_measured_rates",
            lambda workload, *_, r=rates: MethodRates({}, {"calls": r[workload.method.name]}, DAY),
        )
        assert choose_attention(*operands(dtype=torch.float32, T=9), refresh=True).name == name


def test_the_choice_says_why(device: Device) -> None:
    device.prefer("window")
    q, k, v = operands(4096, B=1, A=1, G=1, dtype=torch.float32)
    assert str(choose_attention(q, k, v, pattern=Pattern("sliding", window_size=64))) == (
        f"window: 1 ms predicted against 1 s for softmax with a dense mask (T=4,096, W=64; cpu, calibrated {DAY})"
    )
    choice = choose_attention(*operands(7, 9, dtype=torch.float32), order=2, window_size=3)
    assert str(choice) == (
        "softmax: 1 s predicted against 1 s for dense-softmax and 1 s for hybrid "
        f"(T=7, S=9, W=3; cpu, calibrated {DAY})"
    )
    assert choice.seconds == {"softmax": 1.0, "dense-softmax": 1.0, "hybrid": 1.0}
    many = operands(8192, B=1, A=1, G=1, dtype=torch.float32)
    assert str(choose_attention(*many)) == "softmax: the only way to this answer (T=8,192; cpu)"


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("softmax", {}),
        ("causal softmax", {"pattern": CAUSAL}),
        ("softmax with a dense mask", {"pattern": CAUSAL, "offset": 1}),
        ("softmax", {"pattern": CAUSAL, "offset": 6}),
        ("softmax with a dense mask", {"pattern": CAUSAL, "key_padding_mask": torch.zeros(2, 7, dtype=torch.bool)}),
        ("softmax with a dense mask", {"pattern": Pattern("sliding", window_size=3, lookahead=1, dilation=2)}),
        ("softmax with a dense mask", {"pattern": Pattern("block", window_size=3, is_causal=True)}),
        ("causal softmax", {"pattern": Pattern("sliding", window_size=7)}),
    ],
)
def test_what_is_asked_is_what_was_said(kind: str, settings: dict[str, Any]) -> None:
    choice = choose_attention(*operands(7), **settings)
    assert METHODS["softmax"].kind(choice.sizes) == kind
    pattern = settings.get("pattern", FULL)
    assert choice.sizes.pattern == (CAUSAL if pattern.window_size == 7 else pattern)


def test_where_there_is_one_way_nothing_is_measured(device: Device) -> None:
    q, k, v = operands(dtype=torch.bfloat16)
    attention(q, k, v)
    assert device.measured == []


def test_forward_alone_has_rates_of_its_own(device: Device) -> None:
    rates = {"softmax": ({"calls": 1.0}, {"calls": 4.0}), "dense-softmax": ({"calls": 3.0}, {"calls": 2.0})}
    device.monkeypatch.setattr(
        calibration, "_measured_rates", lambda workload, *_: MethodRates(*rates[workload.method.name], DAY)
    )
    q, k, v = operands()
    assert choose_attention(q, k, v).name == "dense-softmax"
    with torch.no_grad():
        assert choose_attention(q, k, v).name == "softmax"
    assert choose_attention(q.detach(), k.detach(), v.detach()).seconds == {"softmax": 1.0, "dense-softmax": 3.0}
