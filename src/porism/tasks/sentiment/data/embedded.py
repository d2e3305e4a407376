"""Synthetic reviews: sentences of a small grammar with graded opinion words and negation.

Nobody wrote these sentences. An opinion word has a score from 1 to 5, and a negation turns and weakens it:

    awful 1, bad 2, average 3, good 4, excellent 5        not awful 3, not bad 4, not good 2, not excellent 3

So a bag of words cannot score them: a model has to find the negation and see whether it belongs to the opinion, since
some sentences negate something else (`my sister did not want it , but ...`). The templates of valid and test are not
those of train, while opinion words and things are the same in all splits.
"""

import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from porism.tasks.sentiment.data.reviews import Review

SEED = 1966
"""Fixed: the sentences are the same for every run."""
SENTENCES = {"train": 4000, "valid": 500, "test": 1000}
NEGATED_SHARE = 0.5

ADJECTIVES = {
    5: ("excellent", "wonderful", "superb", "fantastic"),
    4: ("good", "nice", "pleasant", "solid"),
    3: ("average", "ordinary", "acceptable", "okay"),
    2: ("bad", "poor", "weak", "dull"),
    1: ("awful", "terrible", "horrible", "dreadful"),
}
FEELINGS = {5: ("love", "adore"), 4: ("like", "enjoy"), 2: ("dislike", "regret"), 1: ("hate", "detest")}
NEGATED = {1: 3, 2: 4, 4: 2, 5: 3}
"""The score of an opinion word under a negation. A word of score 3 is never negated."""

THINGS = (
    *("phone", "camera", "soup", "hotel", "lamp", "film", "book", "chair", "coat", "bike"),
    *("radio", "watch", "kettle", "room", "bread", "game", "desk", "pen", "song", "garden"),
)
DEGREES = ("", "", "very ", "really ", "quite ")
VERBS = (
    ("is", "is not"),
    ("was", "was not"),
    ("seems", "does not seem"),
    ("looks", "never looks"),
    ("feels", "does not feel"),
)
"""Each as it is, and negated."""
CLAIMS = (("i think", "i do not think"), ("we would say", "we would not say"), ("everybody says", "nobody says"))

TEMPLATES = {
    "train": (
        "the {thing} {verb} {opinion}",
        "this {thing} {verb} {opinion} .",
        "it {verb} {opinion}",
        "it {verb} {opinion} , this {thing} .",
        "i bought the {thing} last week and it {verb} {opinion}",
        "after a month the {thing} {verb} {opinion} .",
        "for the price the {thing} {verb} {opinion}",
        "my sister did not want it , but the {thing} {verb} {opinion}",
        "i never write reviews , but this {thing} {verb} {opinion} !",
        "nobody told me that the {thing} {verb} {opinion}",
        "the {thing} {verb} {opinion} , as my brother told me .",
        "the {thing} that came in the mail {verb} {opinion}",
        "to be fair , the {thing} {verb} {opinion} .",
        "what a week ! the {thing} {verb} {opinion} and it was not cheap",
        "{claim} the {thing} is {opinion}",
        "{claim} it was {opinion} when it came .",
        "we used the {thing} every day and {claim} it is {opinion}",
        "{claim} that this {thing} looks {opinion} !",
        "i {feeling} it",
        "i {feeling} the {thing} .",
        "we {feeling} this {thing} , to be fair",
        "my brother did not want the {thing} , but i {feeling} it",
    ),
    "valid": (
        "in short , the {thing} {verb} {opinion}",
        "we did not pay much for the {thing} , and it {verb} {opinion} .",
        "{claim} the {thing} my brother bought is {opinion}",
        "every day i {feeling} the {thing}",
    ),
    "test": (
        "last month i bought this {thing} and it {verb} {opinion} .",
        "my sister told me that the {thing} {verb} {opinion}",
        "the {thing} , to be fair , {verb} {opinion} .",
        "i did not want to write , but after a day this {thing} {verb} {opinion} !",
        "{claim} the {thing} that we used every week is {opinion}",
        "for that price {claim} it is {opinion} .",
        "as everybody told me , i {feeling} this {thing}",
    ),
}


class Sentence(NamedTuple):
    """A sentence of the grammar, with the score of its opinion and whether that opinion is negated."""

    text: str
    score: int
    negated: bool


def synthetic() -> dict[str, list[Review]]:
    """The sentences of every split, no sentence twice.

    >>> [len(reviews) for reviews in synthetic().values()]
    [4000, 500, 1000]
    """
    draw = random.Random(SEED)
    splits = {}
    for split, count in SENTENCES.items():
        sentences: dict[str, Sentence] = {}
        made = generate(TEMPLATES[split], draw)
        while len(sentences) < count:
            sentence = next(made)
            sentences.setdefault(sentence.text, sentence)
        splits[split] = [Review.from_score(text, score, negated) for text, score, negated in sentences.values()]
    return splits


def generate(templates: Sequence[str], draw: random.Random) -> Iterator[Sentence]:
    """Sentences without end: a template, then a score and whether it is negated, then the words."""
    while True:
        template = draw.choice(templates)
        words = FEELINGS if "{feeling}" in template else ADJECTIVES
        score = draw.choice(list(words))
        negated = score in NEGATED and draw.random() < NEGATED_SHARE
        word = draw.choice(words[score])
        text = template.format(
            thing=draw.choice(THINGS),
            opinion=draw.choice(DEGREES) + word,
            feeling=("do not " if negated else "") + word,
            claim=draw.choice(CLAIMS)[negated],
            # Where a claim is negated the verb is in the template.
            verb=draw.choice(VERBS)[negated],
        )
        yield Sentence(text, NEGATED[score] if negated else score, negated)
