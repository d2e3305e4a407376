"""The text of the language task: where it comes from, and how it is cut for a net.

>>> corpus = load_corpus("synthetic")
>>> x, y = Windows(rows(corpus.streams["train"], batch=64), steps=10)[0]     # (10, 64) each
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from porism.errors import DataError, RecipeError, advise, fields, nearest
from porism.tasks.blocks.in_memory import by_split
from porism.tasks.blocks.texts import PUBLIC, SPLITS
from porism.tasks.language.catalogue import CATALOGUE
from porism.tasks.language.data.corpus import Corpus
from porism.tasks.language.data.embedded import embedded
from porism.tasks.language.data.files import Text, cut_text, read_text
from porism.tasks.language.data.public import read_public
from porism.tasks.language.data.synthetic import synthetic
from porism.tasks.language.data.text_size import given_size, text_sizes
from porism.tasks.language.data.tokenized import Tokenized
from porism.tasks.language.data.tokenizer import get_tokenizer
from porism.tasks.language.data.vocabulary import EOS, UNK, Vocabulary
from porism.tasks.language.data.windows import Windows, rows

__all__ = [
    "Corpus",
    "Vocabulary",
    "Windows",
    "corpus_of_texts",
    "load_corpus",
    "read_source",
    "rows",
    "text_of",
]

DEFAULT_MIN_COUNT = 2
DEFAULT_MAX_WORDS = 10_000


def load_corpus(
    source: str | None = None,
    *,
    tokenizer: str = "auto",
    lowercase: bool = False,
    min_count: int | None = None,
    max_vocab_size: int | None = None,
) -> Corpus:
    """The corpus of a name (`manual`, `synthetic`, `ptb`, `wikitext-2`) or of a path; None is the manual.

    tokenizer: `whitespace`, `words`, `characters`, `bytes` or `bpe`. `auto` takes the tokens of a known corpus, or of
        a folder that brings its splits, as they are given, and cuts any other text into words and punctuation marks.
    min_count, max_vocab_size: the vocabulary comes from the training split: tokens seen at least `min_count` times,
        and of those the `max_vocab_size` most frequent. Left at None, a published split keeps all its words, so that
        its numbers compare; any other text keeps up to 10,000 tokens seen twice or more, so that a model meets
        `<unk>` in training before it does in the test.
    """
    source = "manual" if source is None else source
    if source == "synthetic":
        if min_count is not None or max_vocab_size is not None or lowercase or tokenizer not in ("auto", "whitespace"):
            raise RecipeError(
                "synthetic: tokenizer, lowercase, min_count or max_vocab_size would change its entropy. Leave it out."
            )
        drawn = synthetic()
        corpus = Corpus(source, drawn.vocabulary, drawn.streams, drawn.entropy, drawn.limits)
        return replace(corpus, sizes={split: given_size(corpus.vocabulary, corpus.streams[split]) for split in SPLITS})
    text = read_source(source)
    if tokenizer == "auto" and source in CATALOGUE:
        tokenizer = "whitespace"
    name = source if source in CATALOGUE else Path(source).name
    return _corpus(text, name, source, tokenizer, lowercase, min_count, max_vocab_size)


def corpus_of_texts(
    texts: Any,
    *,
    tokenizer: str = "auto",
    lowercase: bool = False,
    min_count: int | None = None,
    max_vocab_size: int | None = None,
) -> Corpus:
    """The same of texts that are in memory: a list of them, which is split as a file is, or some for each split.

    >>> corpus_of_texts(["the cat sat\\non the mat"] * 20).streams["train"].shape
    torch.Size([128])
    """
    return _corpus(text_of(texts), "texts", "data", tokenizer, lowercase, min_count, max_vocab_size)


def text_of(texts: Any) -> Text:
    """Texts that are in memory, as a file has them."""
    if not isinstance(texts, Mapping):
        return cut_text(_lines(texts, "data"))
    parts = by_split(texts)
    if missing := [split for split in SPLITS if split not in parts]:
        raise DataError(f"data: no texts for {missing[0]}. Give train, valid and test, or a list to have it split.")
    return Text({split: _lines(parts[split], split) for split in SPLITS}, published_split=True, how_split="as given")


def _lines(texts: Any, where: str) -> str:
    """Every text ended by a newline."""
    found = [texts] if isinstance(texts, str) else texts
    if not isinstance(found, Sequence) or not all(isinstance(one, str) for one in found):
        raise DataError(f"{where}: a {type(texts).__name__}, expected a path, a known name, or a list of texts.")
    lines = "".join(one if one.endswith("\n") else f"{one}\n" for one in found)
    if not lines.split():
        raise DataError(f"{where}: empty, no word in it. Give some text.")
    return lines


def _corpus(
    text: Text,
    name: str,
    source: str,
    tokenizer: str,
    lowercase: bool,
    min_count: int | None,
    max_vocab_size: int | None,
) -> Corpus:
    if tokenizer == "auto":
        tokenizer = "whitespace" if text.published_split else "words"
    if not text.published_split or tokenizer == "bpe":
        max_vocab_size = DEFAULT_MAX_WORDS if max_vocab_size is None else max_vocab_size
    if not text.published_split:
        min_count = DEFAULT_MIN_COUNT if min_count is None else min_count
    made = get_tokenizer(
        tokenizer, lowercase=lowercase, train=text.splits["train"], vocab_size=(max_vocab_size or DEFAULT_MAX_WORDS) - 2
    )
    if max_vocab_size is not None and max_vocab_size < len(made.alphabet()) + 2:
        raise RecipeError(
            f"max_vocab_size={max_vocab_size} cannot be: tokenizer={tokenizer} has {len(made.alphabet())} tokens of "
            f"its own, and {EOS} and {UNK} come to them.",
            advise("Use {} or more.", fields(max_vocab_size=len(made.alphabet()) + 2)),
        )
    tokenized = Tokenized.of(made, text.splits)
    vocabulary = Vocabulary.from_words(
        tokenized.counts("train"), min_count=min_count or 1, max_words=max_vocab_size, always=made.alphabet()
    )
    streams = tokenized.encoded(vocabulary)
    for split in SPLITS:
        if len(streams[split]) < 2:
            raise DataError(
                f"{source}: the {split} split has {len(streams[split])} tokens, expected at least 2. Give more text."
            )
    sizes = text_sizes(vocabulary, text.splits, tokenized)
    return Corpus(name, vocabulary, streams, tokenizer=made, sizes=sizes, facts=text.facts())


def read_source(source: str | None) -> Text:
    """The words of a name or of a path; None is the manual."""
    if source is None or source == "manual":
        return embedded()
    if source in PUBLIC:
        return read_public(PUBLIC[source])
    path = Path(source).expanduser()
    if path.exists():
        return read_text(path)
    raise DataError(
        f"{source}: no such file or folder, and no corpus of that name. {nearest(source.lower(), list(CATALOGUE))}"
    )
