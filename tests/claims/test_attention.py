"""What the judges of attention count is what the layer computes, and their formulas hold beyond the runs."""

from typing import Any

import pytest
import torch
from sympy import sympify
from torch import Tensor

from porism.claims.checks.count import Maker, Matrix, Noted, Tally, product
from porism.claims.ledger import all_claims
from porism.claims.topics.attention.heads import block_by_block, side_by_side
from porism.claims.topics.attention.orders import ONE_HEAD, grows_like
from porism.claims.topics.attention.products import strassen
from porism.claims.topics.attention.scalar import PARTS, Part, Parts, counts, multi_head, operations
from porism.layers.attention.pattern import CAUSAL, FULL, Pattern
from porism.layers.attention.softmax import naive

PATTERNS = (FULL, CAUSAL, Pattern("sliding", 3), Pattern("block", 2))
SIZES = ((1, 1, 1, 1), (7, 2, 1, 2), (2, 3, 5, 1), (5, 6, 2, 3))


def noted(x: Tensor, tally: Tally) -> Matrix:
    return [[Noted(number, tally) for number in row] for row in x.tolist()]


def numbers(a: Matrix) -> Tensor:
    return torch.tensor([[number.value for number in row] for row in a], dtype=torch.float64)


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: pattern.kind)
def test_the_scalar_run_computes_what_the_layer_does(pattern: Pattern) -> None:
    T, A, H = 7, 2, 3
    D = A * H
    draw = torch.Generator().manual_seed(0)
    x, W, W_O = (torch.randn(*size, generator=draw, dtype=torch.float64) for size in ((T, D), (3 * D, D), (D, D)))
    zero = torch.zeros(3 * D, dtype=torch.float64)
    true = naive.multi_head(
        x[None], W, zero, W_O, zero[:D], A, lambda q, k, v: naive.softmax_attention(q, k, v, pattern.mask(T, T))
    )
    parts = Parts(Tally())
    rows = [part.chunk(A) for part in W.chunk(3)]
    q, k, v = ([noted(head.T, parts.tally) for head in part] for part in rows)
    heads = list(zip(q, k, v, strict=True))
    found = multi_head(noted(x, parts.tally), heads, noted(W_O.T, parts.tally), parts, pattern)
    torch.testing.assert_close(numbers(found), true[0], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: pattern.kind)
@pytest.mark.parametrize(("T", "D", "A", "H"), SIZES)
def test_every_part_takes_what_the_table_says(T: int, D: int, A: int, H: int, pattern: Pattern) -> None:
    P = pattern.num_pairs(T)
    assert counts(T, D, A, H, pattern) == {
        "projections": Tally(mul=3 * T * D * A * H, add=3 * T * (D - 1) * A * H),
        "scores": Tally(mul=A * P * H, add=A * P * (H - 1)),
        "scaling": Tally(mul=A * P),
        "softmax": Tally(exp=A * P, add=A * (P - T), div=A * P),
        "values": Tally(mul=A * P * H, add=A * (P - T) * H),
        "concatenation": Tally(),
        "output": Tally(mul=T * A * H * D, add=T * (A * H - 1) * D),
    }


@pytest.mark.parametrize("part", PARTS)
def test_formulas_hold_beyond_the_sizes_that_were_run(part: Part) -> None:
    T, D, A = 11, 15, 5
    tally = counts(T, D, A, D // A)[part]
    assert operations([part])(T, D, A) == sum(vars(tally).values())
    assert operations([part], "each")(T, D, A) == sum(vars(counts(T, D, 1, D // A)[part]).values())
    assert operations([part], "single")(T, D, A) == sum(vars(counts(T, D, 1, D)[part]).values())


@pytest.mark.parametrize(
    ("claim", "parts", "kinds"),
    [
        ("000-08", [("projections",), ("scores",), ("softmax",)], ["mul", "mul", "exp"]),
        ("001-40", [("values",)] * 2, ["mul", "add"]),
        ("001-41", [("softmax",)] * 2, ["exp", "add"]),
        ("001-45", [("output",)] * 2, ["mul", "add"]),
        ("001-47", [("softmax",)] * 2, ["exp", "add"]),
        ("002-02", [("scores",)] * 2, ["mul", "add"]),
        ("003-08", [("scores", "scaling", "softmax", "values")] * 2, ["mul", "add"]),
    ],
)
def test_formulas_on_the_page_are_the_counts(claim: str, parts: list[tuple[str, ...]], kinds: list[str]) -> None:
    T, D = 7, 6
    A = 3 if claim == "001-47" else 1
    tallies = counts(T, D, A, D // A)
    shown = [int(sympify(formula).subs({"T": T, "D": D, "A": A})) for formula in all_claims()[claim].formulas]
    counted = [sum(getattr(tallies[part], kind) for part in some) for some, kind in zip(parts, kinds, strict=True)]
    assert shown == counted


def test_seven_products_make_the_same_matrix() -> None:
    made = Maker(Tally())
    a, b = made.matrix(8, 8), made.matrix(8, 8)
    torch.testing.assert_close(numbers(strassen(a, b)), numbers(product(a, b)), rtol=1e-12, atol=1e-12)


def test_heads_combined_in_blocks_are_heads_side_by_side() -> None:
    made = Maker(Tally())
    answers, W_O = [made.matrix(5, 3) for _ in range(4)], made.matrix(12, 7)
    torch.testing.assert_close(
        numbers(block_by_block(answers, W_O)), numbers(side_by_side(answers, W_O)), rtol=1e-12, atol=1e-12
    )


def test_an_order_has_no_constants_and_no_lower_powers() -> None:
    judge = grows_like({"all": lambda T, D, A: 3 * T * T * D + 5 * T}, ONE_HEAD)
    assert judge(lambda T, D, A: T * T * D).agrees
    for other in (lambda T, D, A: T * T, lambda T, D, A: T * D, lambda T, D, A: T * T * D + T * D * D):
        assert not judge(other).agrees


def test_an_order_is_told_for_each_part() -> None:
    count: Any = {"rows": lambda T, D, A: T, "columns": lambda T, D, A: D}
    judge = grows_like(count, ONE_HEAD)
    assert judge(lambda T, D, A: (T, D)).agrees
    assert judge(lambda T, D, A: (T, T)).evidence.startswith("columns, as ")
