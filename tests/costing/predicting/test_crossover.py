"""From which size on one costs more than another."""

from itertools import pairwise
from typing import Any

import pytest
from sympy import Piecewise, floor
from torch import nn

from porism.costing.alphabet import B, D, T
from porism.costing.cost import Cost
from porism.costing.derive import derive
from porism.costing.predicting.crossover import changes, compared, largest
from porism.errors import CostError, RecipeError


@pytest.mark.sweep(4)
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (T**2, 10 * T),
        (10 * T, T**2),
        (T, T),
        (T + 1, T),
        (2 * T, 5 + 0 * T),
        (T**3, 25 * T**2 - 104 * T + 80),  # three times over: at 1, 4 and 20
        (T**2 * (1 + floor(T / 64)), 100 * T),
        (Piecewise((T, T <= 100), (T**2, True)), 5000 + 0 * T),
    ],
)
def test_where_the_order_changes(ours: Any, theirs: Any) -> None:
    found = changes(ours, theirs, "T")
    assert all(before != after for (_, before), (_, after) in pairwise(found))
    for size in [*range(1, 130), 1023, 1024, 1025, 5000]:
        difference = int((ours - theirs).subs({T: size}))
        sign = next(sign for start, sign in reversed(found) if start <= size)
        assert sign == (difference > 0) - (difference < 0), size


def test_a_change_far_out_is_found_in_a_formula_with_floors() -> None:
    assert changes(T * floor(T / 8), 10**9 * T, "T")[-1] == (8 * 10**9 + 8, 1)


def test_letters_on_both_sides_need_no_number() -> None:
    assert changes(4 * B * T**2 * 64, 2 * B * T * 64**2, "T")[-1] == (33, 1)
    with pytest.raises(RecipeError, match="the comparison needs numbers for D too. Give them by name."):
        changes(4 * B * T**2 * D, 2 * B * T * D**2, "T")


def test_a_budget_that_nothing_reaches() -> None:
    with pytest.raises(CostError, match="the budget is reached at no size"):
        largest(lambda size: True, "")
    assert largest(lambda size: size <= 77, "") == 77


@pytest.fixture(scope="module")
def attention() -> Cost:
    return derive(nn.functional.scaled_dot_product_attention, *("B T D",) * 3)


@pytest.fixture(scope="module")
def product() -> Cost:
    return derive(lambda D: nn.Linear(D, D, bias=False), "B T D")


def test_a_comparison_in_words(attention: Cost, product: Cost) -> None:
    found = attention.crossover(product, "T", D=64)
    assert found.size == found.crossing == 33
    assert found.size is not None
    assert found.size.label == "by formula"
    assert str(found) == (
        "scaled_dot_product_attention costs less than Linear up to T=31, as much as Linear at T=32, "
        f"more than Linear from T=33 on (forward FLOPs, formulas confirmed to T={attention.valid['T'][1]})."
    )
    same = product.crossover(product, "T", D=64)
    assert same.size is None
    assert str(same).startswith("Linear costs as much as Linear at every T (forward FLOPs, formulas confirmed to T=")
    titles = [one.title for one in attention.crossovers(product, "T", D=64)]
    assert titles == ["forward FLOPs", "backward FLOPs", "bytes kept for the backward pass"]


def test_the_picture_has_the_crossing_where_it_is() -> None:
    picture = compared(("square", "line"), (T**2, 64 * T), "T", "work").draw(width=41, height=9)
    rows = [line[10:] for line in picture.splitlines()[:9]]
    # The square is below the line at the left end and above it at the right end.
    assert [row[0] for row in rows].index("○") < [row[0] for row in rows].index("●")
    assert [row[40] for row in rows].index("●") < [row[40] for row in rows].index("○")
    assert any("◉" in row for row in rows)
    assert "● square   ○ line   work" in picture


@pytest.mark.parametrize(
    ("letters", "along", "message"),
    [
        ({"Q": 1}, "T", "neither scaled_dot_product_attention nor Linear has a letter Q to set. Letters: B, T, D."),
        ({"D": 0}, "T", "D=0 is no size"),
        ({"D": 64}, "W", "neither scaled_dot_product_attention nor Linear depends on W"),
        ({}, "T", "needs numbers for D too"),
    ],
)
def test_a_mistake_is_one_clear_line(
    attention: Cost, product: Cost, letters: dict[str, int], along: str, message: str
) -> None:
    with pytest.raises(RecipeError, match=message):
        attention.crossover(product, along, kind="flops", **letters)


@pytest.mark.parametrize("along", ["Q", "", 3, None, [], "b"], ids=repr)
def test_a_letter_of_neither_is_refused_one_kind_at_a_time_and_all_at_once(
    attention: Cost, product: Cost, along: Any
) -> None:
    told = r" depends on ('|Q|3|None|\[\]|b).*\. Name a letter to go along from B, T, D\.$"
    with pytest.raises(RecipeError, match=told):
        attention.crossover(product, along, D=64)
    with pytest.raises(RecipeError, match=told):
        attention.crossovers(product, along, D=64)
