"""The default text: the manual of Python 3.11.7, as `help()` shows it. It lies beside this file, so that the text and
what is measured on it are the same under every Python.

Whole topics are held out, because sentences of one topic quote and continue each other: a split by sentences would
test what was all but read in training. Topics also contain each other (`compound` repeats all of `if`, `for`, `try`),
so a paragraph is kept only once, in the shortest topic that has it. What is held out is then nowhere in the training
text.
"""

import gzip
import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from sys import intern

from porism.tasks.blocks.texts import EOS, hold_out

TOPICS = Path(__file__).with_name("manual.json.gz")
"""A topic's name to its text. Its licence lies beside it."""

Paragraph = tuple[tuple[str, ...], ...]
"""Sentences of words."""

QUOTES = {'"': "", "“": "", "”": "", "‘": "'", "’": "'"}
"""Double quotes mark up code and terms; they go."""
# What must stand before is looked for behind the first character: a search finds a character sooner than a position.
EMPHASIS = re.compile(r"\*(?<![\w*]\*)(\w[^*]{0,60})\*(?![\w*])")
BLOCK = re.compile(r"\n\s*\n(?:\s*[*•] )?|\n\s*[*•] ")
HYPHEN_AT_LINE_END = re.compile(r"\n(?<=\w-\n)\s*(?=\w)")
SENTENCE_END = re.compile(r"\s(?<=[.?!]\s)\s*(?=[A-Z])")
LETTER = re.compile(r"\w")
TOKEN = re.compile(
    r"\d\w*(?:[.,]\d\w*)*"
    r"|e\.g\.|i\.e\.|\w+(?:['-]\w+)*"
    r"|::=|\.\.\.|->|>>>|[=!<>]=|\*\*|//|<<|>>|[^\w\s]"
)


def manual() -> dict[str, list[str]]:
    """The manual's words, split into train, valid and test by topic."""
    return {split: list(words) for split, words in _split_manual().items()}


@cache
def _split_manual() -> dict[str, list[str]]:
    """Read once by a process: a comparison loads the same text for every recipe."""
    return split_topics(json.loads(gzip.decompress(TOPICS.read_bytes())))


def split_topics(topics: Mapping[str, str]) -> dict[str, list[str]]:
    """Topics to words, split by topic in the order of their names, each paragraph once."""
    seen: set[Paragraph] = set()
    words: dict[str, list[str]] = {}
    for name in sorted(topics, key=lambda name: (len(topics[name]), name)):
        new = [paragraph for paragraph in dict.fromkeys(paragraphs(topics[name])) if paragraph not in seen]
        words[name] = [word for paragraph in new for sentence in paragraph for word in (*sentence, EOS)]
        seen.update(new)
    held = hold_out(sorted(topics))
    return {split: [word for name in names for word in words[name]] for split, names in held.items()}


def paragraphs(text: str) -> list[Paragraph]:
    """The paragraphs of a topic: sentences of words in lower case, punctuation apart, numbers as `N`.

    >>> paragraphs('Lambdas\\n*******\\n\\nThe "lambda" form is *old*. It dates from 1994.')
    [(('lambdas',),), (('the', 'lambda', 'form', 'is', 'old', '.'), ('it', 'dates', 'from', 'N', '.'))]
    """
    for quote, plain in QUOTES.items():
        text = text.replace(quote, plain)
    text = EMPHASIS.sub(r"\1", text)
    blocks = [HYPHEN_AT_LINE_END.sub("", _without_rules(block)) for block in BLOCK.split(text)]
    found = [tuple(_words(sentence) for sentence in SENTENCE_END.split(block) if sentence.strip()) for block in blocks]
    return [paragraph for paragraph in found if paragraph]


def _without_rules(block: str) -> str:
    """Drops lines that only draw, such as the stars under a heading."""
    return "\n".join(line for line in block.split("\n") if LETTER.search(line))


def _words(sentence: str) -> tuple[str, ...]:
    return tuple(["N" if word[0].isdecimal() else intern(word) for word in TOKEN.findall(sentence.lower())])
