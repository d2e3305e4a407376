"""The symbols of the published experiment."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from porism.errors import DataError
from porism.tasks.speech.data.symbols import (
    BLANK,
    CHARACTERS,
    LONGEST,
    PAD,
    START,
    STOP,
    SYMBOLS,
    UNKNOWN,
    check_characters,
    decode,
    encode,
    unknown_characters,
    written,
)


def test_there_are_35_symbols() -> None:
    assert len(SYMBOLS) == len(set(SYMBOLS)) == 35
    assert SYMBOLS[BLANK:9] == (" ", ",", ".", "?", "-")
    assert "".join(SYMBOLS[9:]) == "abcdefghijklmnopqrstuvwxyz"
    assert (START, STOP, PAD, UNKNOWN) == (0, 1, 2, 3)


def test_a_text_stands_between_start_and_stop() -> None:
    assert encode("Az?") == [START, 9, 34, 7, STOP]
    assert encode("") == [START, STOP]


def test_a_text_is_cut() -> None:
    assert LONGEST == 97
    assert len(encode("x" * 200)) == 99
    assert encode("abc", longest=2) == encode("ab")
    assert len(encode("x" * 200, longest=None)) == 202


@given(st.text(alphabet="".join(CHARACTERS), max_size=97))
def test_there_and_back(text: str) -> None:
    assert decode(encode(text)) == text


@given(st.text())
def test_any_text_can_be_encoded(text: str) -> None:
    numbers = encode(text, longest=None)
    assert all(0 <= number < 35 for number in numbers)
    assert len(numbers) == len(text.lower()) + 2


def test_decoding_ends_at_stop_and_passes_over_padding() -> None:
    assert decode([START, 9, PAD, 10, STOP, 11]) == "ab"
    assert decode([9, 10]) == "ab"
    assert decode([]) == ""


def test_what_is_no_symbol_is_unknown_and_counted() -> None:
    assert encode("é!") == [START, UNKNOWN, UNKNOWN, STOP]
    assert written("Wait!") == "wait\N{REPLACEMENT CHARACTER}"
    assert unknown_characters(["Été!", "no!", "fine, ok."]) == {"é": 2, "!": 2}


def test_unknown_characters_can_be_refused() -> None:
    check_characters("Fine, ok - why not?", "list.tsv, line 1")
    with pytest.raises(DataError, match=r"list\.tsv, line 2: the character '!' is not in the alphabet \(a to z, blank"):
        check_characters("Wait!", "list.tsv, line 2")
