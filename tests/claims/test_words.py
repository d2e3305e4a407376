"""What the claims on skip-gram are judged by is itself right, and so are the formulas that they tell."""

from itertools import combinations, product

import pytest
import torch

from porism.claims.checks.count import Maker, Matrix, Noted, Tally
from porism.claims.topics.words.estimates import DRAWINGS, Drawing, V, estimates, few_words, m, scalar_estimate
from porism.claims.topics.words.gradients import scalar_step
from porism.claims.topics.words.pair import random_pair
from porism.layers.skipgram.estimators import estimate
from porism.layers.skipgram.gradient import gradient


def noted(matrix: torch.Tensor) -> Matrix:
    tally = Tally()
    return [[Noted(number, tally) for number in row] for row in matrix.tolist()]


def values(matrix: Matrix) -> torch.Tensor:
    return torch.tensor([[number.value for number in row] for row in matrix], dtype=torch.float64)


@pytest.mark.parametrize(("V", "D"), [(2, 1), (7, 3)])
def test_the_step_that_is_counted_is_the_layers(V: int, D: int) -> None:
    pair = random_pair(V, D)
    dv, dU = scalar_step(noted(pair.v[None])[0], noted(pair.U), pair.j)
    exact = gradient(pair.v[None], pair.U.T, torch.tensor([pair.j]))
    assert dU is not None
    assert torch.allclose(values([dv]), exact.v, rtol=1e-12)
    assert torch.allclose(values(dU), exact.U.T, rtol=1e-12)


def test_the_estimate_that_is_counted_is_the_layers() -> None:
    pair = random_pair(7, 3)._replace(j=0)
    v, U, k = pair.v[None], pair.U.T.contiguous(), torch.arange(2)[None]
    found = scalar_estimate(Maker(Tally()), noted(v)[0], noted(pair.U), 2, knows_z=False)
    c = estimate("uniform", v, U, torch.tensor([0]), k, torch.full((7,), 1 / 7)).samples
    assert torch.allclose(values([found]), -c @ U[:2], rtol=1e-12)


@pytest.mark.parametrize("size", [1, 2, 4])
def test_the_variance_is_that_of_the_formula(size: int) -> None:
    pair = random_pair(V, 5)
    weights = pair.y - pair.yhat
    length = (pair.U @ weights).square().sum()
    one_draw = V * (weights**2 * pair.U.square().sum(0)).sum() - length
    put_back = Drawing(list(product(range(V), repeat=size)))
    kept = Drawing(list(combinations(range(V), size)))
    for drawing, formula in ((put_back, one_draw / size), (kept, one_draw / size * (V - size) / (V - 1))):
        found = estimates(drawing)
        assert float((found - found.mean(0)).square().sum(1).mean()) == pytest.approx(float(formula), rel=1e-12)


def test_a_drawing_knows_whether_it_may_be_empty() -> None:
    assert [drawing.may_be_empty for drawing in DRAWINGS.values()] == [False, False, False, True, False]
    assert len(DRAWINGS[f"{m} words, put back"].sets) == V**m


@pytest.mark.parametrize("samples", [1, 2])
def test_the_logarithm_of_a_sampled_sum_is_too_small_on_average(samples: int) -> None:
    v, U, q, _ = few_words()
    weights = (U @ v).exp() / q
    k = torch.cartesian_prod(*[torch.arange(3)] * samples).view(-1, samples)
    chance, sampled = q[k].prod(1), weights[k].mean(1)
    assert float(chance @ sampled) == pytest.approx(float((U @ v).exp().sum()))
    assert float(chance @ sampled.log()) < float((U @ v).logsumexp(0)) - 1e-3
