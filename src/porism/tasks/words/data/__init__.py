"""The texts of the words task: where they come from, and what is held out.

>>> corpus = load_corpus(None)                       # the Python manual
>>> "function" in corpus.vocabulary
True
"""

from pathlib import Path

from porism.errors import DataError, nearest
from porism.tasks.blocks.download import fetch
from porism.tasks.blocks.texts import PUBLIC, split_files, text_files
from porism.tasks.words.data.corpus import Corpus, Reading, Text
from porism.tasks.words.data.embedded import CATALOGUE as EMBEDDED
from porism.tasks.words.data.embedded import NAME, embedded_texts

CATALOGUE = {**EMBEDDED, **PUBLIC}
"""Texts known by name. Anything else is a path."""

Texts = dict[str, tuple[Text, ...]]


def load_corpus(source: str | None, reading: Reading | None = None) -> Corpus:
    """The corpus of a name or a path, its words counted; None is the manual."""
    source = NAME if source is None else source
    return Corpus.counted(source, _texts(source), reading or Reading())


def _texts(source: str) -> Texts:
    if source == NAME:
        return embedded_texts()
    if source in PUBLIC:
        return _one_each({split: fetch(file) for split, file in PUBLIC[source].files.items()})
    path = Path(source).expanduser()
    if not path.exists():
        raise DataError(
            f"{source}: no such file or folder, and no text of that name. {nearest(source.lower(), list(CATALOGUE))}"
        )
    if not path.is_dir():
        return {"train": (Text(str(path)),)}
    files = text_files(path)
    if named := split_files(path, files):
        return _one_each(named)
    return {"train": tuple(Text(str(file)) for file in files)}


def _one_each(files: dict[str, Path]) -> Texts:
    return {split: (Text(str(file)),) for split, file in files.items()}
