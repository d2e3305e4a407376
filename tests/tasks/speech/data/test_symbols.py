"""The symbols of the published experiment."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from porism.errors import DataError
from porism.tasks.speech.data.symbols import (
    CHARACTERS,
    EOS,
    LONGEST,
    PAD,
    SOS,
    SPACE,
    SYMBOLS,
    UNKNOWN,
    check_characters,
    decode,
    encode,
    representable,
    unknown_characters,
)


def test_there_are_35_symbols() -> None:
    assert len(SYMBOLS) == len(set(SYMBOLS)) == 35
    assert SYMBOLS[SPACE:9] == (" ", ",", ".", "?", "-")
    assert "".join(SYMBOLS[9:]) == "abcdefghijklmnopqrstuvwxyz"
    assert (SOS, EOS, PAD, UNKNOWN) == (0, 1, 2, 3)


def test_a_text_stands_between_sos_and_eos() -> None:
    assert encode("Az?") == [SOS, 9, 34, 7, EOS]
    assert encode("") == [SOS, EOS]


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


def test_decoding_ends_at_eos_and_skips_padding() -> None:
    assert decode([SOS, 9, PAD, 10, EOS, 11]) == "ab"
    assert decode([9, 10]) == "ab"
    assert decode([]) == ""


def test_other_characters_are_unknown_and_counted() -> None:
    assert encode("é!") == [SOS, UNKNOWN, UNKNOWN, EOS]
    assert representable("Wait!") == "wait\N{REPLACEMENT CHARACTER}"
    assert unknown_characters(["Été!", "no!", "fine, ok."]) == {"é": 2, "!": 2}


def test_unknown_characters_can_be_refused() -> None:
    check_characters("Fine, ok - why not?", "list.tsv, line 1")
    with pytest.raises(DataError, match=r"list\.tsv, line 2: the character '!' is not in the alphabet \(a to z, space"):
        check_characters("Wait!", "list.tsv, line 2")
