"""Trees say what sympy says, exact to the last digit, at any size."""

import random
from fractions import Fraction

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.costing.alphabet import B, D, T
from porism.errors import CostError
from porism.web.processes.formula_trees import tree_of
from porism.web.trees import NoValue, evaluate

LETTERS = {"B": B, "D": D, "T": T}


def formulas(draw: random.Random, depth: int) -> sympy.Expr:
    """A random formula with all that costs are made of."""
    if depth == 0:
        return draw.choice(
            [*LETTERS.values(), sympy.Integer(draw.randint(-5, 10**6)), sympy.Rational(draw.randint(1, 9), 7)]
        )
    one, other = (formulas(draw, depth - 1) for _ in range(2))
    made = [
        one + other,
        one * other,
        one ** draw.randint(0, 3),
        sympy.floor(one / 3),
        sympy.ceiling(one / 4),
        sympy.Mod(one, draw.randint(1, 9)),
        sympy.Max(one, other),
        sympy.Min(one, other),
        sympy.Piecewise((one, draw.randint(1, 50) < T), (other, True)),
        sympy.Piecewise((one, sympy.And(T > 3, sympy.Or(D <= 9, sympy.Ne(B, 2)))), (other, True)),
    ]
    return draw.choice(made)


@settings(max_examples=60)
@given(st.integers(0, 10**9))
def test_a_tree_has_the_value_of_its_formula(seed: int) -> None:
    draw = random.Random(seed)
    formula = formulas(draw, draw.randint(0, 3))
    tree = tree_of(formula)
    for _ in range(3):
        sizes = {letter: draw.choice([1, 2, 3, 31, 64, 10**9, 3 * 10**11 + 7]) for letter in LETTERS}
        expected = sympy.Rational(formula.subs({LETTERS[letter]: size for letter, size in sizes.items()}))
        found = evaluate(tree, sizes)
        assert Fraction(found) == Fraction(int(expected.p), int(expected.q)), (formula, sizes)


def test_numbers_that_a_browser_would_round_are_texts() -> None:
    assert tree_of(sympy.Integer(2**53)) == str(2**53)
    assert tree_of(sympy.Integer(2**53 - 1)) == 2**53 - 1
    assert evaluate(["+", str(2**53), 1], {}) == 2**53 + 1


def test_what_is_no_part_of_a_cost_has_no_tree() -> None:
    with pytest.raises(CostError, match="has no tree: log is no operation"):
        tree_of(sympy.log(T))


@pytest.mark.parametrize(
    ("tree", "why"),
    [
        ("T", "no size is given for T"),
        (["eval", "T"], "there is no operation 'eval'"),
        (["/", 1, ["+", 2, -2]], "a division by zero"),
        (["^", 2, 10**9], "an exponent of 1000000000"),
        (["if", ["<", 2, 1], 3], "no branch of the formula holds"),
        (["<", 1, 2], "a condition is no number"),
    ],
)
def test_a_tree_without_a_value_says_why(tree: object, why: str) -> None:
    with pytest.raises(NoValue, match=why):
        evaluate(tree, {})  # type: ignore[arg-type]
