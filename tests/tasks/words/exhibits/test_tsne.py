"""t-SNE keeps neighbours together: affinities of the given perplexity, the gradient of KL, and a KL that gets small."""

import math

import pytest
import torch
from torch import Tensor

from porism.tasks.words.exhibits.tsne import START, affinities, embed, gradient, principal


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def divergence(p: Tensor, y: Tensor) -> Tensor:
    """KL(p, q) by its definition."""
    off = ~torch.eye(len(y), dtype=torch.bool)
    near = 1 / (1 + (y[:, None] - y).square().sum(2))
    q = near[off] / near[off].sum()
    found: Tensor = torch.special.xlogy(p[off], p[off] / q).sum()
    return found


@pytest.mark.parametrize("perplexity", [1.5, 5.0, 15.0])
@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_affinities_have_the_perplexity(perplexity: float, size: float) -> None:
    x = random(60, 7) * size
    p = affinities(x, perplexity)
    assert p.sum() == pytest.approx(1)
    assert torch.equal(p, p.T)
    assert (p.diagonal() == 0).all()
    # By the definition: Gaussians around each row, one precision a row, found here from a fine grid.
    distances = torch.cdist(x, x).square() / size**2
    distances.fill_diagonal_(math.inf)
    wanted = torch.zeros_like(p)
    for i, row in enumerate(distances):
        low, high = 1e-9, 1e9
        for _ in range(200):
            middle = math.sqrt(low * high)
            conditional = torch.softmax(-middle * row, 0)
            wide = torch.special.entr(conditional).sum() > math.log(perplexity)
            low, high = (middle, high) if wide else (low, middle)
        wanted[i] = conditional
    torch.testing.assert_close(p, (wanted + wanted.T) / 120, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("spread", [1e-4, 1.0, 30.0])
def test_the_gradient_is_that_of_the_divergence(spread: float) -> None:
    p, y = affinities(random(40, 5), 8.0), (spread * random(40, 2, seed=1)).requires_grad_()
    (wanted,) = torch.autograd.grad(divergence(p, y), y)
    torch.testing.assert_close(gradient(p, y.detach()), wanted, rtol=1e-9, atol=1e-12)
    # Products of large coordinates have few digits in float32, and the result may not show it.
    single = gradient(p.float(), y.detach().float()).double()
    assert float((single - wanted).norm() / wanted.norm()) < 1e-3


def test_points_end_as_near_to_the_rows_as_scikit_learn_s() -> None:
    manifold = pytest.importorskip("sklearn.manifold", reason="scikit-learn is the peer")
    ours = theirs = 0.0
    # Which minimum a map ends in is chance: it changes with the last digit of a sum.
    for seed in range(1, 6):
        x = torch.nn.functional.normalize(random(12, 20).repeat(10, 1) + 0.5 * random(120, 20, seed=seed))
        p = affinities(x, 15.0)
        peer = manifold.TSNE(
            perplexity=15.0, init=principal(x).numpy(), max_iter=500, random_state=0, method="exact"
        ).fit_transform(x.numpy())
        ours += float(divergence(p, embed(x, 15.0)))
        theirs += float(divergence(p, torch.from_numpy(peer).double()))
    assert ours < 1.05 * theirs


def test_points_start_from_two_principal_components() -> None:
    x = random(50, 3) * torch.tensor([5.0, 1.0, 0.1])
    start = principal(x)
    assert start.std(0, correction=0)[0] == pytest.approx(START)
    centred = x - x.mean(0)
    for found, column in zip(start.T, centred.T, strict=False):
        assert abs(torch.corrcoef(torch.stack([found, column]))[0, 1]) > 0.95


@pytest.mark.parametrize("shape", [(1, 4), (2, 4), (3, 1), (7, 1), (63, 2)])
def test_few_rows_and_few_dimensions_are_enough(shape: tuple[int, int]) -> None:
    plane = embed(random(*shape), 15.0)
    assert plane.shape == (shape[0], 2)
    assert torch.isfinite(plane).all()


def test_equal_rows_do_not_break_it() -> None:
    assert torch.isfinite(embed(torch.ones(7, 3, dtype=torch.float64), 15.0)).all()
    pairs = embed(random(20, 5).repeat(2, 1), 5.0)
    assert torch.isfinite(pairs).all()
