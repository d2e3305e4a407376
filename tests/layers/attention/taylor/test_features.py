"""Feature maps: as many features as they should have, and products that give the series exactly."""

import math
from itertools import combinations_with_replacement, product
from math import comb, factorial, prod

import pytest
import torch
from torch import Tensor

from porism.errors import ShapeError
from porism.layers.attention.taylor.feature_maps import MAPS, check_order, choose_map, exponential, feature_map
from porism.layers.attention.taylor.naive import weights
from porism.testing.gradients import relative_error

EXACT = 1e-12
# Eight megabytes for each of two tokens.
MOST_FEATURES = 10**6
WIDTHS = (1, 2, 3, 7, 16, 63, 64)
SERIES = [("exact", D, K) for D, K in product(WIDTHS, range(1, 7)) if comb(D + K, K) <= MOST_FEATURES]
SERIES += [("rolled", D, 2) for D in WIDTHS]
SERIES += [("ordered", D, K) for D, K in product(WIDTHS, range(1, 7)) if D**K <= MOST_FEATURES / 2]
MAPPED = [("exact", 3, 1), ("exact", 5, 2), ("exact", 4, 5), ("rolled", 5, 2), ("rolled", 6, 2), ("ordered", 4, 3)]
MAPPED += [("rolled", 1, 2), ("rolled", 2, 2), ("diagonal", 5, 2)]


@pytest.fixture(autouse=True)
def _fixed_seed() -> None:
    torch.manual_seed(0)


def columns(D: int, n: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(2, D, n, dtype=dtype)


@pytest.mark.parametrize(("name", "D", "K"), SERIES)
def test_products_of_features_are_the_series(name: str, D: int, K: int) -> None:
    q, k = columns(D, 1) * D**-0.5, columns(D, 1)
    phi = feature_map(name, K, q)
    found = phi(q).mT @ phi(k)
    # Terms of a series cancel: what is exact is exact in the sum of their sizes.
    largest = weights(q.mT.abs(), k.mT.abs(), K).max()
    assert (found - weights(q.mT, k.mT, K)).abs().max() <= EXACT * largest
    assert relative_error(phi.weights(q, k), weights(q.mT, k.mT, K)) <= EXACT


@pytest.mark.parametrize(("D", "K"), [(1, 6), (2, 5), (3, 4), (5, 3), (7, 2), (16, 2), (4, 1)])
def test_the_exact_map_has_every_monomial_once(D: int, K: int) -> None:
    x = columns(D, 1)
    phi = feature_map("exact", K, x)(x)
    assert phi.shape == (2, comb(D + K, K), 1)
    found = [sum(1 for _ in combinations_with_replacement(range(D), degree)) for degree in range(K + 1)]
    assert sum(found) == comb(D + K, K)
    wanted = []
    for degree in range(K + 1):
        for variables in combinations_with_replacement(range(D), degree):
            alpha_factorial = prod(factorial(variables.count(i)) for i in range(D))
            wanted.append(x[:, list(variables), 0].prod(1) / alpha_factorial**0.5)
    assert relative_error(phi[..., 0].sort(1).values, torch.stack(wanted, 1).sort(1).values) <= EXACT


@pytest.mark.parametrize(("D", "pairs"), [(16, 144), (64, 2112), (1, 1), (2, 4), (7, 28), (63, 63 * 32)])
def test_the_rolled_map_has_whole_turns(D: int, pairs: int) -> None:
    x = columns(D, 3)
    phi = feature_map("rolled", 2, x)
    assert phi.count == phi(x).shape[-2] == 1 + D + pairs
    turned = torch.cat([x * x.roll(-turn, dims=-2) for turn in range(D // 2 + 1)], dim=-2)
    for turn in {0, D / 2} & set(range(D // 2 + 1)):
        turned[:, int(turn) * D : int(turn + 1) * D] *= 0.5**0.5
    assert relative_error(phi(x)[:, 1 + D :], turned) <= EXACT
    # An odd width has no turn that is its own opposite but the first: as few features as there can be.
    assert (phi.count == comb(D + 2, 2)) == bool(D % 2)


def test_the_ordered_map_has_every_order_of_every_monomial() -> None:
    x = columns(3, 1)
    phi = feature_map("ordered", 3, x)
    assert phi(x).shape == (2, 1 + 3 + 9 + 27, 1)
    assert relative_error(phi(x)[:, 13:, 0], torch.einsum("bin,bjn,bkn->bijk", x, x, x).flatten(1) / 6**0.5) <= EXACT


def test_the_diagonal_map_is_no_series() -> None:
    ones = torch.ones(2, 1)
    phi = feature_map("diagonal", 2, ones)
    assert phi.count == 5
    assert (phi(ones) * phi(ones)).sum().item() == pytest.approx(4)
    assert exponential(ones.mT @ ones, 2).item() == 5
    q = torch.ones(7, 1)
    phi = feature_map("diagonal", 2, q)
    assert (phi(q) * phi(-q)).sum() < 0  # 1 - 7 + 7/2
    assert relative_error(phi.weights(q, -q), phi(q).mT @ phi(-q)) <= 1e-6
    assert "NOT an approximation" in str(type(phi).__doc__)


@pytest.mark.parametrize(("name", "D", "K"), MAPPED)
def test_pull_back_is_the_transposed_derivative(name: str, D: int, K: int) -> None:
    x, direction = columns(D, 3), columns(D, 3)
    phi = feature_map(name, K, x)
    dphi = columns(phi.count, 3)
    # A step along the imaginary axis: the derivative without a difference, and so without cancellation.
    step = 1e-30
    slope = phi(torch.complex(x, step * direction)).imag / step
    before = dphi.clone()
    pulled = phi.pull_back(x, dphi)
    assert torch.equal(dphi, before)
    assert relative_error((pulled * direction).sum(-2), (dphi * slope).sum(-2)) <= EXACT


@pytest.mark.parametrize(("name", "D", "K"), MAPPED)
def test_gradient_of_the_weights(name: str, D: int, K: int) -> None:
    q, k, dw = columns(D, 3).requires_grad_(), columns(D, 4).requires_grad_(), torch.randn(2, 3, 4).double()
    wanted = torch.autograd.grad((weights(q.mT, k.mT, K, name) * dw).sum(), (q, k))
    with torch.no_grad():
        w, *found = feature_map(name, K, q).weights_gradient(q, k, dw)
    assert relative_error(w, weights(q.mT, k.mT, K, name)) <= EXACT
    assert max(relative_error(*pair) for pair in zip(found, wanted, strict=True)) <= EXACT


@pytest.mark.parametrize("K", range(1, 7))
def test_the_series_is_that_of_exp(K: int) -> None:
    s = torch.linspace(-3, 3, 63, dtype=torch.float64)
    wanted = sum(s**power / factorial(power) for power in range(K + 1))
    assert isinstance(wanted, Tensor)
    assert relative_error(exponential(s, K), wanted) <= EXACT
    # Even orders stay positive everywhere, odd ones do not.
    assert (exponential(torch.linspace(-20, 0, 1001), K).min() > 0) == (K % 2 == 0)


def test_the_lowest_weights_of_even_orders() -> None:
    s = torch.linspace(-5, 0, 100_001, dtype=torch.float64)
    assert exponential(s, 2).min().item() == pytest.approx(0.5, abs=1e-8)
    assert exponential(s, 4).min().item() == pytest.approx(0.27, abs=1e-3)


def test_the_fastest_map_is_chosen() -> None:
    assert [choose_map(None, order) for order in (2, 4, 6)] == ["rolled", "exact", "exact"]
    assert [choose_map(name, 2) for name in MAPS] == list(MAPS) == ["exact", "rolled", "ordered", "diagonal"]


@pytest.mark.parametrize("name", ["rolled", "diagonal"])
def test_second_order_maps_are_for_order_two(name: str) -> None:
    with pytest.raises(ShapeError, match=rf"the {name} map is of order 2, and order is 4\. Choose exact or ordered\."):
        choose_map(name, 4)


def test_odd_orders_have_to_be_asked_for() -> None:
    with pytest.raises(
        ShapeError, match=r"order 3 is odd, .* weights can turn negative .* Choose 2 or 4, or set allow"
    ):
        check_order(3, allow_odd=False)
    with pytest.raises(ShapeError, match=r"order 1 is odd, .* Choose 2, or set allow_odd=True"):
        check_order(1, allow_odd=False)
    check_order(3, allow_odd=True)
    for order in (0, -2, 2.0, True, math.nan, "2", 10**30, torch.tensor(2)):
        with pytest.raises(ShapeError, match=r"order is .*\. Give a whole number from 1 to 170\."):
            check_order(order, allow_odd=True)  # type: ignore[arg-type]
