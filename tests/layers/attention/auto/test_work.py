"""What a way has to do is what is counted, and a calibration times calls that tell the rates apart."""

from dataclasses import replace

import pytest
import torch
from tests.layers.attention.auto.conftest import operands
from torch._subclasses.fake_tensor import FakeTensorMode

from mechanism import cases as benchmark_cases
from porism.costing.counting.count import count
from porism.layers.attention.examples import examples
from porism.layers.attention.methods import WAYS, Options
from porism.layers.attention.pattern import CAUSAL, FULL, Pattern
from porism.layers.attention.request import Question
from porism.layers.attention.work import work

KINDS = {
    "softmax": "softmax",
    "causal softmax": "softmax",
    "softmax with a dense mask": "softmax",
    "dense softmax": "dense softmax",
    "dense softmax with a mask": "dense softmax",
    "window": "window",
    "window in blocks": "window",
    "taylor": "taylor",
    "causal taylor": "taylor",
    "dense taylor": "dense taylor",
    "dense taylor with a mask": "dense taylor",
    "hybrid": "hybrid",
    "causal hybrid": "hybrid",
}


COUNTED = Question(B=2, A=3, T=320, S=320, D=4, H=6, pattern=FULL, order=2, window=40)


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        pytest.param(name, pattern, id=f"{name}, {pattern.kind}")
        for pattern in (FULL, CAUSAL, Pattern("sliding", window=40), Pattern("block", window=48))
        for name, way in WAYS.items()
        if way.answers(replace(COUNTED, pattern=pattern))
    ],
)
def test_the_flops_of_a_way_are_those_that_are_counted(name: str, pattern: Pattern) -> None:
    # A count has the whole square for the fused kernel, and so has a text that is no longer than one of its blocks.
    asked = replace(COUNTED, pattern=pattern)
    with FakeTensorMode(allow_non_fake_inputs=True):
        q, k, v = operands(320, B=2, A=3, G=3, D=4, H=6, dtype=torch.float32)
        options = Options(pattern, order=2, window=40)
        counted = count(lambda q, k, v: WAYS[name].attend(q, k, v, options), q, k, v)
    assert work(name, replace(asked, backward=False))["flops"] == counted.flops
    assert work(name, asked)["flops"] == counted.flops + counted.backward_flops


@pytest.mark.parametrize(("kind", "name"), KINDS.items())
@pytest.mark.parametrize("where", ["cpu", "cuda:0"])
def test_the_examples_of_a_kind_are_of_that_kind(kind: str, name: str, where: str) -> None:
    found = examples(kind, where, threads=2)
    asked = [replace(example, dtype=torch.float32) for example in found]
    assert {WAYS[name].kind(example) for example in asked} == {kind}
    # More of them than rates to find, and from small to large.
    assert len(asked) > len(work(name, asked[0]))
    assert work(name, asked[-1])["flops"] > 100 * work(name, asked[0])["flops"]


def test_the_benchmark_is_held_at_other_sizes_than_a_calibration() -> None:
    grid = benchmark_cases()
    assert len(grid) == 30
    assert {case.pattern.kind for case in grid} == {"full", "causal", "sliding", "block"}
    lengths, widths = ({case.sizes[place] for case in grid} for place in (2, 3))
    calibrated = [example for kind in KINDS for example in examples(kind, "cpu")]
    assert not lengths & {example.T for example in calibrated}
    assert not widths & {example.D for example in calibrated}
