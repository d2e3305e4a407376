"""The texts of the words task, from all their sources.

>>> corpus = load_corpus(None)                       # the Python manual
>>> "function" in corpus.vocabulary
True
"""

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from porism.errors import DataError, nearest
from porism.tasks.blocks.download import fetch
from porism.tasks.blocks.texts import PUBLIC, split_files, text_files
from porism.tasks.words.catalogue import CATALOGUE, NAME
from porism.tasks.words.data.corpus import ReadingOptions, StreamedCorpus, TextSource
from porism.tasks.words.data.embedded import embedded_texts
from porism.tasks.words.data.shards import Texts, can_be_shared, count_shard
from porism.tasks.words.data.vocabulary import WordCounts
from porism.training.distributed.processes import Processes, current


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
    reading = replace(reading or ReadingOptions(), tokenizer=tokenizer)
    processes = current()
    if processes.size > 1 and source not in CATALOGUE and can_be_shared(texts):
        shared = _counted_together(processes, source, texts, reading)
        if shared is not None:
            return shared
    return StreamedCorpus.counted(source, texts, reading)


_COUNTED: dict[tuple[str, ReadingOptions], StreamedCorpus] = {}
"""What this process has helped to count, for when it loads it."""


def _counted_together(
    processes: Processes, source: str, texts: Texts, reading: ReadingOptions
) -> StreamedCorpus | None:
    """The corpus as all processes have counted it, each its part of the text; None where one has to count alone."""
    if processes.rank:
        return _COUNTED.pop((source, reading), None)
    message = {"do": "help load", "task": "words"}
    how = {"source": source, "reading": asdict(reading)}
    processes.send({**message, "request": how})
    corpus = count_shard(processes, source, lambda: texts, reading)
    if corpus is not None:
        found = {
            "vocabulary": corpus.vocabulary.to_json(),
            "table": corpus.table.tolist(),
            "sha256": corpus.fingerprint,
        }
        processes.send({**message, "request": {**how, "counted": found}})
    return corpus


def help_load_corpus(processes: Processes, request: Mapping[str, Any]) -> None:
    """Count this process's part of a corpus that rank 0 loads, or take note of what all have counted."""
    source, reading = request["source"], ReadingOptions(**request["reading"])
    if (counted := request.get("counted")) is None:
        count_shard(processes, source, lambda: _texts(source), reading)
        return
    vocabulary, table = WordCounts.from_json(counted["vocabulary"]), np.array(counted["table"], np.int64)
    corpus = StreamedCorpus(source, _texts(source), reading, vocabulary, table, counted["sha256"], 0)
    _COUNTED.clear()
    _COUNTED[source, reading] = corpus


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
