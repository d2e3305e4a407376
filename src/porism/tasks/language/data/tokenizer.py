"""How a text becomes tokens, and tokens a text again.

>>> get_tokenizer("words").tokens("Don't panic, he said.")
["Don't", 'panic', ',', 'he', 'said', '.']
>>> get_tokenizer("words").text(["Don't", "panic", ",", "he", "said", "."])
"Don't panic, he said."
>>> get_tokenizer("characters").tokens("a b")
['a', ' ', 'b']
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from porism.errors import MissingExtra, advise, fields
from porism.tasks.blocks.texts import EOS
from porism.tasks.blocks.words_and_marks import IDEOGRAPHS, WORD

_WIDE_MARKS = "、。！？，；："
NO_SPACE = re.compile(
    rf" (?=[,.;:!?%)\]}}…{_WIDE_MARKS}])|(?<=[(\[{{{_WIDE_MARKS}]) |(?<=[{IDEOGRAPHS}]) (?=[{IDEOGRAPHS}])"
)
"""The spaces between tokens that no text has."""


@dataclass(frozen=True)
class Tokenizer(ABC):
    """Cuts a line of text into tokens and puts tokens together. The ends of lines are `<eos>`, whatever cuts a line."""

    name: ClassVar[str]
    lowercase: bool = False

    def tokens(self, line: str) -> list[str]:
        """The tokens of a line without its end."""
        return self._cut(line.lower() if self.lowercase else line)

    def stream(self, text: str) -> Iterator[str]:
        """The tokens of a text, `<eos>` for the end of each line. What follows the last one is no whole line."""
        # Only "\n" ends a line: str.splitlines would also break at characters that corpora use inside a line.
        *lines, rest = text.split("\n")
        for line in lines:
            yield from self.tokens(line)
            yield EOS
        yield from self.tokens(rest)

    def alphabet(self) -> Sequence[str]:
        """Tokens that belong to the vocabulary whether the training text has them or not."""
        return ()

    @abstractmethod
    def _cut(self, line: str) -> list[str]: ...

    @abstractmethod
    def text(self, tokens: Sequence[str]) -> str:
        """The text that tokens stand for."""

    def continued(self, prompt: str, tokens: Sequence[str]) -> str:
        """A prompt and the tokens after it as one text. Here the tokens have their spaces themselves.

        >>> get_tokenizer("characters").continued("a fun", ["c", "t"])
        'a funct'
        >>> get_tokenizer("words").continued("Wait", ["!", "he", "said"])
        'Wait! he said'
        """
        return prompt + self.text(tokens)

    def to_json(self) -> dict[str, Any]:
        """What `from_json` makes the tokenizer of."""
        return {"name": self.name, "lowercase": self.lowercase}


class Whitespace(Tokenizer):
    """Tokens as they are given: what stands between white space."""

    name = "whitespace"

    def _cut(self, line: str) -> list[str]:
        return line.split()

    def text(self, tokens: Sequence[str]) -> str:
        return " ".join(tokens)

    def continued(self, prompt: str, tokens: Sequence[str]) -> str:
        return " ".join(filter(None, (prompt.rstrip(), self.text(tokens))))


class WordsAndMarks(Tokenizer):
    """Words, and each punctuation mark for itself; of Chinese and Japanese each character."""

    name = "words"

    def _cut(self, line: str) -> list[str]:
        return WORD.findall(line)

    def text(self, tokens: Sequence[str]) -> str:
        return NO_SPACE.sub("", " ".join(tokens))

    def continued(self, prompt: str, tokens: Sequence[str]) -> str:
        before, after = prompt.rstrip(), self.text(tokens)
        if not before or not after:
            return before + after
        # The prompt itself stays as it was typed: only the space where they meet is looked at.
        return before + after if NO_SPACE.match(f"{before} {after}", len(before)) else f"{before} {after}"


class Characters(Tokenizer):
    """Each character, spaces too."""

    name = "characters"

    def _cut(self, line: str) -> list[str]:
        return list(line)

    def text(self, tokens: Sequence[str]) -> str:
        return "".join(tokens)


class Bytes(Tokenizer):
    """Each byte of the text in UTF-8, in two hexadecimal digits. None is unknown."""

    name = "bytes"

    def _cut(self, line: str) -> list[str]:
        return [HEX[byte] for byte in line.encode()]

    def alphabet(self) -> Sequence[str]:
        return HEX

    def text(self, tokens: Sequence[str]) -> str:
        known = set(HEX)
        return bytes.fromhex("".join(token for token in tokens if token in known)).decode(errors="replace")


HEX = tuple(f"{byte:02x}" for byte in range(256))


@dataclass(frozen=True)
class Bpe(Tokenizer):
    """Byte-pair encoding over bytes, by the library tokenizers: frequent words whole, rare ones in pieces."""

    name = "bpe"
    model: str = ""
    """As the library writes it."""

    @classmethod
    def trained(cls, text: str, vocab_size: int, lowercase: bool) -> "Bpe":
        """The merges of a training text, at most as many as make a vocabulary of this size, bytes included."""
        library = _tokenizers()
        made = library.Tokenizer(library.models.BPE())
        made.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
        made.decoder = library.decoders.ByteLevel()
        trainer = library.trainers.BpeTrainer(
            vocab_size=vocab_size,
            initial_alphabet=sorted(library.pre_tokenizers.ByteLevel.alphabet()),
            show_progress=False,
        )
        made.train_from_iterator((line.lower() if lowercase else line for line in text.split("\n")), trainer)
        return cls(lowercase, made.to_str())

    def _cut(self, line: str) -> list[str]:
        found: list[str] = self._library_tokenizer().encode(line).tokens
        return found

    def alphabet(self) -> Sequence[str]:
        return sorted(self._library_tokenizer().get_vocab())

    def text(self, tokens: Sequence[str]) -> str:
        made = self._library_tokenizer()
        return str(made.decode([number for token in tokens if (number := made.token_to_id(token)) is not None]))

    def to_json(self) -> dict[str, Any]:
        return {**super().to_json(), "model": self.model}

    def _library_tokenizer(self) -> Any:
        # Parsed once; the dataclass is frozen for its users alone.
        if "_parsed" not in self.__dict__:
            object.__setattr__(self, "_parsed", _tokenizers().Tokenizer.from_str(self.model))
        return self.__dict__["_parsed"]


_PLAIN: dict[str, type[Tokenizer]] = {kind.name: kind for kind in (Whitespace, WordsAndMarks, Characters, Bytes)}


def get_tokenizer(name: str, *, lowercase: bool = False, train: str = "", vocab_size: int = 10_000) -> Tokenizer:
    """The tokenizer of a name. `bpe` is trained: on a text, for a vocabulary of this size."""
    if name == Bpe.name:
        return Bpe.trained(train, vocab_size, lowercase)
    return _PLAIN[name](lowercase)


def from_json(saved: Mapping[str, Any] | None) -> Tokenizer:
    """The tokenizer that `to_json` wrote; runs of 0.1 have none, and cut at white space."""
    if saved is None:
        return Whitespace()
    if saved["name"] == Bpe.name:
        return Bpe(saved["lowercase"], saved["model"])
    return _PLAIN[saved["name"]](saved["lowercase"])


def _tokenizers() -> Any:
    try:
        import tokenizers
        from tokenizers import decoders, models, pre_tokenizers, trainers  # noqa: F401  # loads them
    except ImportError:
        raise MissingExtra(
            'tokenizer=bpe needs tokenizers, which is not installed: pip install "porism[text]",',
            advise("or use {}", fields(tokenizer="characters")),
        ) from None
    return tokenizers
