"""The texts of the words task, from all their sources.

>>> corpus = load_corpus(None)                       # the Python manual
>>> "function" in corpus.vocabulary
True
"""

from dataclasses import replace
from pathlib import Path
from typing import Literal

from porism.errors import DataError, nearest
from porism.tasks.blocks.download import fetch
from porism.tasks.blocks.texts import PUBLIC, split_files, text_files
from porism.tasks.words.data.corpus import ReadingOptions, StreamedCorpus, TextSource
from porism.tasks.words.data.embedded import CATALOGUE as EMBEDDED
from porism.tasks.words.data.embedded import NAME, embedded_texts

CATALOGUE = {**EMBEDDED, **PUBLIC}
"""Texts known by name. Anything else is a path."""

Texts = dict[str, tuple[TextSource, ...]]


def load_corpus(
    source: str | None,
    reading: ReadingOptions | None = None,
    tokenizer: Literal["auto", "whitespace", "words"] = "auto",
) -> StreamedCorpus:
    """The corpus of a name or a path, its words counted; None is the manual.

    tokenizer: `auto` takes the words of a known corpus, or of a folder that brings its splits, as they are given, and
        cuts any other text into words and punctuation marks, as the language task does.
    """
    source = NAME if source is None else source
    texts = _texts(source)
    if tokenizer == "auto":
        tokenizer = "whitespace" if source in CATALOGUE or "valid" in texts else "words"
    return StreamedCorpus.counted(source, texts, replace(reading or ReadingOptions(), tokenizer=tokenizer))


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
        return {"train": (TextSource(str(path)),)}
    files = text_files(path)
    if named := split_files(path, files):
        return _one_each(named)
    return {"train": tuple(TextSource(str(file)) for file in files)}


def _one_each(files: dict[str, Path]) -> Texts:
    return {split: (TextSource(str(file)),) for split, file in files.items()}
