"""The compiled table counts and numbers words as plain Python would."""

from collections import Counter

import numpy as np
import pytest

from porism.tasks.words.data.tokenize_numba import LONGEST
from porism.tasks.words.data.vocabulary import Split, WordTable

LETTERS = [*"abcde", "é", "ж", "語", "🙂"]


def words_of(seed: int, count: int) -> list[str]:
    draw = np.random.default_rng(seed)
    return ["".join(draw.choice(LETTERS, draw.integers(1, 5))) for _ in range(count)]


@pytest.mark.parametrize("count", [1, 2, 63, 5000])
def test_counts_are_those_of_a_counter(count: int) -> None:
    words = words_of(count, count)
    numbering = WordTable()
    for start in range(0, count, 700):
        found = numbering.count("  ".join(words[start : start + 700]).encode())
        assert found.words == len(words[start : start + 700])
    counted = dict(zip((word.decode() for word in numbering.words()), numbering.counts.tolist(), strict=True))
    assert counted == Counter(words)
    assert list(counted) == list(dict.fromkeys(words))


def test_numbers_lead_back_to_the_words() -> None:
    words = words_of(3, 500)
    numbering = WordTable([word.encode() for word in dict.fromkeys(words)])
    tokens = numbering.tokenize("\t".join(words).encode()).tokens
    known = [word.decode() for word in numbering.words()]
    assert [known[number] for number in tokens if number >= 0] == words
    assert numbering.counts.sum() == 0


def test_unknown_words_are_left_out_and_still_counted_in_the_text() -> None:
    tokens, words, following = WordTable([b"cat", b"the"]).tokenize(b"the black cat\n\n  \nthe dog")
    assert tokens.tolist() == [1, 0, -1, 1, -1]
    assert (words, following) == (5, 2)


def test_a_long_line_is_several_sentences() -> None:
    tokens, words, following = WordTable([b"a"]).tokenize(b"a " * (2 * LONGEST + 7))
    assert np.flatnonzero(tokens < 0).tolist() == [LONGEST, 2 * LONGEST + 1, 2 * LONGEST + 9]
    assert (words, following) == (2 * LONGEST + 7, 3)


@pytest.mark.parametrize("first", [0, 5])
def test_splits_share_out_the_sentences(first: int) -> None:
    lines = [f"w{line}" for line in range(60)]
    numbering = WordTable([line.encode() for line in lines])
    text = "\n".join(lines).encode()
    found = {
        split: [
            number for number in numbering.tokenize(text, first, Split.of(split, 10)).tokens.tolist() if number >= 0
        ]
        for split in ("train", "valid", "test")
    }
    assert found["valid"] == [line for line in range(60) if (line + first) % 10 == 5]
    assert found["test"] == [line for line in range(60) if (line + first) % 10 == 9]
    assert sorted(number for numbers in found.values() for number in numbers) == list(range(60))


def test_held_out_words_are_not_learned() -> None:
    numbering = WordTable()
    numbering.count(b"a\nb\nc\nd\n", 0, Split.of("train", 4))
    assert numbering.words() == [b"a", b"b"]


def test_rare_words_can_be_dropped() -> None:
    numbering = WordTable()
    numbering.count(b"x y z y z z")
    smaller = numbering.without_rare(1)
    assert (smaller.words(), smaller.counts.tolist()) == ([b"y", b"z"], [2, 3])
    smaller.count(b"z x")
    assert (smaller.words(), smaller.counts.tolist()) == ([b"y", b"z", b"x"], [2, 4, 1])
