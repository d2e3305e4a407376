"""What the judges of the series stand on: programs on single numbers, formulas, and polynomials in symbols."""

from math import comb, floor

import pytest
import torch
from sympy import Symbol, sympify

from porism.claims.checks.count import Maker, Matrix, Tally, tallied
from porism.claims.ledger import all_claims
from porism.claims.topics.series import answers, counting, features, operations, scalar, truncation
from porism.costing.alphabet import D, K, M, T
from porism.layers.attention.taylor import naive

SIZES = [(1, 1, 1), (2, 1, 3), (7, 2, 2), (3, 3, 4)]


def values(rows: Matrix) -> torch.Tensor:
    return torch.tensor([[number.value for number in row] for row in rows], dtype=torch.float64)


@pytest.mark.parametrize("attention", [scalar.attention, scalar.attention_from_the_left])
@pytest.mark.parametrize(("length", "width", "order"), SIZES)
def test_a_run_on_single_numbers_answers_as_the_layer_does(
    length: int, width: int, order: int, attention: operations.Attention
) -> None:
    made = Maker(Tally())
    q, k, v = (made.matrix(length, width) for _ in range(3))
    expected = naive.taylor_attention(*(values(x)[None, None] for x in (q, k, v)), order=order, scale=1.0)[0, 0]
    torch.testing.assert_close(values(attention(q, k, v, order)), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("_", "width", "order"), SIZES)
def test_both_ways_to_make_features_give_the_same_ones(_: int, width: int, order: int) -> None:
    x = Maker(Tally()).vector(width)
    grown, anew = (sorted(f.value for f in make(x, order)) for make in (scalar.features, scalar.features_anew))
    assert len(grown) == comb(width + order, order)
    torch.testing.assert_close(torch.tensor(grown), torch.tensor(anew), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("length", "width", "order"), SIZES)
def test_the_formulas_on_the_page_are_what_was_counted(length: int, width: int, order: int) -> None:
    tally = operations.in_all(length, width, order)
    at = {T: length, D: width, K: order, M: comb(width + order, order)}
    work = operations.IN_ALL
    assert [count.subs(at) for count in (work.mul, work.add, work.div)] == [tally.mul, tally.add, tally.div]
    features_of_one = tallied(lambda made: scalar.features(made.vector(width), order)).mul
    assert operations.OF_FEATURES.subs(at) == features_of_one


@pytest.mark.parametrize(("width", "order"), [(1, 2), (16, 2), (64, 2), (16, 3), (63, 4)])
def test_from_the_break_even_on_the_series_multiplies_less_than_softmax(width: int, order: int) -> None:
    at = {D: width, K: order, M: comb(width + order, order)}
    first = floor(operations.BREAK_EVEN.subs(at)) + 1
    more = [operations.IN_ALL.mul.subs(at | {T: n}) - 2 * n**2 * width for n in (first - 1, first)]
    assert more[0] >= 0 > more[1]


def test_differences_find_the_degree_of_a_polynomial() -> None:
    assert [operations.exponent(count) for count in (lambda n: 7, lambda n: 2 * n - 1, lambda n: n**4 + n)] == [0, 1, 4]
    with pytest.raises(AssertionError, match="no polynomial"):
        operations.exponent(lambda n: 2**n)


@pytest.mark.parametrize("width", features.WIDTHS)
def test_the_polynomials_are_the_weights_of_the_layer(width: int) -> None:
    draw = torch.Generator().manual_seed(width)
    q, k = torch.randn(2, 1, width, generator=draw, dtype=torch.float64)
    at = [row[0].tolist() for row in (q, k)]
    kernels = {None: features.of_order(2), "diagonal": features.diagonal}
    for map, kernel in kernels.items():
        assert float(kernel(*at)) == pytest.approx(float(naive.weights(q, k, feature_map=map)), rel=1e-12)


@pytest.mark.parametrize("width", [1, 2, 3, 7])
def test_the_least_weight_of_the_diagonal_map(width: int) -> None:
    q = torch.ones(1, width, dtype=torch.float64)
    assert float(naive.weights(q, -q, feature_map="diagonal")) == 1 - width / 2
    assert truncation.can_vanish("diagonal", width) == (1 - width / 2 <= 0)


def test_the_formula_of_the_gaussian_error_on_the_page_is_the_one_that_is_judged() -> None:
    claim = all_claims()["003-14"]
    r = Symbol("r")
    finding = truncation.error_of_gaussian_logits(
        lambda deviation: float(sympify(claim.formulas[0]).subs(r, deviation)) ** 0.5
    )
    assert finding.agrees, finding


def test_the_rank_comes_from_the_kernel_and_not_from_the_points() -> None:
    assert max(comb(width + order, order) for width, order in (*counting.SIZES, (7, 2))) < counting.POINTS


def test_with_as_many_keys_as_features_the_matrix_has_an_inverse() -> None:
    """So that an inverse in the place of the transpose is refused for what it gives, and not for its shape alone."""
    square = answers.LENGTHS["as many tokens as features"].phi_k
    assert square.shape == (10, 10)
    assert torch.linalg.matrix_rank(square) == 10
