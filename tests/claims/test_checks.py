"""What judges are made of."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from porism.claims.checks.compare import answered, compared, counted_equal, slope, tried
from porism.claims.checks.count import product, softmax, sum_of, tallied

SIZE = st.integers(1, 7)


def test_the_worst_case_is_told() -> None:
    found = compared([("here", 2.0, 2.0), ("there", torch.tensor([1.0, 4.0]), torch.tensor([1.0, 5.0]))])
    assert not found.agrees
    assert found.measured == 0.25
    assert found.evidence == "there: 4 is true at (1), 5 stated"


def test_equal_numbers_agree() -> None:
    assert compared([("here", 1 / 3, 0.1 / 0.3)]).agrees
    assert compared([("here", [1, 2], torch.tensor([1.0, 2.0]))]).evidence == "equal in 1 case"


@pytest.mark.parametrize("given", [torch.ones(3), float("nan"), tried(lambda: torch.ones(2) @ torch.ones(3))])
def test_another_shape_and_no_number_are_infinitely_far(given: object) -> None:
    assert compared([("here", torch.ones(2) if isinstance(given, torch.Tensor) else 1.0, given)]).measured == torch.inf


def test_nothing_compared_agrees_with_nothing() -> None:
    assert not compared([]).agrees
    assert not counted_equal([]).agrees


def test_counts_must_be_equal() -> None:
    assert counted_equal([("D=3", 9, 9)]).agrees
    found = counted_equal([("D=3", 9, 9), ("D=4", 16, 17), ("D=5", 25, 27)])
    assert (found.measured, found.evidence) == (2, "D=4: 16 counted, 17 stated")


@given(m=SIZE, n=SIZE, p=SIZE)
def test_a_product_takes_the_operations_of_the_schoolbook(m: int, n: int, p: int) -> None:
    tally = tallied(lambda made: product(made.matrix(m, n), made.matrix(n, p)))
    assert (tally.mul, tally.add) == (m * n * p, m * p * (n - 1))


def test_noted_numbers_are_numbers() -> None:
    """What is counted is what is computed."""

    def program(made: object) -> None:
        a, b = made.matrix(3, 4), made.matrix(4, 2)  # type: ignore[attr-defined]
        plain = [torch.tensor([[x.value for x in row] for row in matrix]) for matrix in (a, b)]
        found = torch.tensor([[x.value for x in row] for row in product(a, b)])
        assert torch.allclose(found, plain[0] @ plain[1])
        weights = torch.tensor([x.value for x in softmax(a[0])])
        assert torch.allclose(weights, plain[0][0].softmax(0))
        assert sum_of(a[0]).value == pytest.approx(float(plain[0][0].sum()))

    tally = tallied(program)
    assert (tally.exp, tally.div, tally.mul) == (4, 4, 24)


def test_an_exponent_far_out() -> None:
    assert slope(lambda n: 5 * n**3 + n**2, [10, 10**6, 10**7]) == pytest.approx(3)


def test_answers_of_yes_and_no() -> None:
    assert not answered([]).agrees
    assert answered([("Is 1 odd?", True, True)]).agrees
    found = answered([("Is 1 odd?", True, True), ("Is 2 odd?", False, True)])
    assert (found.measured, found.evidence) == (1, "Is 2 odd? No is true, yes stated; wrong in 1 of 2 cases")
