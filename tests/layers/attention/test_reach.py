"""A reach shows the same pairs as the pattern asked for, through windows no longer than the text."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from porism.layers.attention.pattern import CAUSAL, FULL, Pattern
from porism.layers.attention.reach import reach

FAR = 2**31 - 1
lengths = st.integers(0, 9)
windows = st.one_of(st.integers(1, 12), st.sampled_from([1000, FAR]))
patterns = st.one_of(
    st.just(FULL),
    st.just(CAUSAL),
    st.builds(Pattern, st.just("sliding"), windows, st.one_of(st.just(0), windows), st.one_of(st.just(1), windows)),
    st.builds(Pattern, st.just("block"), windows, is_causal=st.booleans()),
)
offsets = st.one_of(st.integers(-20, 20), st.sampled_from([1000, -1000, FAR, -FAR]))


@settings(max_examples=1000, deadline=None, derandomize=True)
@given(pattern=patterns, T=lengths, S=lengths, offset=offsets)
def test_the_same_pairs_are_shown(pattern: Pattern, T: int, S: int, offset: int) -> None:
    near = reach(pattern, T, S, offset)
    shown = torch.zeros(T, S).bool()
    shown[near.first : near.end] = near.pattern.mask(near.end - near.first, S, near.offset)
    assert torch.equal(shown, pattern.mask(T, S, offset))
    if near.pattern.window_size is not None:
        assert 0 <= near.first <= near.end <= T
        # What a kernel counts with is no further than twice the text.
        sizes = near.offset, near.pattern.window_size, near.pattern.lookahead, near.pattern.dilation
        assert max(abs(size) for size in sizes) <= 2 * (T + S) + 1
        # Every query that is left looks at some key, but for those that a dilation steps over.
        assert near.pattern.dilation > 1 or shown[near.first : near.end].any(1).all()


def test_queries_below_the_first_key_are_left_out() -> None:
    assert reach(Pattern("block", window_size=3), 8, 8, -5) == (5, 8, Pattern("block", window_size=3), 0)
    assert reach(Pattern("block", window_size=3), 1, 1, -2)[:2] == (0, 0)
    assert reach(Pattern("sliding", window_size=2), 8, 8, -5) == (5, 8, Pattern("sliding", window_size=2), 0)


def test_a_window_that_is_short_enough_is_left_as_it_is() -> None:
    pattern = Pattern("sliding", window_size=3, lookahead=1, dilation=2)
    assert reach(pattern, 20, 20).pattern is pattern
