"""The sentences of the embedded recordings."""

import hashlib

import pytest

from porism.tasks.speech.data.embedded import RULES, sentences, words
from porism.tasks.speech.data.symbols import unknown_characters


def test_no_sentence_is_there_twice() -> None:
    sample = sentences(3000, seed=1)
    assert len(set(sample)) == 3000
    assert sentences(10, seed=1) == sample[:10]
    assert sentences(10, seed=2) != sample[:10]


def test_the_sentences_are_the_same_everywhere() -> None:
    digest = hashlib.sha256("\n".join(sentences(1500, seed=1)).encode()).hexdigest()
    assert digest == "3902bc5e9621dcd8d483e670a1c5398ecf2a38486c4145848196a9df61ecd124"


def test_few_words_that_all_occur() -> None:
    spoken = {word for sentence in sentences(3000, seed=1) for word in sentence.removesuffix("?").split()}
    assert spoken == words()
    assert len(spoken) <= 300


def test_sentences_are_short_and_can_be_written() -> None:
    sample = sentences(3000, seed=1)
    assert unknown_characters(sample) == {}
    assert all(3 <= len(sentence.split()) <= 8 for sentence in sample)
    assert all("{" not in sentence and "  " not in sentence for sentence in sample)


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule != "sentence"])
def test_every_rule_is_used(rule: str) -> None:
    assert any(f"{{{rule}}}" in option for options in RULES.values() for option in options)
