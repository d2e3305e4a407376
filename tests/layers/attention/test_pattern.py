"""A pattern is one definition: its mask, its count and its picture agree, and what makes no sense is refused."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from porism.errors import ShapeError
from porism.layers.attention.pattern import CAUSAL, FULL, Pattern

LENGTHS = (1, 2, 7, 63, 64, 65)
windows = st.integers(1, 9)
patterns = st.one_of(
    st.just(FULL),
    st.just(CAUSAL),
    st.builds(Pattern, st.just("sliding"), windows, st.integers(0, 4), st.integers(1, 4)),
    st.builds(Pattern, st.sampled_from(["block", "block-causal"]), windows),
    st.builds(Pattern, st.just("block"), windows, is_causal=st.just(True)),
)


def looks(pattern: Pattern, i: int, j: int) -> bool:
    """The definition in words, one pair at a time."""
    window = pattern.window_size or 0
    match pattern.kind:
        case "full":
            return True
        case "causal":
            return j <= i
        case "sliding":
            behind = [i - step * pattern.dilation for step in range(-pattern.lookahead, window)]
            return j in behind
        case "block":
            return i // window == j // window and (j <= i or not pattern.is_causal)
        case "block-causal":
            return j // window <= i // window


@given(pattern=patterns, T=st.integers(1, 20), S=st.integers(0, 20), offset=st.integers(-12, 12))
def test_the_mask_is_the_definition(pattern: Pattern, T: int, S: int, offset: int) -> None:
    mask = pattern.mask(T, S, offset)
    assert mask.shape == (T, S)
    assert mask.tolist() == [[looks(pattern, i + offset, j) for j in range(S)] for i in range(T)]


@given(pattern=patterns, T=st.integers(1, 40), S=st.integers(0, 40))
def test_pairs_are_counted_without_a_mask(pattern: Pattern, T: int, S: int) -> None:
    assert pattern.num_pairs(T, S) == int(pattern.mask(T, S).sum())


@pytest.mark.parametrize("T", LENGTHS)
@pytest.mark.parametrize("W", [1, 2, 7, 64])
def test_pairs_have_the_textbook_s_formulas(T: int, W: int) -> None:
    whole, rest = divmod(T, W)
    width = min(T, W)
    assert FULL.num_pairs(T) == T**2
    assert CAUSAL.num_pairs(T) == T * (T + 1) // 2
    assert Pattern("sliding", window_size=W).num_pairs(T) == T * width - width * (width - 1) // 2
    assert Pattern("block", window_size=W).num_pairs(T) == whole * W**2 + rest**2
    inside = whole * W * (W + 1) // 2 + rest * (rest + 1) // 2
    assert Pattern("block", window_size=W, is_causal=True).num_pairs(T) == inside


def test_pairs_of_a_long_text_need_no_square() -> None:
    T, W = 131_072, 64
    assert CAUSAL.num_pairs(T) == T * (T + 1) // 2
    assert Pattern("sliding", window_size=W).num_pairs(T) == T * W - W * (W - 1) // 2


@given(pattern=patterns, T=st.integers(1, 20))
def test_looking_ahead_is_told(pattern: Pattern, T: int) -> None:
    ahead = bool(pattern.mask(T, 40).triu(1).any())
    # A block of one key, or the first rows of a mask, may show none of what a pattern would.
    assert not pattern.is_decodable or not ahead


@pytest.mark.parametrize(
    "pattern", [FULL, Pattern("sliding", window_size=1, lookahead=1), Pattern("block-causal", window_size=2)]
)
def test_who_looks_ahead_says_so(pattern: Pattern) -> None:
    assert not pattern.is_decodable
    assert pattern.mask(2, 2)[0, 1]


def test_a_window_counts_the_query_s_own_place() -> None:
    assert torch.equal(Pattern("sliding", window_size=1).mask(5, 5), torch.eye(5).bool())
    assert Pattern("sliding", window_size=9).mask(5, 5).equal(CAUSAL.mask(5, 5))


@pytest.mark.parametrize(
    ("pattern", "picture"),
    [
        (FULL, "■ ■ ■ ■\n■ ■ ■ ■\n■ ■ ■ ■"),
        (CAUSAL, "■ · · ·\n■ ■ · ·\n■ ■ ■ ·"),
        (Pattern("sliding", window_size=1, lookahead=1), "■ ■ · ·\n· ■ ■ ·\n· · ■ ■"),
        (Pattern("sliding", window_size=2, dilation=2), "■ · · ·\n· ■ · ·\n■ · ■ ·"),
        (Pattern("block", window_size=2), "■ ■ · ·\n■ ■ · ·\n· · ■ ■"),
        (Pattern("block", window_size=2, is_causal=True), "■ · · ·\n■ ■ · ·\n· · ■ ·"),
        (Pattern("block-causal", window_size=2), "■ ■ · ·\n■ ■ · ·\n■ ■ ■ ■"),
    ],
    ids=lambda value: value.kind if isinstance(value, Pattern) else "",
)
def test_a_pattern_can_be_drawn(pattern: Pattern, picture: str) -> None:
    assert pattern.draw(3, 4) == picture


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"kind": "slidign"},
            r"there is no pattern 'slidign'\. Choose from full, causal, sliding, block, block-causal",
        ),
        ({"kind": "sliding", "window_size": 0}, r"window_size is 0\. Give a whole number from 1 on"),
        ({"kind": "block"}, r"window_size is None\. Give a whole number from 1 on"),
        ({"kind": "causal", "window_size": 3}, r"a causal pattern has no window, got window_size 3\. Leave it out"),
        (
            {"kind": "block", "window_size": 3, "lookahead": 1},
            r"lookahead and dilation are for a sliding pattern, and this one is",
        ),
        ({"kind": "sliding", "window_size": 3, "lookahead": -1}, r"lookahead is -1\. Give a whole number from 0 on"),
        ({"kind": "sliding", "window_size": 3, "dilation": 0}, r"dilation is 0\. Give a whole number from 1 on"),
        ({"kind": "block", "window_size": 3, "is_causal": "no"}, r"is_causal is 'no'\. Give True or False\."),
        ({"kind": "causal", "is_causal": True}, r"is_causal of a pattern is for blocks, and this one is causal"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        Pattern(**options)


NO_SIZES = [2.5, 3.0, float("nan"), float("inf"), "3", True, 10**30, -(10**30), torch.tensor(3), np.float64(3), 3j]


@pytest.mark.parametrize("value", NO_SIZES, ids=repr)
@pytest.mark.parametrize("name", ["window_size", "lookahead", "dilation"])
def test_sizes_are_whole_numbers(name: str, value: Any) -> None:
    options: dict[str, Any] = {"kind": "sliding", "window_size": 3} | {name: value}
    with pytest.raises(ShapeError, match=rf"^attention: {name} is .*\. Give a whole number from [01] (on|to \d+)\.$"):
        Pattern(**options)


def test_whole_numbers_of_numpy_become_python_s() -> None:
    pattern = Pattern("sliding", np.int64(3), np.int32(1), np.uint8(2))  # type: ignore[arg-type]
    assert pattern == Pattern("sliding", 3, 1, 2)
    assert hash(pattern) == hash(Pattern("sliding", 3, 1, 2))
    assert {type(size) for size in (pattern.window_size, pattern.lookahead, pattern.dilation)} == {int}


@pytest.mark.parametrize("length", [-1, *NO_SIZES], ids=repr)
@pytest.mark.parametrize("method", ["num_pairs", "draw"])
def test_lengths_are_whole_numbers(method: str, length: Any) -> None:
    for name, lengths in (("T", (length,)), ("S", (3, length))):
        with pytest.raises(ShapeError, match=rf"^attention: {name} is .*\. Give a whole number from 0 (on|to \d+)\.$"):
            getattr(Pattern("causal"), method)(*lengths)


def test_no_queries_make_no_pairs() -> None:
    assert (Pattern("causal").num_pairs(0), Pattern("causal").draw(0)) == (0, "")
