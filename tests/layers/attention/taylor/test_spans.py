"""The spans of a pass show every query the keys that its pattern shows, each once, in pieces that stay small."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from porism.errors import ShapeError
from porism.layers.attention.pattern import CAUSAL, FULL, Pattern
from porism.layers.attention.taylor.kernels.spans import Masks, check_pattern, pieces, spans

patterns = st.one_of(
    st.just(FULL), st.just(CAUSAL), st.integers(1, 30).map(lambda window: Pattern("block-causal", window_size=window))
)


@given(patterns, st.integers(0, 40), st.integers(0, 40), st.integers(-10, 40), st.integers(1, 16))
def test_spans_add_up_to_the_pattern(pattern: Pattern, T: int, S: int, offset: int, length: int) -> None:
    looked = torch.zeros(T, S)
    summed = queries = 0
    masks = Masks(pattern, offset, looked)
    for span in spans(pattern, T, S, offset, length):
        assert span.queries.start == queries
        assert span.fresh.start == summed
        queries, summed = span.queries.stop, span.fresh.stop
        assert 0 < span.queries.stop - span.queries.start <= length
        assert span.masked.stop - span.masked.start <= max(0, length - 1)
        looked[span.queries, :summed] += 1
        if span.has_masked:
            looked[span.queries, span.masked] += masks.of(span)
    assert queries == T
    assert torch.equal(looked, pattern.mask(T, S, offset).float())


def test_spans_that_look_alike_share_a_mask() -> None:
    masks = Masks(CAUSAL, 0, torch.zeros(1))
    first, second, last = (masks.of(span) for span in spans(CAUSAL, 8, 8, length=3))
    assert first is second
    assert last.shape == (2, 1)


@pytest.mark.parametrize(("span", "wanted"), [(slice(2, 9), [(2, 5), (5, 8), (8, 9)]), (slice(4, 4), [])], ids=str)
def test_pieces(span: slice, wanted: list[tuple[int, int]]) -> None:
    assert [(piece.start, piece.stop) for piece in pieces(span, 3)] == wanted


def test_windows_are_for_other_layers() -> None:
    for pattern in (Pattern("sliding", window_size=3), Pattern("block", window_size=3)):
        with pytest.raises(ShapeError, match="Use WindowAttention for windows, or HybridAttention for a window with"):
            check_pattern(pattern)
