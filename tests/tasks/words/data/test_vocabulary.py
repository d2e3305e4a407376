"""A vocabulary is in order of frequency, or says why there is none."""

import json

import pytest

from porism.errors import DataError
from porism.tasks.words.data.vocabulary import WordCounts, WordTable


def counted(text: str, least_count: int) -> WordCounts:
    numbering = WordTable()
    numbering.count(text.encode())
    return WordCounts.counted(numbering, least_count, "text.txt")


def test_the_most_frequent_word_comes_first_and_equal_ones_by_the_alphabet() -> None:
    vocabulary = counted("b é c b a c a d b é", 2)
    assert vocabulary.words == ("b", "a", "c", "é")
    assert vocabulary.counts == (3, 2, 2, 2)
    assert "d" not in vocabulary


def test_it_comes_back_from_json() -> None:
    vocabulary = counted("b c b", 1)
    assert WordCounts.from_json(json.loads(json.dumps(vocabulary.to_json()))) == vocabulary
    assert vocabulary.word_table().words() == [b"b", b"c"]


def test_its_hash_is_of_words_and_counts() -> None:
    hashes = {counted(text, 1).sha256() for text in ("b c b", "b d b", "b c b b")}
    assert len(hashes) == 3
    assert counted("b b c", 1).sha256() in hashes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (" \n ", "text.txt: empty, no word in it. Give a file with text."),
        ("one one", "text.txt: one word only, 'one', without a context. Give more text."),
        (
            "a b c b",
            "text.txt: no word comes 5 times or more; the most frequent, 'b', comes 2 times. "
            "Use --set min_count=1, or give more text.",
        ),
        (
            "b " * 6 + "c",
            "text.txt: only one word comes 5 times or more; the most frequent, 'b', comes 6 times. "
            "Use --set min_count=1, or give more text.",
        ),
    ],
)
def test_a_text_without_words_is_refused(text: str, message: str) -> None:
    with pytest.raises(DataError) as refused:
        counted(text, 5)
    assert str(refused.value) == message
