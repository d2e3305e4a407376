"""From a text to tokens and their ids, and back: words counted in train, or the tokenizer of a pretrained encoder."""

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import msgspec

from porism.errors import DataError, MissingExtra, advise, fields

if TYPE_CHECKING:
    from tokenizers import Tokenizer as FastTokenizer

PAD, UNK = "[PAD]", "[UNK]"
WORD = re.compile(r"\w+(?:['’]\w+)*|[^\w\s]")
"""A word, `don't` being one, or a sign that is none, each by itself."""


class Tokens(NamedTuple):
    """The ids of a text, its tokens as text, and how many there were before the text was truncated."""

    ids: list[int]
    tokens: list[str]
    whole: int


class ReviewTokenizer(ABC):
    """What the task needs of a tokenizer."""

    pad: int
    unk: int | None

    @abstractmethod
    def __len__(self) -> int:
        """How many ids there are."""

    @abstractmethod
    def encode(self, text: str, max_length: int) -> Tokens:
        """At most `max_length` tokens of a text, special ones counted."""

    @abstractmethod
    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, without special tokens."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """All that `read_tokenizer` needs, as plain values."""

    @abstractmethod
    def is_known(self, id: int) -> bool:
        """Whether an id is that of a word or a part of one: no special token, no unknown word."""


def read_tokenizer(saved: Mapping[str, Any]) -> ReviewTokenizer:
    """The tokenizer that `to_json` wrote."""
    return WordTokenizer.from_json(saved) if "words" in saved else PretrainedTokenizer.from_json(saved)


class WordTokenizer(ReviewTokenizer):
    """Words and punctuation, most frequent first, after `[PAD]` and `[UNK]`.

    >>> tokenizer = WordTokenizer.from_texts(["Good, good soup!"], lowercase=True)
    >>> tokenizer.encode("A good soup", max_length=10)
    Tokens(ids=[1, 2, 5], tokens=['[UNK]', 'good', 'soup'], whole=3)
    >>> tokenizer.decode([2, 5])
    'good soup'
    """

    pad, unk = 0, 1

    def __init__(self, words: Sequence[str], lowercase: bool) -> None:
        self.words, self.lowercase = list(words), lowercase

    @classmethod
    def from_texts(
        cls, texts: Iterable[str], *, lowercase: bool, min_count: int = 1, max_vocab_size: int | None = None
    ) -> Self:
        """Of words seen at least `min_count` times the most frequent, equals in alphabetical order."""
        counts = Counter(word for text in texts for word in _words(text, lowercase))
        ranked = sorted((word for word in counts if counts[word] >= min_count), key=lambda word: (-counts[word], word))
        words = [PAD, UNK, *(word for word in ranked if word not in (PAD, UNK))][:max_vocab_size]
        if len(words) < 3:
            raise DataError(
                f"sentiment: no word of the training texts is seen {min_count} times, or max_vocab_size is too small.",
                advise("Use {}, or give more texts.", fields(min_count=1)),
            )
        return cls(words, lowercase)

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> Self:
        return cls(msgspec.convert(saved["words"], list[str]), msgspec.convert(saved["lowercase"], bool))

    def to_json(self) -> dict[str, Any]:
        return {"words": self.words, "lowercase": self.lowercase}

    @cached_property
    def index(self) -> dict[str, int]:
        """From a word to its id."""
        return {word: id for id, word in enumerate(self.words)}

    def __len__(self) -> int:
        return len(self.words)

    def encode(self, text: str, max_length: int) -> Tokens:
        ids = [self.index.get(word, self.unk) for word in _words(text, self.lowercase)]
        kept = ids[:max_length]
        return Tokens(kept, [self.words[id] for id in kept], len(ids))

    def decode(self, ids: Sequence[int]) -> str:
        return " ".join(self.words[id] for id in ids if id != self.pad)

    def is_known(self, id: int) -> bool:
        return id > self.unk


class PretrainedTokenizer(ReviewTokenizer):
    """The fast tokenizer of a pretrained encoder, from the text of its tokenizer.json."""

    def __init__(self, tokenizer: "FastTokenizer", pad: int, unk: int | None, special: Sequence[int]) -> None:
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self.tokenizer, self.pad, self.unk, self.special = tokenizer, pad, unk, sorted(special)
        self.special_tokens = tokenizer.num_special_tokens_to_add(False)

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> Self:
        try:
            from tokenizers import Tokenizer as FastTokenizer
        except ImportError:
            raise missing_transformers() from None
        return cls(FastTokenizer.from_str(saved["tokenizer"]), saved["pad"], saved["unk"], saved["special"])

    def to_json(self) -> dict[str, Any]:
        return {"tokenizer": self.tokenizer.to_str(), "pad": self.pad, "unk": self.unk, "special": self.special}

    def __len__(self) -> int:
        return max(self.tokenizer.get_vocab(with_added_tokens=True).values()) + 1

    def encode(self, text: str, max_length: int) -> Tokens:
        found = self.tokenizer.encode(text)
        whole = len(found.ids)
        if whole > max_length:
            # The special tokens at the ends stay.
            inner = self.tokenizer.encode(text, add_special_tokens=False)
            inner.truncate(max(0, max_length - self.special_tokens))
            found = self.tokenizer.post_process(inner, add_special_tokens=True)
        return Tokens(found.ids, found.tokens, whole)

    def decode(self, ids: Sequence[int]) -> str:
        text: str = self.tokenizer.decode(list(ids), skip_special_tokens=True)
        return text

    def is_known(self, id: int) -> bool:
        return id not in self.special


def missing_transformers() -> MissingExtra:
    return MissingExtra(
        'a pretrained encoder needs transformers, which is not installed: pip install "porism[text]". '
        "The recipes attention, window, taylor and hybrid need no package."
    )


def _words(text: str, lowercase: bool) -> list[str]:
    return WORD.findall(text.lower() if lowercase else text)
