"""The default corpus, which needs no network: the manual of Python 3.11."""

from porism.tasks.blocks.manual import manual
from porism.tasks.blocks.texts import EOS
from porism.tasks.language.data.files import Text


def embedded() -> Text:
    """The manual's words, split by topic, a sentence a line."""
    return Text(
        {split: _lines(words) for split, words in manual().items()}, published_split=False, how_split="by topic"
    )


def _lines(words: list[str]) -> str:
    return "".join("\n" if word == EOS else f"{word} " for word in words)
