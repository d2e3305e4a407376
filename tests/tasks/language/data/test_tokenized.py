"""Cut once or token by token: the same numbers, counts and sizes."""

import math
from collections import Counter

import torch
from hypothesis import given
from hypothesis import strategies as st

from porism.tasks.language.data.text_size import END, OTHER, TextSize, text_sizes
from porism.tasks.language.data.tokenized import Tokenized
from porism.tasks.language.data.tokenizer import get_tokenizer
from porism.tasks.language.data.vocabulary import UNK, Vocabulary

TEXTS = st.lists(st.sampled_from(["the", "cat", "mat", "über", "x1", UNK, "\n"]), max_size=30).map(" ".join)


@given(train=TEXTS, valid=TEXTS, at_least=st.integers(1, 3))
def test_splits_are_encoded_and_counted_as_their_streams_are(train: str, valid: str, at_least: int) -> None:
    tokenizer, texts = get_tokenizer("whitespace"), {"train": train, "valid": valid}
    found = Tokenized.of(tokenizer, texts)
    vocabulary = Vocabulary.from_words(found.counts("train"), min_count=at_least)
    assert vocabulary == Vocabulary.from_words(tokenizer.stream(train), min_count=at_least)
    for split, text in texts.items():
        assert found.counts(split) == Counter(tokenizer.stream(text))
        assert torch.equal(found.encoded(vocabulary)[split], vocabulary.encode(tokenizer.stream(text)))


def test_every_unknown_token_is_spelled_as_often_as_it_stands_there() -> None:
    texts = {"train": "a a a ab ab", "valid": "ab ab b z"}
    vocabulary = Vocabulary(("a", "<eos>", UNK))
    found = text_sizes(vocabulary, texts, Tokenized.of(get_tokenizer("whitespace"), texts))
    # Unknown in train: "ab" twice, so a 2, b 2, the end 2, and one more of each and of any other.
    nats = {character: math.log(10 / count) for character, count in {"a": 3, "b": 3, END: 3, OTHER: 1}.items()}
    ab, b = nats["a"] + nats["b"] + nats[END], nats["b"] + nats[END]
    z = nats[OTHER] + math.log(0x110000) + nats[END]
    assert found["train"] == TextSize(11, found["train"].spelling, found["train"].sha256)
    assert math.isclose(found["train"].spelling, 2 * ab, rel_tol=1e-12)
    assert math.isclose(found["valid"].spelling, 2 * ab + b + z, rel_tol=1e-12)
