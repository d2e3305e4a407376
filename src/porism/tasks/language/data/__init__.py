"""The text of the language task: where it comes from, and how it is cut for a net.

>>> corpus = load_corpus("synthetic")
>>> x, y = Windows(rows(corpus.streams["train"], batch=64), steps=10)[0]     # (10, 64) each
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from torch import Tensor

from porism.errors import DataError, RecipeError, nearest
from porism.tasks.blocks.download import DataSet
from porism.tasks.blocks.texts import PUBLIC, SPLITS
from porism.tasks.language.data.embedded import embedded
from porism.tasks.language.data.files import Text, read_text
from porism.tasks.language.data.public import read_public
from porism.tasks.language.data.synthetic import synthetic
from porism.tasks.language.data.vocabulary import Vocabulary
from porism.tasks.language.data.windows import Windows, rows

__all__ = ["CATALOGUE", "Corpus", "Vocabulary", "Windows", "load_corpus", "rows"]

CATALOGUE = {
    "manual": DataSet("the manual every Python carries, as help() shows it: the default", "PSF"),
    "synthetic": DataSet("made-up words in a Markov chain, whose entropy is known exactly", "none needed"),
    **PUBLIC,
}
"""Corpora known by name. Anything else is a path."""
DEFAULT_MIN_COUNT = 2
DEFAULT_MAX_WORDS = 10_000


@dataclass(frozen=True, eq=False)
class Corpus:
    """A vocabulary and three streams of its words' numbers, each a tensor (tokens,) of int64.

    `entropy` is the source's entropy in nats per token, where it is known exactly. `limits` then has, for each split,
    the cross-entropy of the true source on that very stream: on valid and test no model beats it but by chance.
    """

    name: str
    vocabulary: Vocabulary
    streams: Mapping[str, Tensor]
    entropy: float | None = None
    limits: Mapping[str, float] = field(default_factory=dict)

    def fingerprint(self) -> str:
        """The sha256 of vocabulary and streams: all that a model ever sees."""
        digest = hashlib.sha256(json.dumps(self.vocabulary.to_json()).encode())
        for split in SPLITS:
            digest.update(f"\n{split} {len(self.streams[split])}\n".encode())
            digest.update(self.streams[split].numpy().astype("<i8").tobytes())
        return digest.hexdigest()


def load_corpus(source: str | None = None, *, min_count: int | None = None, max_words: int | None = None) -> Corpus:
    """The corpus of a name (`manual`, `synthetic`, `ptb`, `wikitext-2`) or of a path; None is the manual.

    The vocabulary comes from the training split: words seen at least `min_count` times, and of those the `max_words`
    most frequent. Left at None, a published split keeps all its words, so that its numbers compare; any other text
    keeps up to 10,000 words seen twice or more, so that a model meets `<unk>` in training before it does in the test.
    """
    source = "manual" if source is None else source
    if source == "synthetic":
        if min_count is not None or max_words is not None:
            raise RecipeError("synthetic: min_count and max_words would change its entropy. Leave them out.")
        drawn = synthetic()
        return Corpus(source, drawn.vocabulary, drawn.streams, drawn.entropy, drawn.limits)
    text = _read(source)
    if not text.published_split:
        min_count = DEFAULT_MIN_COUNT if min_count is None else min_count
        max_words = DEFAULT_MAX_WORDS if max_words is None else max_words
    for split in SPLITS:
        if len(text.splits[split]) < 2:
            raise DataError(
                f"{source}: the {split} split has {len(text.splits[split])} tokens, expected at least 2. "
                "Give more text."
            )
    vocabulary = Vocabulary.from_words(text.splits["train"], min_count=min_count or 1, max_words=max_words)
    streams = {split: vocabulary.encode(text.splits[split]) for split in SPLITS}
    return Corpus(source if source in CATALOGUE else Path(source).name, vocabulary, streams)


def _read(source: str) -> Text:
    if source == "manual":
        return embedded()
    if source in PUBLIC:
        return read_public(PUBLIC[source])
    path = Path(source).expanduser()
    if path.exists():
        return read_text(path)
    raise DataError(
        f"{source}: no such file or folder, and no corpus of that name. {nearest(source.lower(), list(CATALOGUE))}"
    )
