"""What a way has to do is what is counted, and a calibration times calls that tell the rates apart."""

from typing import Any

import pytest
import torch
from tests.layers.attention.auto.conftest import operands
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from mechanism import cases as benchmark_cases
from porism.costing.counting.count import count
from porism.layers.attention.methods import METHODS
from porism.layers.attention.pattern import CAUSAL, FULL, Pattern
from porism.layers.attention.request import AttentionRequest, RequestSizes

KINDS = {
    "softmax": "softmax",
    "causal softmax": "softmax",
    "softmax with a dense mask": "softmax",
    "dense-softmax": "dense-softmax",
    "dense-softmax with a mask": "dense-softmax",
    "window": "window",
    "window in blocks": "window",
    "taylor": "taylor",
    "causal taylor": "taylor",
    "dense-taylor": "dense-taylor",
    "dense-taylor with a mask": "dense-taylor",
    "hybrid": "hybrid",
    "causal hybrid": "hybrid",
}


COUNTED = RequestSizes(B=2, A=3, T=320, S=320, D=4, H=6, order=2)


def asked(name: str, pattern: Pattern) -> RequestSizes:
    return COUNTED._replace(pattern=pattern, window_size=40 if name == "hybrid" else None)


@pytest.mark.sweep(1, each="name")
@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        pytest.param(name, pattern, id=f"{name}, {pattern.kind}")
        for pattern in (FULL, CAUSAL, Pattern("sliding", window_size=40), Pattern("block", window_size=48))
        for name, method in METHODS.items()
        if method.serves(asked(name, pattern))
    ],
)
def test_the_flops_of_a_way_are_those_that_are_counted(name: str, pattern: Pattern) -> None:
    # A count has the whole square for the fused kernel, and so has a text that is no longer than one of its blocks.
    method, sizes = METHODS[name], asked(name, pattern)
    with FakeTensorMode(allow_non_fake_inputs=True):
        q, k, v = operands(320, B=2, A=3, G=3, D=4, H=6, dtype=torch.float32)

        def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            settings: dict[str, Any] = {"order": 2, "window_size": sizes.window_size}
            return method.attend(AttentionRequest.make(q, k, v, pattern=pattern, **settings))

        counted = count(attend, q, k, v)
    assert method.work(sizes._replace(backward=False))["flops"] == counted.flops
    assert method.work(sizes)["flops"] == counted.flops + counted.backward_flops


@pytest.mark.parametrize(("kind", "name"), KINDS.items())
@pytest.mark.parametrize("where", ["cpu", "cuda:0"])
def test_the_examples_of_a_kind_are_of_that_kind(kind: str, name: str, where: str) -> None:
    method = METHODS[name]
    trials = [trial._replace(threads=2) for trial in method.trials(kind, where)]
    assert {method.kind(trial) for trial in trials} == {kind}
    assert {trial.device for trial in trials} == {where}
    # More of them than rates to find, and from small to large.
    assert len(trials) > len(method.work(trials[0]))
    assert method.work(trials[-1])["flops"] > 100 * method.work(trials[0])["flops"]


def test_the_benchmark_is_held_at_other_sizes_than_a_calibration() -> None:
    grid = benchmark_cases()
    assert len(grid) == 30
    assert {case.pattern.kind for case in grid} == {"full", "causal", "sliding", "block"}
    lengths, widths = ({case.sizes[place] for case in grid} for place in (2, 3))
    calibrated = [trial for kind, name in KINDS.items() for trial in METHODS[name].trials(kind, "cpu")]
    assert not lengths & {trial.T for trial in calibrated}
    assert not widths & {trial.D for trial in calibrated}
