"""Every layer and functional form on random calls: right by its oracle in float64, or refused by our own error.

A part of the calls is spoiled on purpose and must be refused; all others must be answered. `pytest --whole` makes all
calls that `make test-all` promises, and without it a share of them that the seed draws is made.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
import torch
from tests import needs
from tests.layers.random_calls import attention, graphs, heads, recurrent, words
from tests.layers.random_calls.call import Call, Function, judge
from tests.layers.random_calls.draw import DTYPES, Draw

from porism.costing.predicting import calibration
from porism.testing.kernels import _launches

Family = Callable[[Draw], Call]
FAMILIES: tuple[Family, ...] = (
    attention.full_call,
    attention.full_call,
    attention.full_call,
    attention.decode_call,
    heads.layer_call,
    heads.layer_call,
    recurrent.elman_call,
    recurrent.elman_layer_call,
    recurrent.grid_call,
    recurrent.grid_layer_call,
    graphs.graph_call,
    words.readout_call,
    words.sampled_call,
    words.skipgram_call,
)
WITH_KERNELS: tuple[Family, ...] = (
    attention.full_call,
    attention.full_call,
    attention.decode_call,
    heads.layer_call,
    recurrent.grid_call,
    graphs.graph_call,
)
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
KERNEL_DTYPES = {torch.float32: 60, torch.bfloat16: 20, torch.float16: 20}

CALLS = {"eager": 250, "compiled": 12, "interpreted": 25}
"""In one test."""
WHOLE = {"eager": 80, "compiled": 42, "interpreted": 20}
"""Tests with --whole: 20,000 eager calls, 504 compiled, 500 in Triton's interpreter."""
SHARE = {"eager": 2, "compiled": 1, "interpreted": 1}
"""Without it. Which of them, --seed draws."""
FEW = {"compiled": 4}
"""Without it, calls in one test where that is fewer."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for kind, tests in (WHOLE if metafunc.config.getoption("--whole") else SHARE).items():
        if kind in metafunc.fixturenames:
            numbers = random.Random(metafunc.config.option.seed).sample(range(WHOLE[kind]), tests)
            seeds = [range(number * CALLS[kind], (number + 1) * CALLS[kind]) for number in sorted(numbers)]
            seeds = seeds if metafunc.config.getoption("--whole") else [some[: FEW.get(kind)] for some in seeds]
            metafunc.parametrize(kind, seeds, ids=[f"{some.start}-{some.stop}" for some in seeds])


@pytest.fixture(autouse=True)
def no_calibration(monkeypatch: pytest.MonkeyPatch) -> None:
    """The choice among mechanisms is made by FLOPs, so that nothing depends on a clock."""
    monkeypatch.setattr(calibration, "rates", lambda *_, **__: None)


@pytest.mark.sweep(SHARE["eager"])
@pytest.mark.usefixtures("fresh_memory_is_nan")
@pytest.mark.filterwarnings("ignore:.*does not have a deterministic implementation:UserWarning")
def test_right_or_refused(eager: range) -> None:
    counts = _judged(eager, FAMILIES)
    # Neither all answered nor all refused: draws of one kind would find nothing.
    assert counts["refused"] > len(eager) // 50
    assert counts["right"] > len(eager) // 2


# The compiler's own, about what it does inside.
@pytest.mark.sweep(SHARE["compiled"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")
@pytest.mark.filterwarnings("ignore:Dynamo does not know how to trace:UserWarning")
def test_right_or_refused_when_compiled(compiled: range) -> None:
    def compile_fresh(ours: Function) -> Function:
        torch._dynamo.reset()
        # A refusal breaks the graph, and is then raised as it is.
        return torch.compile(ours, backend="aot_eager")

    counts = _judged(compiled, FAMILIES, run=compile_fresh)
    # Of few calls all may be refused.
    assert len(compiled) < CALLS["compiled"] or counts["right"] > len(compiled) // 4


@pytest.fixture
def launched() -> Iterator[list[int]]:
    """How many kernels were launched: on the GPU where there is one, else in Triton's interpreter."""
    needs.triton()
    with _launches(torch.device(DEVICE)) as count:
        yield count


@pytest.mark.sweep(SHARE["interpreted"])
def test_right_or_refused_by_kernels(interpreted: range, launched: list[int]) -> None:
    counts = _judged(interpreted, WITH_KERNELS, KERNEL_DTYPES, DEVICE)
    assert counts["right"] > len(interpreted) // 2
    assert launched[0] > 0


def _judged(
    seeds: range,
    families: tuple[Family, ...],
    dtypes: dict[torch.dtype, int] = DTYPES,
    device: str = "cpu",
    run: Callable[[Function], Function] = lambda ours: ours,
) -> Counter[str]:
    counts: Counter[str] = Counter()
    failures = []
    for seed in seeds:
        draw = Draw(seed, dtypes, device)
        call = families[seed % len(families)](draw)
        outcome = judge(call, draw, run)
        counts[outcome.kind] += 1
        if outcome.kind in ("wrong", "raw"):
            failures.append(f"seed {seed}, {call.name}: {outcome.detail}\n    {call}")
    assert not failures, f"{dict(counts)}\n" + "\n".join(failures)
    return counts
