"""What the judges of attention count is what the layer computes, and their formulas hold beyond the runs."""

from typing import Any

import pytest
import torch
from torch import Tensor

from porism.claims.checks.count import Maker, Matrix, Noted, Tally, product
from porism.claims.ledger import all_claims
from porism.claims.topics.attention.heads import block_by_block, side_by_side
from porism.claims.topics.attention.orders import LOOSE, ONE_HEAD, Ways, grows_like
from porism.claims.topics.attention.products import strassen
from porism.claims.topics.attention.scalar import MULTI, PARTS, Part, Parts, counts, multi_head, operations
from porism.claims.topics.attention.shares import around_and_core
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


@pytest.mark.parametrize(("out_proj", "at"), [(False, 1.5), (True, 2.0)])
def test_the_core_catches_up_with_the_projections_where_the_ledger_says(out_proj: bool, at: float) -> None:
    """The note of 000-11."""
    for D in (2, 16):
        before, then = (around_and_core(int(at * D) + more, D, out_proj) for more in (-1, 0))
        assert before[0] > before[1]
        assert then[0] <= then[1]


def test_strassen_takes_fewer_operations_from_a_side_of_1024_on() -> None:
    """The note of 001-52."""
    strassens, schoolbooks = (all_claims()["001-52"].stated, all_claims()["001-52"].rival)  # type: ignore[attr-defined]
    assert next(k for k in range(1, 40) if strassens(k) < schoolbooks(k)) == 10


def test_more_heads_than_width_bring_the_softmax_forward() -> None:
    """The note of 001-49: its order no longer bounds the work then, and the one with T^2 A and T D A does."""
    ways: Ways = {"A grows, D does not": (0, 0, 1), "T and A grow, D does not": (1, 0, 1)}
    judge = grows_like({"all heads": operations(MULTI)}, ways)
    assert not judge(lambda T, D, A: T * T * D + T * D * D).agrees
    assert judge(lambda T, D, A: T * T * A + T * D * A).agrees


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
    for other in (lambda T, D, A: T * T, lambda T, D, A: T * D):
        assert not judge(other).agrees
    # A true upper bound, which is told apart.
    assert judge(lambda T, D, A: T * T * D + T * D * D).evidence.startswith(LOOSE)
    assert not judge(lambda T, D, A: -T * T * D).agrees


def test_an_order_is_told_for_each_part() -> None:
    count: Any = {"rows": lambda T, D, A: T, "columns": lambda T, D, A: D}
    judge = grows_like(count, ONE_HEAD)
    assert judge(lambda T, D, A: (T, D)).agrees
    assert judge(lambda T, D, A: (T, T)).evidence.startswith("columns, as ")
