"""The default corpus, which needs no network: the manual that every Python carries."""

from porism.tasks.blocks.manual import manual
from porism.tasks.language.data.files import Text


def embedded() -> Text:
    """The manual's words, split by topic."""
    return Text(manual(), published_split=False)
