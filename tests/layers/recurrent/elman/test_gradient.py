"""The language model's gradient in its variants."""

import pytest
import torch
from torch import Tensor

from porism.layers.recurrent.elman import naive
from porism.layers.recurrent.elman.gradient import gradient, local_gradient, trace_back
from porism.layers.recurrent.elman.naive import LanguageModelWeights
from porism.testing.gradients import relative_error

T, B, D, H, V = 7, 2, 3, 5, 9


@pytest.fixture
def weights() -> LanguageModelWeights:
    torch.manual_seed(0)
    shapes = ((V, D), (D, H), (H, H), (H, V), (H,), (V,), (B, H))
    return LanguageModelWeights(*(torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes))


@pytest.fixture
def words() -> tuple[Tensor, Tensor]:
    torch.manual_seed(1)
    return torch.randint(V, (T, B)), torch.randint(V, (T, B))


def assert_same(found: LanguageModelWeights, wanted: LanguageModelWeights) -> None:
    for name, part in found._asdict().items():
        assert relative_error(part, getattr(wanted, name)) <= 1e-10, name


@pytest.mark.parametrize("window", [1, 2, 3, 7, 63])
def test_truncated_equals_autograd_with_the_state_detached(
    weights: LanguageModelWeights, words: tuple[Tensor, Tensor], window: int
) -> None:
    total = torch.zeros((), dtype=torch.float64)
    h = weights.h0
    for x, y in zip(words[0].split(window), words[1].split(window), strict=True):
        total = total + naive.language_model(weights._replace(h0=h), x, y)
        h = naive.elman(weights.L[x], h, weights.I, weights.H, weights.b1)[-1].detach()
    wanted = LanguageModelWeights(*torch.autograd.grad(total, weights))
    assert_same(gradient(weights, *words, window=window), wanted)


def test_a_cut_changes_the_gradient(weights: LanguageModelWeights, words: tuple[Tensor, Tensor]) -> None:
    whole, cut = gradient(weights, *words), gradient(weights, *words, window=3)
    assert relative_error(cut.H, whole.H) > 1e-3
    assert relative_error(cut.U, whole.U) == 0


def test_windows_of_one_step_are_the_local_version_at_every_step(
    weights: LanguageModelWeights, words: tuple[Tensor, Tensor]
) -> None:
    locally = [local_gradient(weights, *words, t) for t in range(T)]
    sums = LanguageModelWeights(*(torch.stack(parts).sum(0) for parts in zip(*locally, strict=True)))
    step_by_step = gradient(weights, *words, window=1)
    assert_same(sums._replace(h0=step_by_step.h0), step_by_step)
    assert all(not part.h0.any() for part in locally)


def test_traces_of_every_loss_add_up_to_the_whole_gradient(
    weights: LanguageModelWeights, words: tuple[Tensor, Tensor]
) -> None:
    traces = [trace_back(weights, *words, t) for t in range(T)]
    assert [trace.shape for trace in traces] == [(t + 1, B, H) for t in range(T)]
    delta = torch.stack([torch.stack([traces[t][s] for t in range(s, T)]).sum(0) for s in range(T)])
    wanted = gradient(weights, *words)
    assert relative_error(delta.sum((0, 1)), wanted.b1) <= 1e-10
    assert relative_error(delta[0] @ weights.H.mT, wanted.h0) <= 1e-10
