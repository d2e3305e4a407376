"""The synthetic sentences: what the grammar says, and what the splits share."""

import re
from collections import Counter

from porism.tasks.sentiment.data import load_reviews
from porism.tasks.sentiment.data.embedded import ADJECTIVES, FEELINGS, NEGATED, TEMPLATES
from porism.tasks.sentiment.data.reviews import CLASS_OF_SCORE, leakage

SCORES = {word: score for words in (ADJECTIVES, FEELINGS) for score, same in words.items() for word in same}
NEGATION = "(is|was|do|does|would) not|never|nobody"


def test_the_class_follows_from_the_opinion_word_and_its_negation() -> None:
    for reviews in load_reviews().splits.values():
        for text, label, negated in reviews:
            (word,) = [word for word in text.split() if word in SCORES]
            score = NEGATED[SCORES[word]] if negated else SCORES[word]
            assert CLASS_OF_SCORE[score] == label, text
            # Some sentences negate something else: a negation is needed, and says little alone.
            assert re.search(NEGATION, text) or not negated, text


def test_the_templates_of_the_splits_are_different() -> None:
    found = load_reviews()
    assert leakage(found.splits) == {"valid": 0.0, "test": 0.0}
    assert found.duplicates.rows == found.duplicates.texts == 5500
    templates = [template for split in TEMPLATES.values() for template in split]
    assert len(set(templates)) == len(templates)


def test_every_class_is_there_and_no_word_of_an_opinion_tells_it() -> None:
    train = load_reviews().splits["train"]
    labels = Counter(review.label for review in train)
    assert min(labels.values()) > 0.25 * len(train)
    assert 0.3 < sum(review.negated is True for review in train) / len(train) < 0.5
    for word, score in SCORES.items():
        classes = Counter(review.label for review in train if word in review.text.split())
        assert len(classes) == (1 if score == 3 else 2), word


def test_the_opinion_words_of_the_test_are_in_train() -> None:
    splits = load_reviews().splits
    words = {split: {word for review in splits[split] for word in review.text.split()} for split in splits}
    assert set(SCORES) <= words["train"]
    assert words["test"] - words["train"] == {"day", "that"} - words["train"]
