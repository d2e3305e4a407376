"""The default text: the manual of Python 3.11, a sentence a line."""

from porism.tasks.blocks.manual import manual
from porism.tasks.blocks.texts import EOS
from porism.tasks.words.catalogue import NAME
from porism.tasks.words.data.corpus import TextSource


def embedded_texts() -> dict[str, tuple[TextSource, ...]]:
    """
    >>> embedded_texts()["train"][0].name
    'manual, train'
    """
    return {split: (TextSource(f"{NAME}, {split}", _lines(words)),) for split, words in manual().items()}


def _lines(words: list[str]) -> bytes:
    """Words with an EOS after each sentence, as one sentence a line."""
    return " ".join("\n" if word == EOS else word for word in words).encode()
