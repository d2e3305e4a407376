"""Texts for language and words, from installed packages."""

import email
import inspect
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from untuned_sets.data_set import DataSet

MOST_BYTES = 120_000
"""Of a text: the default recipe takes about half a minute for it on two cores."""


def numpy_docs(path: Path) -> None:
    docs = (inspect.getdoc(getattr(np, name, None)) or "" for name in sorted(np.__all__))
    _write_text(path, docs)


def email_source(path: Path) -> None:
    _write_text(path, (file.read_text() for file in sorted(Path(str(email.__file__)).parent.glob("*.py"))))


def sklearn_descriptions(path: Path) -> None:
    _write_text(path, (file.read_text() for file in sorted((_sklearn() / "datasets" / "descr").glob("*.rst"))))


def _sklearn() -> Path:
    import sklearn

    return Path(str(sklearn.__file__)).parent


def _write_text(path: Path, parts: Iterable[str]) -> None:
    path.write_bytes("\n\n".join(filter(None, parts)).encode()[:MOST_BYTES].decode(errors="ignore").encode())


TEXTS: dict[str, tuple[str, Callable[[Path], None]]] = {
    "numpy-docs": ("docstrings of numpy", numpy_docs),
    "email-source": ("source code of Python's package email", email_source),
    "sklearn-descriptions": ("scikit-learn's descriptions of its data", sklearn_descriptions),
}
SETS = [DataSet(task, name, *how, ".txt") for task in ("language", "words") for name, how in TEXTS.items()]
