"""The pairs and the reach that the claims on windows are decided by."""

import pytest

from porism.claims.topics.attention.scalar import counts
from porism.claims.topics.windows import tokens_seen
from porism.layers.attention.pattern import Pattern


@pytest.mark.parametrize("T", [1, 2, 7, 63])
@pytest.mark.parametrize("W", [1, 2, 5, 64])
def test_pairs_are_those_that_the_page_says(T: int, W: int) -> None:
    near = min(W, T)
    blocks, rest = divmod(T, W)
    assert Pattern("sliding", W).num_pairs(T) == T * near - near * (near - 1) // 2
    assert Pattern("block", W).num_pairs(T) == blocks * W**2 + rest**2


@pytest.mark.parametrize("pattern", [Pattern("sliding", 3), Pattern("block", 3)], ids=lambda pattern: pattern.kind)
def test_a_pair_that_is_looked_at_is_one_exponential(pattern: Pattern) -> None:
    assert counts(7, 2, 2, 1, pattern)["softmax"].exp == 2 * pattern.num_pairs(7)


def test_nobody_sees_further_than_the_text() -> None:
    assert tokens_seen("sliding", window=4, depth=3, T=7) == 7
    assert tokens_seen("block", window=4, depth=3, T=7) == 3
