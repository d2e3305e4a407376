"""Words and their numbers: the order, the round trips, and what is left out."""

from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from porism.errors import DataError, RecipeError
from porism.tasks.language.data.vocabulary import EOS, UNK, Vocabulary

texts = st.lists(st.sampled_from(["a", "b", "c", "d", "e", "ü", EOS, UNK]), min_size=1, max_size=60)


def test_most_frequent_first_and_ties_in_alphabetical_order() -> None:
    vocabulary = Vocabulary.from_words(f"b a b c a b {EOS} c {EOS}".split())
    assert vocabulary.words == ("b", EOS, "a", "c", UNK)
    assert (vocabulary.eos, vocabulary.unk, len(vocabulary)) == (1, 4, 5)


def test_rare_words_count_as_unknown() -> None:
    words = f"b b b {UNK} a c d {EOS}".split()
    assert Vocabulary.from_words(words, min_count=2).words == (UNK, "b", EOS)


def test_the_cap_keeps_the_most_frequent_words_and_counts_the_specials() -> None:
    words = f"b b b a a c {EOS}".split()
    assert Vocabulary.from_words(words, max_words=4).words == ("b", "a", EOS, UNK)
    assert Vocabulary.from_words(words, max_words=2).words == (UNK, EOS)


@given(texts)
def test_a_text_survives_the_round_trip(words: list[str]) -> None:
    vocabulary = Vocabulary.from_words(words)
    numbers = vocabulary.encode(words)
    assert numbers.dtype == torch.int64
    assert numbers.shape == (len(words),)
    assert vocabulary.decode(numbers) == words
    assert vocabulary.decode(numbers.tolist()) == words


@given(texts, st.integers(1, 5), st.none() | st.integers(2, 9))
def test_encoded_words_are_known_or_unknown_as_the_limits_say(words: list[str], least: int, most: int | None) -> None:
    vocabulary = Vocabulary.from_words(words, min_count=least, max_words=most)
    counts = Counter(words)
    assert {EOS, UNK} <= set(vocabulary.words)
    assert most is None or len(vocabulary) <= most
    assert all(counts[word] >= least for word in vocabulary.words if word not in (EOS, UNK))
    seen = [word if word in vocabulary else UNK for word in words]
    assert vocabulary.decode(vocabulary.encode(words)) == seen
    frequencies = [Counter(seen)[word] for word in vocabulary.words]
    assert frequencies == sorted(frequencies, reverse=True)


@given(texts)
def test_json_and_back(words: list[str]) -> None:
    vocabulary = Vocabulary.from_words(words)
    assert Vocabulary.from_json(vocabulary.to_json()) == vocabulary


def test_no_words_encode_to_an_empty_tensor() -> None:
    assert Vocabulary((EOS, UNK)).encode([]).shape == (0,)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("a", EOS, UNK, "a"), "vocabulary: the word 'a' is in it twice. Every word must have one number."),
        (("a", UNK), "vocabulary: <eos> is not among its 2 words. Add it."),
        (("a", EOS), "vocabulary: <unk> is not among its 2 words. Add it."),
    ],
)
def test_a_broken_list_is_refused(words: tuple[str, ...], message: str) -> None:
    with pytest.raises(DataError) as refused:
        Vocabulary.from_json(words)
    assert str(refused.value) == message


def test_impossible_limits_are_refused() -> None:
    with pytest.raises(RecipeError, match=r"vocabulary: min_count is 0, expected at least 1. 1 keeps every word."):
        Vocabulary.from_words(["a"], min_count=0)
    with pytest.raises(RecipeError, match=r"vocabulary: max_words is 1, expected at least 2, for <eos> and <unk>."):
        Vocabulary.from_words(["a"], max_words=1)
