"""Words, contexts and samples: any whole type, and nothing out of range, eager or compiled."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor

from porism.errors import RecipeError, ShapeError
from porism.layers.skipgram import SkipGram, sampled_loss
from porism.layers.skipgram.estimators import ESTIMATORS

V, D = 200, 3
INTEGERS = (torch.int8, torch.uint8, torch.int16, torch.int32)
WORDS, CONTEXTS = torch.tensor([0, 2, 2, 100]), torch.tensor([127, 0, 2, 1])
SAMPLES = torch.tensor([[0, 1], [2, 120], [4, 4], [1, 100]])
OUTSIDE = "out of range|out of bounds"

# torch.compile itself calls what torch deprecates.
compiling = pytest.mark.filterwarnings("ignore::DeprecationWarning")
each_type = pytest.mark.parametrize("dtype", INTEGERS, ids=str)
each_estimator = pytest.mark.parametrize("estimator", ESTIMATORS)


def model(estimator: str, dtype: torch.dtype = torch.float64) -> SkipGram:
    torch.manual_seed(0)
    made = SkipGram(V, D, estimator, negative=2, dtype=dtype)
    torch.nn.init.normal_(made.context_weight)
    return made


def wrong_ones() -> list[tuple[Tensor, Tensor, Tensor]]:
    """Each of the three with one number out of range, below and above."""
    given = WORDS, CONTEXTS, SAMPLES
    found = []
    for place in range(3):
        for number in (-1, -V, V):
            parts = [part.clone() for part in given]
            parts[place].view(-1)[1] = number
            found.append((parts[0], parts[1], parts[2]))
    return found


@each_type
@pytest.mark.parametrize("estimator", ["full", *ESTIMATORS])
def test_any_whole_type(estimator: str, dtype: torch.dtype) -> None:
    ours = model(estimator)
    small = WORDS.to(dtype), CONTEXTS.to(dtype), SAMPLES.to(dtype)
    assert torch.equal(ours(*small), ours(WORDS, CONTEXTS, SAMPLES))


@each_type
@each_estimator
def test_any_whole_type_in_a_step(estimator: str, dtype: torch.dtype) -> None:
    """uint8 are numbers of words here, and no mask."""
    ours, theirs = model(estimator), model(estimator)
    found = ours.sgd_step(WORDS.to(dtype), CONTEXTS.to(dtype), 0.1, SAMPLES.to(dtype))
    assert torch.equal(found, theirs.sgd_step(WORDS, CONTEXTS, 0.1, SAMPLES))
    assert torch.equal(ours.weight, theirs.weight)
    assert torch.equal(ours.context_weight, theirs.context_weight)
    assert not torch.equal(ours.weight, model(estimator).weight)


@each_estimator
def test_out_of_range(estimator: str) -> None:
    ours = model(estimator)
    before = copy.deepcopy(ours.state_dict())
    for words, contexts, samples in wrong_ones():
        with pytest.raises(ShapeError, match=r"run from -?\d+ to \d+, expected 0 to 199\. Number them by"):
            ours(words, contexts, samples)
        with pytest.raises(ShapeError, match=r"run from -?\d+ to \d+, expected 0 to 199"):
            ours.sgd_step(words, contexts, 0.1, samples)
    assert all(torch.equal(now, before[name]) for name, now in ours.state_dict().items())


@pytest.mark.sweep(2)
@compiling
@each_estimator
def test_out_of_range_compiled(estimator: str) -> None:
    torch.compiler.reset()
    ours = model(estimator)
    compiled = torch.compile(ours, backend="aot_eager", fullgraph=True)
    assert torch.equal(compiled(WORDS, CONTEXTS, SAMPLES), ours(WORDS, CONTEXTS, SAMPLES))
    for wrong in wrong_ones():
        with pytest.raises((RuntimeError, IndexError), match=OUTSIDE):
            compiled(*wrong)


@pytest.mark.sweep(1)
@compiling
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_a_compiled_step(dtype: torch.dtype) -> None:
    torch.compiler.reset()
    ours, theirs = model("negative", dtype), model("negative", dtype)
    compiled = torch.compile(ours.sgd_step, backend="aot_eager", fullgraph=True)
    found = compiled(WORDS, CONTEXTS, 0.1, SAMPLES)
    assert torch.equal(found, theirs.sgd_step(WORDS, CONTEXTS, 0.1, SAMPLES))
    assert torch.equal(ours.weight, theirs.weight)
    assert torch.equal(ours.context_weight, theirs.context_weight)
    for words, contexts, samples in wrong_ones():
        with pytest.raises((RuntimeError, IndexError), match=OUTSIDE):
            compiled(words, contexts, 0.1, samples)


@compiling
def test_out_of_range_by_the_exact_softmax_compiled() -> None:
    torch.compiler.reset()
    ours = model("full")
    compiled = torch.compile(ours, backend="aot_eager", fullgraph=True)
    assert torch.equal(compiled(WORDS, CONTEXTS), ours(WORDS, CONTEXTS))
    for words, contexts, _ in wrong_ones()[:6]:
        with pytest.raises((RuntimeError, IndexError), match=OUTSIDE):
            compiled(words, contexts)


def test_a_subclass_of_tensor() -> None:
    class Numbers(Tensor):
        pass

    with pytest.raises(ShapeError, match=r"context words run from 0 to 200, expected 0 to 199"):
        model("nce")(WORDS, torch.tensor([0, V, 1, 1]).as_subclass(Numbers), SAMPLES)


@pytest.mark.parametrize("rate", [torch.nan, torch.inf, "0.1", None, torch.tensor(0.1)])
def test_a_rate_that_is_no_finite_number(rate: Any) -> None:
    ours = model("nce")
    with pytest.raises(RecipeError, match=r"lr is .*Give a finite number, such as 0\.025\."):
        ours.sgd_step(WORDS, CONTEXTS, rate, SAMPLES)
    assert torch.equal(ours.weight, model("nce").weight)


@pytest.mark.parametrize("number", [0.0, -0.1, 1.5, torch.nan, torch.inf])
def test_what_is_no_probability(number: float) -> None:
    q = torch.full((V,), 1 / V, dtype=torch.float64)
    q[7] = number
    v, U = (torch.zeros(size, D) for size in (len(WORDS), V))
    with pytest.raises(ShapeError, match=r"q runs from .*, expected probabilities above 0 and up to 1\. Divide"):
        sampled_loss(v, U, CONTEXTS, SAMPLES, q, "nce")


def test_probabilities_are_constants() -> None:
    q = torch.full((V,), 1 / V, requires_grad=True)
    v, U = (torch.zeros(size, D) for size in (len(WORDS), V))
    with pytest.raises(ShapeError, match=r"q asks for a gradient, and there is none by it\. Pass q\.detach\(\)"):
        sampled_loss(v, U, CONTEXTS, SAMPLES, q, "nce")
